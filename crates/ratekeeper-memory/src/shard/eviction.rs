//! Eviction: frees entries when a shard exceeds its byte budget, and sweeps keys that are back to their initial state.
//!
//! Candidates are examined in clock order. The first candidate in its initial state is removed; otherwise the one
//! closest to it. A limited key is never evicted: its limit could be reset by inventing new keys.
//!
//! Bound: at most [`CANDIDATES`] stored keys are examined per eviction, and at most [`EVICTIONS`] keys are evicted per
//! decision.

use std::collections::HashMap;

use ratekeeper_core::{
    Span, Timestamp,
    algorithm::{Algorithm, State},
    store_api::KeyState,
};

use super::{Shard, fits_entry, heap_bytes};
use crate::entry::{Entry, INLINE};

impl Shard {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes() + self.key_states.bytes() + self.long_keys.bytes() + self.heap + self.records.bytes()
    }

    /// Makes room for one more key; false if every candidate is limited.
    pub(super) fn make_room(&mut self, key_bytes: usize, key_state: &KeyState, now: Timestamp) -> bool {
        self.sweep(SWEEP_SLOTS, now);
        let spills = fits_entry(key_state, now).is_none();
        // Evicted keys leave free slab slots, so this shrinks while evicting.
        let wanted = |shard: &Self| {
            let long_key = if key_bytes > INLINE { key_bytes + shard.long_keys.growth_bytes() } else { 0 };
            long_key + if spills { heap_bytes(key_state) + shard.key_states.growth_bytes() } else { 0 }
        };
        if self.table.is_full() {
            let growth = (self.table.grown() - self.table.slots()) * size_of::<Entry>();
            if self.bytes() + wanted(self) + growth <= self.budget {
                self.resize(self.table.grown());
            }
        }
        let fits = |shard: &Self| !shard.table.is_full() && shard.bytes() + wanted(shard) <= shard.budget;
        self.evict_until(fits, now)
    }

    /// Makes room for a spilled state.
    pub(super) fn make_room_to_spill(&mut self, key_state: &KeyState, now: Timestamp) -> bool {
        self.evict_until(|shard| shard.has_room_to_spill(key_state), now)
    }

    pub(super) fn has_room_to_spill(&self, key_state: &KeyState) -> bool {
        self.bytes() + heap_bytes(key_state) + self.key_states.growth_bytes() <= self.budget
    }

    /// Evicts keys until there is enough room, but only a few: the cost of one decision stays bounded.
    pub(super) fn evict_until(&mut self, enough: impl Fn(&Self) -> bool, now: Timestamp) -> bool {
        for _ in 0..EVICTIONS {
            if enough(self) {
                return true;
            }
            if !self.evict(now) {
                return false;
            }
        }
        enough(self)
    }

    /// Evicts one key: the first candidate in its initial state, else the one closest to it.
    fn evict(&mut self, now: Timestamp) -> bool {
        let mut nearest: Option<(Timestamp, usize)> = None;
        let mut seen = 0;
        for _ in 0..self.table.slots() {
            let index = self.next_hand();
            let Some(cost) = self.eviction_cost(index, now) else { continue };
            if cost.reset_at <= now {
                self.remove(index);
                self.stats.expired += 1;
                return true;
            }
            if !cost.limited && nearest.is_none_or(|(reset_at, _)| cost.reset_at < reset_at) {
                nearest = Some((cost.reset_at, index));
            }
            seen += 1;
            if seen == CANDIDATES {
                break;
            }
        }
        let Some((_, index)) = nearest else { return false };
        self.remove(index);
        self.stats.evicted += 1;
        true
    }

    /// Examines `slots` slots and removes keys that are back to their initial state. Shrinks a table that is mostly empty.
    ///
    /// While the shard has room, a key that was charged a moment ago stays, and a hot one stays hot: most keys refill between
    /// two requests, and storing them anew each time costs several times as much as a decision.
    pub(crate) fn sweep(&mut self, slots: usize, now: Timestamp) {
        let kept_since = if self.bytes() <= self.budget / 2 { now - LINGER } else { Timestamp::MAX };
        for _ in 0..slots.min(2 * self.table.slots()) {
            let index = self.next_hand();
            self.demote_if_reset(index, kept_since, now);
            if self.eviction_cost(index, now).is_some_and(|cost| cost.reset_at <= now)
                && self.charged_at(index) < kept_since
            {
                self.remove(index);
                self.stats.expired += 1;
                self.hand = index; // the entry that moved up here has not been examined
            }
        }
        if self.table.slots() > KEEP_SLOTS && self.table.len() * 4 < self.table.slots() {
            self.resize((self.table.len() * 3 / 2).max(KEEP_SLOTS));
            self.compact();
        }
    }

    /// Compacts the slabs after the table has shrunk.
    fn compact(&mut self) {
        let (mut key_states, mut long_keys) = (HashMap::new(), HashMap::new());
        self.key_states.compact(|old, new| {
            key_states.insert(old, new);
        });
        self.long_keys.compact(|old, new| {
            long_keys.insert(old, new);
        });
        for index in 0..self.table.slots() {
            let entry = self.table.get_mut(index);
            if let Some(place) = entry.spilled().and_then(|old| key_states.get(&old)) {
                entry.set_spilled(*place);
            }
            if let Some(place) = entry.long_key().and_then(|old| long_keys.get(&old)) {
                entry.set_long_key(*place);
            }
        }
    }

    fn next_hand(&mut self) -> usize {
        let index = if self.hand < self.table.slots() { self.hand } else { 0 };
        self.hand = index + 1;
        index
    }

    /// When the key was charged last, as far as its meters show.
    fn charged_at(&self, index: usize) -> Timestamp {
        let entry = self.table.get(index);
        let charged_at = |state: &State| match state {
            State::Meter(meter) => meter.at,
            State::Log(log) => log.last(),
            State::Counter(counter) => counter.last(),
            State::Leases(leases) => leases.last(),
        };
        match (entry.meter(), entry.spilled().and_then(|place| self.key_states.get(place))) {
            (Some(meter), _) => meter.at,
            (None, Some(key_state)) => key_state.states.iter().map(charged_at).max().unwrap_or_default(),
            (None, None) => Timestamp::EPOCH,
        }
    }

    fn eviction_cost(&self, index: usize, now: Timestamp) -> Option<EvictionCost> {
        let entry = self.table.get(index);
        if entry.is_empty() || entry.is_hot() {
            return None;
        }
        let policy = self.versions.policy(entry.version())?;
        let (reset_at, exhausted) = match (entry.meter(), entry.spilled().and_then(|place| self.key_states.get(place)))
        {
            (Some(meter), _) => {
                let look = policy.rules().first().map(|rule| rule.algorithm().look(&State::Meter(meter), now));
                look.map_or((now, false), |look| (look.reset_at, look.remaining == 0))
            }
            // Checked out for a multi-key decision and about to come back: not evictable.
            (None, Some(key_state)) if key_state.states.len() < policy.rules().len() => (Timestamp::MAX, true),
            (None, Some(key_state)) => {
                let states = policy.rules().iter().zip(&key_state.states);
                let mut looks = states.map(|(rule, state)| rule.algorithm().look(state, now));
                let held_back = key_state.block.until.max(key_state.promised) > now;
                (policy.reset_at(key_state, now), held_back || looks.any(|look| look.remaining == 0))
            }
            (None, None) => (now, false),
        };
        Some(EvictionCost { reset_at, limited: exhausted || entry.was_denied() })
    }
}

/// What evicting a key would cost.
struct EvictionCost {
    reset_at: Timestamp,
    /// The key is at its limit, blocked, reserved ahead, or was denied since its last initial state.
    limited: bool,
}

/// Slots swept for every new key; more than one, or the table would grow faster than it is swept.
const SWEEP_SLOTS: usize = 3;
/// Keys compared per eviction.
const CANDIDATES: usize = 16;
/// Keys evicted at most for one new key, whose state may be larger than theirs.
const EVICTIONS: usize = 8;
/// How long a key that is back to its initial state stays after its last charge, while half of the budget is free.
const LINGER: Span = Span::from_secs(10);
/// Smaller tables are not shrunk.
const KEEP_SLOTS: usize = 256;
