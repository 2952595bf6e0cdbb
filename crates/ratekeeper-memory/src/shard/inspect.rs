//! The state of a key for explanations: read, and left as it is.

use ratekeeper_core::{Timestamp, algorithm::State, store_api::KeyState};

use super::{HashedKey, Shard};

impl Shard {
    /// A copy of the key's state, migrated to the current rules; that of a new key if none is stored. A hot key is demoted.
    pub(crate) fn inspect(&mut self, key: &HashedKey<'_>, now: Timestamp) -> KeyState {
        let target = key.policy.target();
        let Some(index) = self.find(key) else { return target.version.policy.fresh() };
        let entry = self.table.get(index);
        let state = match (entry.meter(), entry.spilled()) {
            (Some(meter), _) => KeyState { states: vec![State::Meter(meter)], ..KeyState::default() },
            (None, Some(place)) => self.key_states.get(place).cloned().unwrap_or_default(),
            (None, None) => KeyState::default(),
        };
        match self.versions.held(entry.version()) {
            Some(held) => held.node.migrate(&target, state, now),
            None => state,
        }
    }
}
