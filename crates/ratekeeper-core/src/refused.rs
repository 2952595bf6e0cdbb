//! Counting of refused requests: rules with [`count_refused`](crate::Rule::count_refused).
//!
//! Without the flag a refused take charges nothing. A rule with the flag is charged, for every refused take and on every
//! key of the request, as much of the cost as it has left: whichever rule, key or block denied it, whether or not the
//! caller would have waited, and also if the cost exceeds the limit (`never`). Rules without the flag are not charged.
//! A take of 0 charges nothing; under the flag it passes only while a permit is left.
//!
//! Invariant: a counted refusal never raises the level above the limit and never changes a reservation, because only what
//! is left *now* is charged. So a key that retries too early stays denied until the rule has recovered from the last
//! such request, and no longer.
//!
//! A denial reports the state after the charge: `remaining` and `reset_after` are those of the new state, and
//! `retry_after` is weighed again. Which rules denied was decided before it.

use crate::{
    algorithm::{Algorithm, AnyAlgorithm, Charge, State, Weighed},
    evaluation::Evaluation,
    policy::{KeyState, Policy, ReadyRule},
    request_key::RequestKey,
    time::Timestamp,
    verb::Take,
};

/// Weighs a cost under a rule that may count refused requests; a take of 0 then needs one permit to be left.
#[inline(always)]
pub(crate) fn weigh<A: Algorithm>(
    algorithm: &A,
    state: &A::State,
    cost: u64,
    counts_refused: bool,
    now: Timestamp,
) -> Weighed {
    if cost == 0 && counts_refused {
        return Weighed::at(algorithm.weigh(state, 1, now).free_at);
    }
    algorithm.weigh(state, cost, now)
}

/// Charges as much of the cost as is left; true if anything was.
pub(crate) fn charge_what_is_left(
    algorithm: &AnyAlgorithm,
    state: &mut State,
    cost: u64,
    take: &Take,
    now: Timestamp,
) -> bool {
    let cost = algorithm.look(state, now).remaining.min(cost);
    if cost > 0 {
        algorithm.charge(state, Charge { cost, at: now, lease: take.lease }, now);
    }
    cost > 0
}

impl Policy {
    /// Charges a refused take to the rules that count refused requests; true if anything was charged. For stores that
    /// decide several keys together and keep some of them in a separate count.
    pub fn count_refused(&self, key_state: &mut KeyState, cost: u64, take: &Take, now: Timestamp) -> bool {
        self.counts_refused() && self.request_key(key_state, cost).count_refused(take, false, now)
    }
}

impl RequestKey<'_> {
    /// Charges a refused take to the rules that count them. `denied`: whether the key's rules deny it, which counts towards
    /// its automatic block; not if another key of the request or a block does.
    pub(crate) fn count_refused(&mut self, take: &Take, denied: bool, now: Timestamp) -> bool {
        let mut counted = false;
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            if let AnyAlgorithm::AutoBlock(block) = rule.algorithm() {
                counted |= denied && self.cost > 0 && block.count(state.write().meter(), now);
            } else if rule.counts_refused() {
                counted |= charge_what_is_left(rule.algorithm(), state, self.cost, take, now);
            }
        }
        counted
    }

    /// Weighs the rules that count refused requests again, after they were charged.
    pub(crate) fn weigh_after(&self, take: &Take, now: Timestamp, evaluation: &mut Evaluation) {
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter()) {
            let counts = rule.changes_on_refusal();
            let weighed = if counts { rule.weigh(state, self.cost, now) } else { evaluation.before() };
            evaluation.add_after(rule, weighed, take, now);
        }
    }
}

impl ReadyRule {
    /// When the cost could go under this rule; `None` if it exceeds the limit.
    #[inline]
    pub(crate) fn weigh(&self, state: &State, cost: u64, now: Timestamp) -> Option<Weighed> {
        let algorithm = self.algorithm();
        let passes = cost <= algorithm.limit() || self.is_auto_block();
        passes.then(|| weigh(algorithm, state, cost, self.counts_refused(), now))
    }
}
