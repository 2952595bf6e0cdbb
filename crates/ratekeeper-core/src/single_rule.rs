//! Fast paths for policies with a single rule.
//!
//! | path | serves | equal to the general path by |
//! |---|---|---|
//! | [`SingleBucket`] | one enforced bucket, caller does not wait | ratekeeper-memory/tests/same_as_core.rs |
//! | [`Policy::take_metered`] | one enforced rule whose state is a [`Meter`] | ratekeeper-memory/tests/same_as_core.rs |
//!
//! They exist because most policies have a single rule and an in-process decision is a matter of nanoseconds;
//! docs/decisions/0003 has the figures.

use crate::{
    algorithm::{Algorithm, AnyAlgorithm, Bucket, Charge, Meter, Poured, Tried},
    bounds::MAX_TIME,
    evaluation::verdict_of,
    policy::Policy,
    refused::weigh,
    rule_decisions::RuleDecision,
    time::{Span, Timestamp},
    verb::Take,
    verdict::Verdict,
};

impl Policy {
    /// Fast path for policies with one enforcing rule whose state is a [`Meter`], on keys without reservation or block.
    /// `None` for any other policy; nothing was changed then. Equal to [`decide`](Self::decide).
    #[inline(always)]
    pub fn take_metered(&self, meter: &mut Meter, cost: u64, take: &Take, now: Timestamp) -> Option<MeteredTake> {
        let [rule] = self.rules() else { return None };
        if rule.is_shadow() {
            return None;
        }
        let single = SingleRule { horizon: self.horizon(), counts_refused: rule.counts_refused() };
        match rule.algorithm() {
            AnyAlgorithm::Bucket(bucket) => Some(single.take(bucket, meter, cost, take, now)),
            AnyAlgorithm::Stepwise(stepwise) => Some(single.take(stepwise, meter, cost, take, now)),
            AnyAlgorithm::Window(window) => Some(single.take(window, meter, cost, take, now)),
            AnyAlgorithm::Log(_) | AnyAlgorithm::Counter(_) | AnyAlgorithm::Leases(_) | AnyAlgorithm::AutoBlock(_) => {
                None
            }
        }
    }
}

/// The result of [`Policy::take_metered`].
#[derive(Debug)]
#[must_use]
pub struct MeteredTake {
    /// The rule's decision; [`Decision::of_one`](crate::Decision::of_one) makes a decision of it.
    pub rule: RuleDecision,
    /// Whether the meter was changed.
    pub changed: bool,
    /// When the permits go, if that is later than now: a reservation to store.
    pub promised: Option<Timestamp>,
}

/// What a single rule needs besides its algorithm.
#[derive(Clone, Copy)]
struct SingleRule {
    horizon: Span,
    counts_refused: bool,
}

impl SingleRule {
    #[inline(always)]
    fn take<A: Algorithm>(
        self,
        algorithm: &A,
        state: &mut A::State,
        cost: u64,
        take: &Take,
        now: Timestamp,
    ) -> MeteredTake {
        let Self { horizon, counts_refused } = self;
        let now = now.min(MAX_TIME);
        if take.max_wait == Span::ZERO
            && !counts_refused
            && let Some(tried) = algorithm.try_quickly(state, cost, now)
        {
            let rule = immediate_decision(algorithm, tried);
            return MeteredTake { rule, changed: rule.is_allowed(), promised: None };
        }
        let moved = algorithm.follow(state, now) > Span::ZERO;
        let (mut charged, mut promised) = (false, None);
        let mut verdict = if cost > algorithm.limit() {
            Verdict::Never
        } else {
            let weighed = weigh(algorithm, state, cost, counts_refused, now);
            let verdict = verdict_of(weighed, take, horizon, now);
            if let Verdict::Allow { .. } = verdict
                && cost > 0
            {
                let at = weighed.go_at;
                algorithm.charge(state, Charge { cost, at, lease: take.lease }, now);
                charged = true;
                promised = (at > now).then_some(at);
            }
            verdict
        };
        let mut look = algorithm.look(state, now);
        if counts_refused && !matches!(verdict, Verdict::Allow { .. }) {
            let left = look.remaining.min(cost);
            if left > 0 {
                algorithm.charge(state, Charge { cost: left, at: now, lease: take.lease }, now);
                charged = true;
                look = algorithm.look(state, now);
                if let Verdict::Deny { .. } = verdict {
                    verdict = verdict_of(algorithm.weigh(state, cost, now), take, horizon, now);
                }
            }
        }
        let (limit, remaining, reset_after) = (algorithm.limit(), look.remaining, look.reset_at.since(now));
        let rule = RuleDecision::new(verdict, limit, remaining, reset_after);
        MeteredTake { rule, changed: charged || moved, promised }
    }
}

/// Fast path for the commonest policy: one enforced bucket, not shaped, its rate not rounded, not counting refused
/// requests. It is small enough to copy into a store's policy handle.
#[derive(Clone, Copy, Debug)]
pub struct SingleBucket(Bucket);

impl SingleBucket {
    /// The bucket, if the policy is exactly that.
    pub fn of(policy: &Policy) -> Option<Self> {
        match policy.rules() {
            [rule] if !rule.is_shadow() && !rule.counts_refused() => match rule.algorithm() {
                AnyAlgorithm::Bucket(bucket) if !bucket.is_shaped() && !bucket.is_rounded() => Some(Self(*bucket)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Decides a take without a wait. Nothing is stored yet: the caller writes [`charged`](Self::charged) first, possibly
    /// against other threads. `None` if the caller would wait or the clock stepped back; [`Policy::take_metered`] then.
    #[inline(always)]
    pub fn take(&self, meter: Meter, cost: u64, take: &Take, now: Timestamp) -> Option<BucketTake> {
        if take.max_wait > Span::ZERO {
            return None;
        }
        self.0.pour(&meter, cost, now.min(MAX_TIME)).map(BucketTake)
    }

    /// The new state if the take is allowed; `None` if it is denied.
    #[inline(always)]
    pub fn charged(&self, BucketTake(poured): BucketTake, now: Timestamp) -> Option<Meter> {
        self.0.charged(poured, now.min(MAX_TIME))
    }

    /// The verdict alone.
    #[inline(always)]
    pub fn verdict(&self, BucketTake(poured): BucketTake) -> Verdict {
        immediate_verdict(self.0.retry_after(poured))
    }

    /// The verdict with its numbers.
    #[inline(always)]
    pub fn rule_decision(&self, BucketTake(poured): BucketTake) -> RuleDecision {
        immediate_decision(&self.0, self.0.tried(poured))
    }
}

/// A take that a [`SingleBucket`] has decided and the caller has not stored yet.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct BucketTake(Poured);

#[inline(always)]
fn immediate_decision(
    algorithm: &impl Algorithm,
    Tried { retry_after, remaining, reset_after }: Tried,
) -> RuleDecision {
    let verdict = immediate_verdict(retry_after);
    RuleDecision::new(verdict, algorithm.limit(), remaining, reset_after)
}

#[inline(always)]
fn immediate_verdict(retry_after: Span) -> Verdict {
    if retry_after == Span::ZERO { Verdict::Allow { wait: Span::ZERO } } else { Verdict::Deny { retry_after } }
}
