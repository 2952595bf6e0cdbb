//! Inline limits: policies whose numbers come with a request (`CL.THROTTLE`, Envoy's `limit` field, `rules` in a request).
//!
//! A policy is installed once for each set of numbers and cached, so that a request with known numbers costs one
//! lookup. Clients choose the numbers, so the [tables](table) are bounded: the least recently used policy makes room for a
//! new one, and is installed again when it is used again.

mod table;

use std::{collections::HashMap, sync::Arc};

use ratekeeper_core::{InlineLimits, OnQuotaChange, Policy, PolicyError, Quota, Rule, Span, Store, StoreError};

use crate::{
    request::{InlineRules, RequestError, RequestedLimit},
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

pub use self::table::MAX_INLINE_LIMITS;
use self::table::PolicyTable;

/// Installed policies by their numbers.
#[derive(Debug)]
pub(super) struct InlinePolicies {
    throttles: PolicyTable<Throttle>,
    limits: PolicyTable<(Box<str>, RequestedLimit)>,
    /// By domain and text of the rules.
    rules: PolicyTable<Box<str>>,
}

impl InlinePolicies {
    pub(super) fn new() -> Self {
        Self { throttles: PolicyTable::new(), limits: PolicyTable::new(), rules: PolicyTable::new() }
    }

    /// The token bucket with these numbers.
    #[inline]
    pub(super) fn throttle(
        &self,
        throttle: &Throttle,
        store: &AnyStore,
        telemetry: &Telemetry,
    ) -> Result<Arc<PolicyEntry>, RequestError> {
        self.throttles.get(
            throttle,
            || *throttle,
            telemetry,
            || {
                let Throttle { burst, count, period } = *throttle;
                let rule = Rule::gcra("throttle", Quota::per_micros(count, period).burst(burst));
                // One policy name for all numbers, so that a key has the same state whatever numbers it is used with.
                let policy = Policy::new("throttle", [rule]).and_then(|policy| policy.in_domain(THROTTLE_DOMAIN));
                install(policy, |policy| store.install_variant(policy), telemetry)
            },
        )
    }

    /// A token bucket with arbitrary numbers, for verbs whose effect does not depend on them. Prefers a cached one.
    pub(super) fn any_throttle(
        &self,
        store: &AnyStore,
        telemetry: &Telemetry,
    ) -> Result<Arc<PolicyEntry>, RequestError> {
        match self.throttles.any() {
            Some(entry) => Ok(entry),
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
        let key: (Box<str>, RequestedLimit) = (domain.into(), limit);
        self.limits.get(
            &key,
            || key.clone(),
            telemetry,
            || {
                let RequestedLimit { requests_per_unit, unit } = limit;
                let quota = Quota::per_micros(requests_per_unit, unit.span());
                let rule = Rule::fixed_window("requested", quota).count_refused(counts);
                let name = format!("requested={requests_per_unit}%per%{}", unit.name());
                let policy = Policy::new(name, [rule]).and_then(|policy| policy.in_domain(domain));
                install(policy, |policy| store.install(policy, OnQuotaChange::Keep), telemetry)
            },
        )
    }

    /// The policy of rules that came with a request. All sets of rules share one policy name in their domain, so that a key
    /// has one state whatever rules it is used with; rules are matched by name when they change.
    pub(super) fn rules(
        &self,
        domain: &str,
        rules: &InlineRules<'_>,
        store: &AnyStore,
        telemetry: &Telemetry,
    ) -> Result<Arc<PolicyEntry>, RequestError> {
        let key = format!("{domain}\0{}", rules.text);
        self.rules.get(
            key.as_str(),
            || key.as_str().into(),
            telemetry,
            || {
                let policy = Policy::new(INLINE_POLICY, (rules.read)(rules.text).map_err(RequestError::Invalid)?)
                    .and_then(|policy| policy.in_domain(domain));
                install(policy, |policy| store.install_variant(policy), telemetry)
            },
        )
    }

    /// A policy of [`INLINE_DOMAIN`] with arbitrary rules, for verbs whose effect does not depend on them. Its rule has the
    /// name of the first rule of `RK.TAKE`.
    pub(super) fn any_rules(&self, store: &AnyStore, telemetry: &Telemetry) -> Result<Arc<PolicyEntry>, RequestError> {
        let rules = InlineRules { text: "", read: |_| Ok(vec![Rule::gcra("1", Quota::per_second(1))]) };
        self.rules(INLINE_DOMAIN, &rules, store, telemetry)
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

/// The domain of throttles.
pub(super) const THROTTLE_DOMAIN: &str = "ratekeeper:throttle";

/// The domain of rules that come with a request without a domain.
pub const INLINE_DOMAIN: &str = "ratekeeper:inline";
/// The name of the policy of rules that come with a request.
const INLINE_POLICY: &str = "inline";
