//! Counting of refused requests: rules with [`count_refused`](crate::Rule::count_refused).
//!
//! Without the flag a refused take charges nothing. A rule that has it is charged, for every refused take and on every
//! key the take was asked for, as much of the cost as it has left at that moment: whichever rule, key or block refused
//! it, whether or not the caller would have waited, and also where the cost outweighs the limit (`never`). Rules
//! without the flag are not charged. A take of 0 charges nothing; under the flag it passes only while a permit is left.
//!
//! Invariant: a counted refusal never lifts the level above the limit and never touches a reservation, because only what
//! is left *now* is charged. So a key that is asked in vain again and again is locked until the rule has recovered from
//! the last such request, and no longer.
//!
//! What a refusal says is true after the charge: `remaining` and `reset_after` are those of the new state, and
//! `retry_after` is weighed again. Which rules refused was settled before it.

use crate::{
    algorithm::{Algorithm, Charge, Limiting, State, Weighed},
    decide::{Party, Weighing},
    policy::{Policy, ReadyRule, Subject},
    time::Micros,
    verb::Take,
};

/// Weighs a cost as a rule does that may count refused requests: a look then needs one permit to be left.
#[inline(always)]
pub(crate) fn weigh<A: Algorithm>(
    algorithm: &A,
    state: &A::State,
    cost: u64,
    counts_refused: bool,
    now: Micros,
) -> Weighed {
    if cost == 0 && counts_refused {
        return Weighed::at(algorithm.weigh(state, 1, now).free_at);
    }
    algorithm.weigh(state, cost, now)
}

/// Charges as much of the cost as is left. Says whether anything was.
pub(crate) fn charge_what_is_left(limiting: &Limiting, state: &mut State, take: &Take, now: Micros) -> bool {
    let cost = limiting.look(state, now).remaining.min(take.cost);
    if cost > 0 {
        limiting.charge(state, Charge { cost, at: now, lease: take.lease }, now);
    }
    cost > 0
}

impl Policy {
    /// Charges a refused take to the rules that count refused requests. For stores that decide several keys together
    /// and keep some of them in a separate count. Says whether anything was charged.
    pub fn count_refused(&self, subject: &mut Subject, take: &Take, now: Micros) -> bool {
        self.counts_refused() && self.party(subject).count_refused(take, now)
    }
}

impl Party<'_> {
    /// Charges a refused take to the rules that count them.
    pub(crate) fn count_refused(&mut self, take: &Take, now: Micros) -> bool {
        let mut counted = false;
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            if rule.counts_refused() {
                counted |= charge_what_is_left(rule.limiting(), state, take, now);
            }
        }
        counted
    }

    /// Weighs the rules that count refused requests again, after they were charged.
    pub(crate) fn weigh_after(&self, take: &Take, now: Micros, weighing: &mut Weighing) {
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter()) {
            let counts = rule.counts_refused();
            let weighed = if counts { rule.weigh(state, take.cost, now) } else { weighing.before() };
            weighing.add_after(rule, weighed, take, now);
        }
    }
}

impl ReadyRule {
    /// When a cost could go under this rule; `None` if it outweighs the limit.
    #[inline]
    pub(crate) fn weigh(&self, state: &State, cost: u64, now: Micros) -> Option<Weighed> {
        let limiting = self.limiting();
        (cost <= limiting.limit()).then(|| weigh(limiting, state, cost, self.counts_refused(), now))
    }
}
