//! Evaluation of a take: several rules, possibly of several keys, decided in one step.
//!
//! First every rule weighs the cost: at which time could it go? The request goes at the earliest time that suits all
//! enforcing rules, if the caller accepts that wait; then each rule is charged as of that time. If one rule denies, none
//! is charged, and the others report their numbers unchanged. (Rules that count refused requests are the exception; see
//! [`refused`](crate::refused).)
//!
//! Shadow rules are weighed and charged like the others, but never delay or deny a request.
//!
//! This is the general path and the specification of the fast paths in [`single_rule`](crate::single_rule).

use crate::{
    algorithm::{Algorithm, Charge, Weighed},
    bounds::MAX_TIME,
    decision::{Decision, Source},
    effect::Effect,
    evaluation::Evaluation,
    policy::{KeyState, Policy},
    refused::charge_what_is_left,
    request_key::{RequestKey, Step},
    time::{Span, Timestamp},
    verb::{Take, Verb},
};

impl Policy {
    /// Decides one verb for one key. `cost` is as in [`Ask::cost`](crate::Ask::cost).
    pub fn decide(&self, key_state: &mut KeyState, cost: u64, verb: &Verb, now: Timestamp) -> Step {
        debug_assert_eq!(key_state.states.len(), self.rules().len(), "the state belongs to this policy");
        self.request_key(key_state, cost).decide(verb, now)
    }
}

/// Decides one take for several keys: all of them, or none.
pub fn take_all(keys: &mut [RequestKey<'_>], take: &Take, now: Timestamp) -> Step {
    let now = now.min(MAX_TIME);
    let mut evaluation = Evaluation::start(now);
    let mut moved = false;
    let longest_wait = keys.iter().map(|key| key.policy.horizon()).fold(take.max_wait, Span::min);
    for key in &mut *keys {
        moved |= key.follow(now).0;
        key.weigh(longest_wait, now, &mut evaluation);
    }
    let at = evaluation.go_at;
    let refused = evaluation.refuses(take, now);
    let wanted = keys.iter().any(|key| key.cost > 0);
    let charged = wanted && !refused;
    let counts = wanted && keys.iter().any(|key| key.policy.changes_on_refusal());
    let mut counted = false;
    if charged {
        let mut weighed = evaluation.weighed.iter();
        for key in &mut *keys {
            key.charge(take, &mut weighed, at, now);
        }
    } else if counts {
        let mut rules = 0;
        for key in &mut *keys {
            let own = rules..rules + key.policy.rules().len();
            let denied = evaluation.denies(key.policy.rules(), own.clone(), take, now);
            counted |= key.count_refused(take, denied, now);
            rules = own.end;
        }
    }
    if counts {
        for key in &*keys {
            key.weigh_after(take, now, &mut evaluation);
        }
    }
    let rules = evaluation.rule_decisions(keys.iter().flat_map(|key| key.looks(now)), take, refused, now);
    let (verdict, decided_by) = evaluation.conclude(&rules, refused, now);
    let lease = (charged && keys.iter().any(|key| key.policy.has_leases())).then_some(take.lease);
    let decision =
        Decision { verdict, decided_by, source: Source::Store, decided_at: now, lease, granted: None, rules };
    Step { decision, changed: charged || counted || moved }
}

impl RequestKey<'_> {
    /// Decides one verb for this key.
    #[inline]
    pub(crate) fn decide(&mut self, verb: &Verb, now: Timestamp) -> Step {
        match verb {
            Verb::Take(take) => take_all(std::slice::from_mut(self), take, now),
            other => self.adjust(other, now.min(MAX_TIME)),
        }
    }

    #[inline]
    fn weigh(&self, longest_wait: Span, now: Timestamp, evaluation: &mut Evaluation) {
        evaluation.bound(self.block.until, self.policy.horizon());
        if self.policy.effect() == Effect::Deny && self.cost > 0 {
            evaluation.deny();
        }
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter()) {
            let weighed = match self.held.permits {
                0 => rule.weigh(state, self.cost, now),
                _ => rule.weigh_with_held(state, self.cost, self.held, longest_wait, now),
            };
            evaluation.add(rule, weighed);
        }
    }

    #[inline]
    fn charge<'w>(
        &mut self,
        take: &Take,
        weighed: &mut impl Iterator<Item = &'w Option<Weighed>>,
        at: Timestamp,
        now: Timestamp,
    ) {
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            let weighed = weighed.next().copied().flatten();
            if self.cost == 0 {
                continue; // only looks, while other keys are charged
            }
            // A shadow rule that would have denied is not charged, unless it counts refused requests. One that would have
            // delayed the request is charged as of that time.
            let passed = |weighed: &Weighed| !rule.is_shadow() || weighed.free_at.since(now) <= take.max_wait;
            let Some(weighed) = weighed.filter(passed) else {
                if rule.counts_refused() && !rule.is_auto_block() {
                    charge_what_is_left(rule.algorithm(), state, self.cost, take, now);
                }
                continue;
            };
            let at = at.max(weighed.free_at);
            rule.algorithm().charge(state, Charge { cost: self.cost, at, lease: take.lease }, now);
        }
        if at > now && self.cost > 0 {
            *self.promised = (*self.promised).max(at);
        }
    }
}
