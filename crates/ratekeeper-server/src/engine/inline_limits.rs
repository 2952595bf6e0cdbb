//! Inline limits: policies whose numbers come with a request (`CL.THROTTLE`, Envoy's `limit` field).
//!
//! A policy is installed once for each set of numbers and cached, so that a request with known numbers costs one
//! lookup.
//!
//! Bound: clients choose the numbers, so each of the two tables holds at most [`MAX_INLINE_LIMITS`] policies. Nothing
//! is evicted; requests with further numbers are refused.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use ratekeeper_core::{InlineLimits, OnQuotaChange, Policy, PolicyError, Quota, Rule, Span, Store, StoreError};

use crate::{
    request::{RequestError, RequestedLimit},
    rulebook::PolicyEntry,
    telemetry::Telemetry,
    wiring::{AnyPolicy, AnyStore},
};

/// The numbers of a token bucket, as a request gives them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Throttle {
    /// Permits that can be admitted at one instant.
    pub burst: u64,
    /// Permits per period.
    pub count: u64,
    /// The period.
    pub period: Span,
}

/// Installed policies by their numbers.
#[derive(Debug)]
pub(super) struct InlinePolicies {
    throttles: PolicyTable<Throttle>,
    limits: PolicyTable<(Box<str>, RequestedLimit)>,
}

#[derive(Debug)]
struct PolicyTable<K> {
    known: ArcSwap<HashMap<K, Arc<PolicyEntry>>>,
    /// Serializes insertions, so that a policy is installed only once.
    adding: Mutex<()>,
}

impl InlinePolicies {
    pub(super) fn new() -> Self {
        Self { throttles: PolicyTable::new(), limits: PolicyTable::new() }
    }

    /// The token bucket with these numbers.
    #[inline]
    pub(super) fn throttle(
        &self,
        throttle: &Throttle,
        store: &AnyStore,
        telemetry: &Telemetry,
    ) -> Result<Arc<PolicyEntry>, RequestError> {
        self.throttles.get(throttle, telemetry, || {
            let Throttle { burst, count, period } = *throttle;
            let rule = Rule::gcra("throttle", Quota::per_micros(count, period).burst(burst));
            // One policy name for all numbers, so that a key has the same state whatever numbers it is used with.
            let policy = Policy::new("throttle", [rule]).and_then(|policy| policy.in_domain(THROTTLE_DOMAIN));
            install(policy, |policy| store.install_variant(policy), telemetry)
        })
    }

    /// A token bucket with arbitrary numbers, for verbs whose effect does not depend on them. Prefers a cached one.
    pub(super) fn any_throttle(
        &self,
        store: &AnyStore,
        telemetry: &Telemetry,
    ) -> Result<Arc<PolicyEntry>, RequestError> {
        match self.throttles.known.load().values().next() {
            Some(entry) => Ok(Arc::clone(entry)),
            None => self.throttle(&Throttle { burst: 1, count: 1, period: Span::SECOND }, store, telemetry),
        }
    }

    /// The fixed window with these numbers, in this domain. `counts`: whether it counts refused requests.
    pub(super) fn limit(
        &self,
        domain: &str,
        limit: RequestedLimit,
        counts: bool,
        store: &AnyStore,
        telemetry: &Telemetry,
    ) -> Result<Arc<PolicyEntry>, RequestError> {
        self.limits.get(&(domain.into(), limit), telemetry, || {
            let RequestedLimit { requests_per_unit, unit } = limit;
            let quota = Quota::per_micros(requests_per_unit, unit.span());
            let rule = Rule::fixed_window("requested", quota).count_refused(counts);
            let name = format!("requested={requests_per_unit}%per%{}", unit.name());
            let policy = Policy::new(name, [rule]).and_then(|policy| policy.in_domain(domain));
            install(policy, |policy| store.install(policy, OnQuotaChange::Keep), telemetry)
        })
    }
}

impl<K: Clone + Eq + Hash> PolicyTable<K> {
    fn new() -> Self {
        Self { known: ArcSwap::default(), adding: Mutex::new(()) }
    }

    #[inline]
    fn get(
        &self,
        key: &K,
        telemetry: &Telemetry,
        make: impl FnOnce() -> Result<PolicyEntry, RequestError>,
    ) -> Result<Arc<PolicyEntry>, RequestError> {
        match self.known.load().get(key) {
            Some(entry) => Ok(Arc::clone(entry)),
            None => self.add(key, telemetry, make),
        }
    }

    #[cold]
    fn add(
        &self,
        key: &K,
        telemetry: &Telemetry,
        make: impl FnOnce() -> Result<PolicyEntry, RequestError>,
    ) -> Result<Arc<PolicyEntry>, RequestError> {
        let _alone = self.adding.lock();
        let known = self.known.load();
        if let Some(entry) = known.get(key) {
            return Ok(Arc::clone(entry));
        }
        if known.len() >= MAX_INLINE_LIMITS {
            if telemetry.refused_inline_limits.inc() == 0 {
                tracing::warn!(
                    "{MAX_INLINE_LIMITS} different inline limits are in use; further ones are refused (logged once)"
                );
            }
            let message = format!(
                "more than {MAX_INLINE_LIMITS} different inline limits; use fewer, or put them into a rule file"
            );
            return Err(RequestError::Invalid(message));
        }
        let entry = Arc::new(make()?);
        let mut more = HashMap::clone(&known);
        more.insert(key.clone(), Arc::clone(&entry));
        self.known.store(Arc::new(more));
        Ok(entry)
    }
}

fn install(
    policy: Result<Policy, PolicyError>,
    install: impl FnOnce(Policy) -> Result<AnyPolicy, StoreError>,
    telemetry: &Telemetry,
) -> Result<PolicyEntry, RequestError> {
    let policy = policy.map_err(|error| RequestError::Invalid(format!("the inline limit: {error}")))?;
    Ok(PolicyEntry {
        stored: install(policy.clone())?,
        meters: telemetry.inline_meters(&policy),
        policy: Arc::new(policy),
        cost: 1,
        overrides: HashMap::new(),
        ban: None,
        shadow: false,
    })
}

/// The most sets of numbers of each kind (throttles, requested limits) that a server accepts.
pub const MAX_INLINE_LIMITS: usize = 4_096;

/// The domain of throttles.
pub(super) const THROTTLE_DOMAIN: &str = "ratekeeper:throttle";
