//! Hold times of leases, and the estimated wait of a request that a concurrency rule denies.
//!
//! A lease ends when it is released, at an unknown time, so the certain `retry_after` of a denial is the time until leases
//! expire. Most are released long before. [`HoldTimes`] averages the hold times that one process has seen, and estimates
//! from them when permits become free:
//!
//! ```text
//! estimated wait = mean hold time × permits that are missing ÷ limit       at most retry_after
//! ```
//!
//! With `limit` permits held for `mean` each, one is released every `mean ÷ limit` on average. The mean is exponentially
//! weighted, so it follows a service that becomes slower. Without an observation there is no estimate.
//!
//! Bound: 8 bytes per policy. The numbers are those of this process; leases that expired unreleased are not observed.

use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper_core::{DecidedBy, Decision, Policy, RuleDecision, Span, Verdict, algorithm::AnyAlgorithm};

/// The mean hold time of a policy's leases.
#[derive(Debug)]
pub struct HoldTimes {
    /// Microseconds; [`NOT_OBSERVED`] before the first observation.
    mean: AtomicU64,
}

impl Default for HoldTimes {
    fn default() -> Self {
        Self { mean: AtomicU64::new(NOT_OBSERVED) }
    }
}

impl HoldTimes {
    /// Adds the hold time of a lease that was released. Of observations at the same instant, one may be lost.
    pub fn observe(&self, held: Span) {
        let held = held.as_micros().min(NOT_OBSERVED - 1);
        let before = self.mean.load(Ordering::Relaxed);
        let mean = match before {
            NOT_OBSERVED => held,
            mean if held >= mean => mean + (held - mean).div_ceil(WEIGHT),
            mean => mean - (mean - held).div_ceil(WEIGHT),
        };
        self.mean.store(mean, Ordering::Relaxed);
    }

    /// The mean hold time; `None` before the first observation.
    pub fn mean(&self) -> Option<Span> {
        let mean = self.mean.load(Ordering::Relaxed);
        (mean != NOT_OBSERVED).then(|| Span::from_micros(mean))
    }

    /// The estimated wait of a request that was denied under this policy. `None` if no concurrency rule denied it, if its
    /// key is blocked, or without an observation. Rules of other algorithms count with their certain time.
    pub fn estimated_wait(&self, policy: &Policy, decision: &Decision, cost: u64) -> Option<Span> {
        self.estimated_wait_of(policy, &decision.rules, decision, cost)
    }

    /// The same for a decision that combines several policies: `rules` are those of this one.
    pub fn estimated_wait_of(
        &self,
        policy: &Policy,
        rules: &[RuleDecision],
        decision: &Decision,
        cost: u64,
    ) -> Option<Span> {
        let Verdict::Deny { retry_after: certain } = decision.verdict else { return None };
        if decision.decided_by == DecidedBy::Block || !policy.has_leases() {
            return None;
        }
        let mean = self.mean()?;
        let (mut longest, mut is_estimate) = (Span::ZERO, false);
        for (rule, decided) in policy.rules().iter().zip(rules) {
            let Verdict::Deny { retry_after } = decided.verdict else { continue };
            if decided.shadow {
                continue;
            }
            let wait = if matches!(rule.algorithm(), AnyAlgorithm::Leases(_)) {
                is_estimate = true;
                until_free(mean, cost.saturating_sub(decided.remaining).max(1), decided.limit).min(retry_after)
            } else {
                retry_after
            };
            longest = longest.max(wait);
        }
        is_estimate.then_some(longest.min(certain))
    }
}

/// The mean time until this many of `limit` held permits are released.
fn until_free(mean: Span, missing: u64, limit: u64) -> Span {
    let product = u128::from(mean.as_micros()) * u128::from(missing);
    Span::from_micros(u64::try_from(product.div_ceil(u128::from(limit.max(1)))).unwrap_or(u64::MAX))
}

/// An observation moves the mean by one eighth of the difference.
const WEIGHT: u64 = 8;

const NOT_OBSERVED: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratekeeper_core::{LeaseId, Quota, Rule, Take, Timestamp, Verb};

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

    /// The decision about the first request that these rules deny, at one instant.
    fn denied(policy: &Policy, cost: u64) -> Decision {
        let mut key = policy.fresh();
        for lease in 0..100 {
            let verb = Verb::Take(Take::now().with_lease(LeaseId(lease)));
            let decision = policy.decide(&mut key, cost, &verb, NOW).decision;
            if !decision.is_allowed() {
                return decision;
            }
        }
        panic!("never denied");
    }

    fn at_once(limit: u64) -> Rule {
        Rule::concurrency("at-once", limit, Duration::from_secs(60))
    }

    #[test]
    fn the_estimate_is_the_mean_time_between_releases() {
        let policy = Policy::new("p", [at_once(4)]).unwrap();
        let decision = denied(&policy, 1);
        assert_eq!(decision.verdict.retry_after_span(), Some(Span::from_secs(60)), "the certain time is the lease");
        let holds = HoldTimes::default();
        assert_eq!(holds.estimated_wait(&policy, &decision, 1), None, "nothing was observed");
        holds.observe(Span::from_secs(2));
        assert_eq!(holds.estimated_wait(&policy, &decision, 1), Some(Span::from_millis(500)));
        assert_eq!(holds.estimated_wait(&policy, &decision, 3), Some(Span::from_millis(1_500)), "three are missing");
    }

    #[test]
    fn the_estimate_never_exceeds_the_certain_time() {
        let policy = Policy::new("p", [at_once(1)]).unwrap();
        let holds = HoldTimes::default();
        for held in [Span::from_secs(3_600), Span::from_micros(u64::MAX)] {
            holds.observe(held);
            assert_eq!(holds.estimated_wait(&policy, &denied(&policy, 1), 1), Some(Span::from_secs(60)));
        }
    }

    #[test]
    fn other_rules_count_with_their_certain_time() {
        let policy = Policy::new("p", [at_once(1), Rule::fixed_window("few", Quota::per_hour(1))]).unwrap();
        let decision = denied(&policy, 1);
        let certain = decision.rules[1].verdict.retry_after_span().unwrap();
        let holds = HoldTimes::default();
        holds.observe(Span::from_secs(1));
        let expected = certain.max(Span::from_secs(1)).min(decision.verdict.retry_after_span().unwrap());
        assert_eq!(holds.estimated_wait(&policy, &decision, 1), Some(expected));

        let watched =
            Policy::new("p", [at_once(1).shadow(true), Rule::fixed_window("few", Quota::per_hour(1))]).unwrap();
        assert_eq!(holds.estimated_wait(&watched, &denied(&watched, 1), 1), None, "no enforced rule has leases");
    }

    #[test]
    fn the_mean_follows_a_service_that_becomes_slower_and_faster() {
        let holds = HoldTimes::default();
        holds.observe(Span::from_secs(1));
        for _ in 0..200 {
            holds.observe(Span::from_secs(10));
        }
        assert_eq!(holds.mean(), Some(Span::from_secs(10)), "it arrives, without a rest of rounding");
        for _ in 0..200 {
            holds.observe(Span::ZERO);
        }
        assert_eq!(holds.mean(), Some(Span::ZERO));
    }
}
