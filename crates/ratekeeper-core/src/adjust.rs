//! Verbs other than a take: refund, settle, penalize, block, release, reset.
//!
//! A return of permits must not break a reservation. With one permit a second and reservations for the first and the
//! second second, handing the cancelled first one to a new request would let two go at the second. So a permit returns
//! only if no reservation is later: none is outstanding, or the cancelled one is the last. Otherwise it counts as spent.
//! (The sliding log stores each admission and can return any of them.)

use crate::{
    algorithm::{Algorithm, AnyAlgorithm, Charge, GiveBack, LeaseId, Look, State},
    bounds::MAX_WAIT,
    combine::least_remaining,
    decision::{DecidedBy, Decision, Source},
    evaluation::rule_decision,
    policy::{Block, ReadyRule},
    request_key::{RequestKey, Step},
    rule_decisions::RuleDecisions,
    time::{Span, Timestamp},
    verb::{Release, Verb},
    verdict::Verdict,
};

/// The state of a key as a decision: what a take of 0 would get.
pub(crate) fn key_status<'a>(
    looks: impl Iterator<Item = (&'a ReadyRule, Look)>,
    blocked_until: Timestamp,
    lease: Option<LeaseId>,
    now: Timestamp,
) -> Decision {
    let allow = Verdict::Allow { wait: Span::ZERO };
    let rules = RuleDecisions::collect(looks.map(|(rule, look)| rule_decision(rule, look, allow, now)));
    let (verdict, decided_by) = if blocked_until > now {
        (Verdict::Deny { retry_after: blocked_until.since(now) }, DecidedBy::Block)
    } else {
        (allow, least_remaining(&rules))
    };
    Decision { verdict, decided_by, source: Source::Store, decided_at: now, lease, granted: None, rules }
}

impl RequestKey<'_> {
    /// Carries out any verb but a take.
    pub fn adjust(&mut self, verb: &Verb, now: Timestamp) -> Step {
        let (cost, (moved, _)) = (self.cost, self.follow(now));
        let (changed, lease) = match *verb {
            // Stores resolve ids before they come here.
            Verb::Take(_) | Verb::Peek | Verb::Commit { .. } | Verb::Cancel { .. } | Verb::Expire { .. } => {
                (false, None)
            }
            Verb::Refund { at } => (self.give_back(cost, at, None, now), None),
            Verb::Undo { at, lease } => (self.give_back(cost, Some(at), lease, now), None),
            Verb::Settle { actual, at } if actual <= cost => (self.give_back(cost - actual, at, None, now), None),
            Verb::Settle { actual, .. } => (self.penalize(actual - cost, now), None),
            Verb::Penalize => (self.penalize(cost, now), None),
            Verb::Block { span } => {
                let until = now + span.min(MAX_WAIT);
                *self.block = if until == now { Block::default() } else { Block { since: now, until } };
                if until == now {
                    self.end_auto_blocks();
                }
                (true, None)
            }
            Verb::Release(Release::Lease(id)) => self.with_lease(id, |rule, state| match (rule, state) {
                (AnyAlgorithm::Leases(leases), State::Leases(held)) => leases.release(held, id, now),
                _ => false,
            }),
            Verb::Release(Release::Oldest) => (self.release_oldest(cost, now), None),
            Verb::Heartbeat(id) => self.with_lease(id, |rule, state| match (rule, state) {
                (AnyAlgorithm::Leases(leases), State::Leases(held)) => leases.heartbeat(held, id, now),
                _ => false,
            }),
            Verb::Reset => {
                self.states.fill_with(State::default);
                *self.promised = Timestamp::EPOCH;
                *self.block = Block::default();
                (true, None)
            }
        };
        let decision = key_status(self.looks(now), self.block.until, lease, now);
        Step { decision, changed: changed || moved }
    }

    fn give_back(&mut self, cost: u64, at: Option<Timestamp>, lease: Option<LeaseId>, now: Timestamp) -> bool {
        if cost == 0 {
            return false;
        }
        let outstanding = *self.promised > now;
        let cancels_last = outstanding && at.is_some_and(|at| self.is_last_in_line(cost, at, now));
        let back = GiveBack { cost, at, lease, last_in_line: !outstanding || cancels_last };
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            rule.algorithm().give_back(state, back, now);
        }
        if cancels_last && !self.held.hides_queue {
            let ends = self.policy.rules().iter().zip(self.states.iter());
            let next = ends.map(|(rule, state)| rule.algorithm().line_ends(state, now)).max().unwrap_or(now);
            *self.promised = next.min(*self.promised);
        }
        true
    }

    /// A single rule knows the end of its queue. With several rules, or allotments, only the latest reservation of the key
    /// counts.
    fn is_last_in_line(&self, cost: u64, at: Timestamp, now: Timestamp) -> bool {
        match (self.policy.rules(), &*self.states) {
            ([rule], [state]) if !self.held.hides_queue => rule.algorithm().is_last_in_line(state, cost, at, now),
            _ => at >= *self.promised,
        }
    }

    fn penalize(&mut self, cost: u64, now: Timestamp) -> bool {
        if cost == 0 {
            return false;
        }
        let charge = Charge { cost, at: now, lease: LeaseId(0) };
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            rule.algorithm().penalize(state, charge, now);
        }
        true
    }

    /// Ends an automatic block, and forgets the denials counted towards the next.
    fn end_auto_blocks(&mut self) {
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            if rule.is_auto_block() {
                *state = State::default();
            }
        }
    }

    fn release_oldest(&mut self, permits: u64, now: Timestamp) -> bool {
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            if let (AnyAlgorithm::Leases(leases), State::Leases(held)) = (rule.algorithm(), state) {
                leases.release_oldest(held, permits, now);
            }
        }
        true
    }

    /// Applies `act` to a lease under every concurrency rule; returns the lease if any rule had it.
    fn with_lease(
        &mut self,
        id: LeaseId,
        mut act: impl FnMut(&AnyAlgorithm, &mut State) -> bool,
    ) -> (bool, Option<LeaseId>) {
        let mut held = false;
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            held |= act(rule.algorithm(), state);
        }
        (held, held.then_some(id))
    }
}
