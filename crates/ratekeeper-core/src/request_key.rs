//! One key of a request: its policy, its state and its cost.

use crate::{
    algorithm::{Algorithm, Look, State, stepped_back},
    decision::Decision,
    held::Held,
    policy::{Block, KeyState, Policy, ReadyRule},
    time::{Span, Timestamp},
};

/// One key of a request: its policy, its state and its cost.
pub struct RequestKey<'a> {
    /// The rules.
    pub policy: &'a Policy,
    /// Time of the latest reservation.
    pub promised: &'a mut Timestamp,
    /// The block on the key, if any.
    pub block: &'a mut Block,
    /// One state per rule.
    pub states: &'a mut [State],
    /// Permits requested for this key; 0 looks only.
    pub cost: u64,
    /// Permits of the key that processes hold in advance.
    pub held: Held,
}

/// A decision, and whether the state has changed.
#[derive(Debug)]
#[must_use]
pub struct Step {
    /// The result.
    pub decision: Decision,
    /// Whether a state was changed and must be stored. Denials and peeks change none, unless a rule counts refused requests
    /// or the clock has stepped back beyond its tolerance.
    pub changed: bool,
}

impl Policy {
    /// One key of a request under this policy.
    pub fn request_key<'a>(&'a self, key_state: &'a mut KeyState, cost: u64) -> RequestKey<'a> {
        let KeyState { promised, block, states, .. } = key_state;
        RequestKey { policy: self, promised, block, states, cost, held: Held::NONE }
    }
}

impl RequestKey<'_> {
    /// Clock guard: moves all stored times back if the clock has stepped back beyond the tolerance. True if it did; and by
    /// how much the rules did.
    #[inline]
    pub(crate) fn follow(&mut self, now: Timestamp) -> (bool, Span) {
        let mut furthest = Span::ZERO;
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            furthest = furthest.max(rule.algorithm().follow(state, now));
        }
        *self.promised = *self.promised - furthest;
        let back = stepped_back(self.block.since, now, Span::SECOND);
        *self.block = Block { since: self.block.since - back, until: self.block.until - back };
        (furthest > Span::ZERO || back > Span::ZERO, furthest)
    }

    /// Every rule with its present numbers.
    pub(crate) fn looks(&self, now: Timestamp) -> impl Iterator<Item = (&ReadyRule, Look)> {
        self.policy
            .rules()
            .iter()
            .zip(self.states.iter())
            .map(move |(rule, state)| (rule, rule.look_with_held(state, self.held, now)))
    }
}
