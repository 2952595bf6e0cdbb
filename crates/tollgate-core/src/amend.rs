//! The verbs that change a key without asking whether they may: refund, settle, penalize, block, release, reset.
//!
//! Giving back must not break a promise. With one permit a second and reservations for the first and the second
//! second, handing the cancelled first one to a newcomer would let two go at the second. So a permit returns only where
//! nobody stands behind it: no reservation is outstanding, or the one cancelled is the last. Otherwise it counts as
//! spent. (The logs know each moment and are free to return any.)

use crate::{
    algorithm::{Algorithm, Charge, GiveBack, LeaseId, Limiting, Look, State},
    bounds::MAX_WAIT,
    decide::{Party, Step, least_remaining, told_of},
    decision::{DecidedBy, Decision, Source, Verdict},
    policy::{Block, ReadyRule},
    rules_told::RulesTold,
    time::Micros,
    verb::{Release, Verb},
};

/// The key as it stands: what a take of nothing would be told.
pub(crate) fn stands<'a>(
    looks: impl Iterator<Item = (&'a ReadyRule, Look)>,
    blocked_until: Micros,
    lease: Option<LeaseId>,
    now: Micros,
) -> Decision {
    let passes = Verdict::Allow { wait: Micros::ZERO };
    let rules = RulesTold::collect(looks.map(|(rule, look)| told_of(rule, look, passes, now)));
    let (verdict, decided_by) = if blocked_until > now {
        (Verdict::Deny { retry_after: blocked_until - now }, DecidedBy::Block)
    } else {
        (passes, least_remaining(&rules))
    };
    Decision { verdict, decided_by, source: Source::Store, decided_at: now, lease, rules }
}

impl Party<'_> {
    /// Carries out any verb but a take.
    pub fn amend(&mut self, verb: &Verb, now: Micros) -> Step {
        let moved = self.follow(now);
        let (changed, lease) = match *verb {
            Verb::Take(_) | Verb::Peek => (false, None),
            Verb::Refund { cost, at } => (self.give_back(cost, at, None, now), None),
            Verb::Undo { cost, at, lease } => (self.give_back(cost, Some(at), lease, now), None),
            Verb::Settle { reserved, actual, at } if actual <= reserved => {
                (self.give_back(reserved - actual, at, None, now), None)
            }
            Verb::Settle { reserved, actual, .. } => (self.penalize(actual - reserved, now), None),
            Verb::Penalize { cost } => (self.penalize(cost, now), None),
            Verb::Block { span } => {
                let until = now + span.min(MAX_WAIT);
                *self.block = if until == now { Block::default() } else { Block { since: now, until } };
                (true, None)
            }
            Verb::Release(Release::Lease(id)) => self.with_lease(id, |rule, state| match (rule, state) {
                (Limiting::Leases(leases), State::Leases(held)) => leases.release(held, id, now),
                _ => false,
            }),
            Verb::Release(Release::Oldest(permits)) => (self.release_oldest(permits, now), None),
            Verb::Heartbeat(id) => self.with_lease(id, |rule, state| match (rule, state) {
                (Limiting::Leases(leases), State::Leases(held)) => leases.heartbeat(held, id, now),
                _ => false,
            }),
            Verb::Reset => {
                self.states.fill_with(State::default);
                *self.promised = Micros::ZERO;
                *self.block = Block::default();
                (true, None)
            }
        };
        let decision = stands(self.looks(now), self.block.until, lease, now);
        Step { decision, changed: changed || moved }
    }

    fn give_back(&mut self, cost: u64, at: Option<Micros>, lease: Option<LeaseId>, now: Micros) -> bool {
        if cost == 0 {
            return false;
        }
        let outstanding = *self.promised > now;
        let cancels_last = outstanding && at.is_some_and(|at| self.is_last_in_line(cost, at, now));
        let back = GiveBack { cost, at, lease, last_in_line: !outstanding || cancels_last };
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            rule.limiting().give_back(state, back, now);
        }
        if cancels_last {
            let ends = self.policy.rules().iter().zip(self.states.iter());
            let next = ends.map(|(rule, state)| rule.limiting().line_ends(state, now)).max().unwrap_or(now);
            *self.promised = next.min(*self.promised);
        }
        true
    }

    /// Where one rule alone made the line, it knows best; where several did, only the last moment told to anybody counts.
    fn is_last_in_line(&self, cost: u64, at: Micros, now: Micros) -> bool {
        match (self.policy.rules(), &*self.states) {
            ([rule], [state]) => rule.limiting().is_last_in_line(state, cost, at, now),
            _ => at >= *self.promised,
        }
    }

    fn penalize(&mut self, cost: u64, now: Micros) -> bool {
        if cost == 0 {
            return false;
        }
        let charge = Charge { cost, at: now, lease: LeaseId(0) };
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            rule.limiting().penalize(state, charge, now);
        }
        true
    }

    fn release_oldest(&mut self, permits: u64, now: Micros) -> bool {
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            if let (Limiting::Leases(leases), State::Leases(held)) = (rule.limiting(), state) {
                leases.release_oldest(held, permits, now);
            }
        }
        true
    }

    /// Does something to one lease under every rule that keeps it; names the lease if any did.
    fn with_lease(
        &mut self,
        id: LeaseId,
        mut act: impl FnMut(&Limiting, &mut State) -> bool,
    ) -> (bool, Option<LeaseId>) {
        let mut held = false;
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            held |= act(rule.limiting(), state);
        }
        (held, held.then_some(id))
    }
}
