//! Policies whose numbers come with a call instead of from a rule file.
//!
//! Made once for each set of numbers and kept, so that a call with known numbers costs one lookup. Callers choose the
//! numbers, so the table has an end ([`MAX_ADHOC`]): limits computed on the fly belong into rule files.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate_core::{Carry, Micros, Policy, PolicyError, Quota, Rule, Store, StoreError};

use super::{AskError, RequestedLimit};
use crate::{
    rulebook::Limited,
    telemetry::Telemetry,
    wiring::{Storage, StoredPolicy},
};

/// The numbers of a token bucket, as they come with a call.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Throttle {
    /// Permits at one instant.
    pub burst: u64,
    /// Permits per period.
    pub count: u64,
    /// The period.
    pub period: Micros,
}

/// Policies by their numbers.
#[derive(Debug)]
pub(super) struct Adhoc {
    throttles: Table<Throttle>,
    limits: Table<(Box<str>, RequestedLimit)>,
}

#[derive(Debug)]
struct Table<K> {
    known: ArcSwap<HashMap<K, Arc<Limited>>>,
    /// One newcomer at a time, so that nobody is told to the store twice.
    adding: Mutex<()>,
}

impl Adhoc {
    pub(super) fn new() -> Self {
        Self { throttles: Table::new(), limits: Table::new() }
    }

    /// The bucket with these numbers.
    #[inline]
    pub(super) fn throttle(
        &self,
        throttle: &Throttle,
        store: &Storage,
        telemetry: &Telemetry,
    ) -> Result<Arc<Limited>, AskError> {
        self.throttles.get(throttle, telemetry, || {
            let Throttle { burst, count, period } = *throttle;
            let rule = Rule::gcra("throttle", Quota::per_micros(count, period).burst(burst));
            // One name for all numbers: a key asked about under others is still the same key.
            let policy = Policy::new("throttle", [rule]).and_then(|policy| policy.in_domain(THROTTLE_DOMAIN));
            limited(policy, |policy| store.install_beside(policy), telemetry)
        })
    }

    /// A bucket of numbers that are known already, else of some: for what does not depend on them.
    pub(super) fn any_throttle(&self, store: &Storage, telemetry: &Telemetry) -> Result<Arc<Limited>, AskError> {
        match self.throttles.known.load().values().next() {
            Some(limited) => Ok(Arc::clone(limited)),
            None => self.throttle(&Throttle { burst: 1, count: 1, period: Micros::SECOND }, store, telemetry),
        }
    }

    /// The window with these numbers, in this domain; `counts` says whether it counts refused requests.
    pub(super) fn limit(
        &self,
        domain: &str,
        limit: RequestedLimit,
        counts: bool,
        store: &Storage,
        telemetry: &Telemetry,
    ) -> Result<Arc<Limited>, AskError> {
        self.limits.get(&(domain.into(), limit), telemetry, || {
            let RequestedLimit { requests_per_unit, unit } = limit;
            let quota = Quota::per_micros(requests_per_unit, unit.span());
            let rule = Rule::fixed_window("requested", quota).count_refused(counts);
            let name = format!("requested={requests_per_unit}%per%{}", unit.name());
            let policy = Policy::new(name, [rule]).and_then(|policy| policy.in_domain(domain));
            limited(policy, |policy| store.install(policy, Carry::Keep), telemetry)
        })
    }
}

impl<K: Clone + Eq + Hash> Table<K> {
    fn new() -> Self {
        Self { known: ArcSwap::default(), adding: Mutex::new(()) }
    }

    #[inline]
    fn get(
        &self,
        key: &K,
        telemetry: &Telemetry,
        make: impl FnOnce() -> Result<Limited, AskError>,
    ) -> Result<Arc<Limited>, AskError> {
        match self.known.load().get(key) {
            Some(limited) => Ok(Arc::clone(limited)),
            None => self.add(key, telemetry, make),
        }
    }

    #[cold]
    fn add(
        &self,
        key: &K,
        telemetry: &Telemetry,
        make: impl FnOnce() -> Result<Limited, AskError>,
    ) -> Result<Arc<Limited>, AskError> {
        let _alone = self.adding.lock();
        let known = self.known.load();
        if let Some(limited) = known.get(key) {
            return Ok(Arc::clone(limited));
        }
        if known.len() >= MAX_ADHOC {
            if telemetry.refused_numbers.inc() == 0 {
                tracing::warn!(
                    "{MAX_ADHOC} different limits have come with requests; further ones are refused (said once)"
                );
            }
            let message = format!(
                "more than {MAX_ADHOC} different limits have come with requests; use fewer, or put them into a rule file"
            );
            return Err(AskError::Bad(message));
        }
        let limited = Arc::new(make()?);
        let mut more = HashMap::clone(&known);
        more.insert(key.clone(), Arc::clone(&limited));
        self.known.store(Arc::new(more));
        Ok(limited)
    }
}

fn limited(
    policy: Result<Policy, PolicyError>,
    install: impl FnOnce(Policy) -> Result<StoredPolicy, StoreError>,
    telemetry: &Telemetry,
) -> Result<Limited, AskError> {
    let policy = policy.map_err(|error| AskError::Bad(format!("the numbers that came with the call: {error}")))?;
    Ok(Limited {
        stored: install(policy.clone())?,
        meters: telemetry.adhoc_meters(&policy),
        policy: Arc::new(policy),
        cost: 1,
        exceptions: HashMap::new(),
    })
}

/// Sets of numbers that may come with calls, of either kind.
pub const MAX_ADHOC: usize = 4_096;

/// Where throttles count; no rule file is about it.
pub(super) const THROTTLE_DOMAIN: &str = "tollgate:throttle";
