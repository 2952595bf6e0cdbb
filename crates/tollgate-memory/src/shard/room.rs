//! Room: what it takes, how it is made, and who is let go.

use std::collections::HashMap;

use tollgate_core::{
    Micros, Subject,
    algorithm::{Algorithm, State},
};

use super::{Shard, fits_entry, heap_bytes};
use crate::entry::{Entry, INLINE};

impl Shard {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes() + self.subjects.bytes() + self.long_keys.bytes() + self.heap
    }

    /// Makes room for one more key; false if all that could go are being limited.
    pub(super) fn make_room(&mut self, key_bytes: usize, subject: &Subject, now: Micros) -> bool {
        self.look_around(LOOK_AT, now);
        let beside = fits_entry(subject, now).is_none();
        // What is wanted shrinks with every key that goes and leaves its place beside the table.
        let wanted = |shard: &Self| {
            let long_key = if key_bytes > INLINE { key_bytes + shard.long_keys.growth_bytes() } else { 0 };
            long_key + if beside { heap_bytes(subject) + shard.subjects.growth_bytes() } else { 0 }
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

    /// Makes room to remember that somebody waits.
    pub(super) fn make_room_beside(&mut self, subject: &Subject, now: Micros) -> bool {
        self.evict_until(|shard| shard.has_room_beside(subject), now)
    }

    pub(super) fn has_room_beside(&self, subject: &Subject) -> bool {
        self.bytes() + heap_bytes(subject) + self.subjects.growth_bytes() <= self.budget
    }

    /// Lets keys go until it is enough, but only a few: one decision must not pay for all.
    pub(super) fn evict_until(&mut self, enough: impl Fn(&Self) -> bool, now: Micros) -> bool {
        for _ in 0..TRIES {
            if enough(self) {
                return true;
            }
            if !self.evict(now) {
                return false;
            }
        }
        enough(self)
    }

    /// Lets one key go: the first of a handful that is as good as new, else the one nearest to it.
    fn evict(&mut self, now: Micros) -> bool {
        let mut nearest: Option<(Micros, usize)> = None;
        let mut seen = 0;
        for _ in 0..self.table.slots() {
            let index = self.next_hand();
            let Some(standing) = self.standing(index, now) else { continue };
            if standing.rests_at <= now {
                self.remove(index);
                self.stats.expired += 1;
                return true;
            }
            if !standing.limited && nearest.is_none_or(|(rests_at, _)| standing.rests_at < rests_at) {
                nearest = Some((standing.rests_at, index));
            }
            seen += 1;
            if seen == HANDFUL {
                break;
            }
        }
        let Some((_, index)) = nearest else { return false };
        self.remove(index);
        self.stats.evicted += 1;
        true
    }

    /// Looks at so many slots and lets go of what is as good as new; gives memory back when much has gone.
    pub(crate) fn look_around(&mut self, slots: usize, now: Micros) {
        for _ in 0..slots.min(2 * self.table.slots()) {
            let index = self.next_hand();
            self.take_home_if_rested(index, now);
            if self.standing(index, now).is_some_and(|standing| standing.rests_at <= now) {
                self.remove(index);
                self.stats.expired += 1;
                self.hand = index; // the one that moved up here has not been looked at
            }
        }
        if self.table.slots() > KEEP_SLOTS && self.table.len() * 4 < self.table.slots() {
            self.resize((self.table.len() * 3 / 2).max(KEEP_SLOTS));
            self.compact();
        }
    }

    /// Closes the gaps beside the table, when most keys have gone.
    fn compact(&mut self) {
        let (mut subjects, mut long_keys) = (HashMap::new(), HashMap::new());
        self.subjects.compact(|old, new| {
            subjects.insert(old, new);
        });
        self.long_keys.compact(|old, new| {
            long_keys.insert(old, new);
        });
        for index in 0..self.table.slots() {
            let entry = self.table.get_mut(index);
            if let Some(place) = entry.beside().and_then(|old| subjects.get(&old)) {
                entry.set_beside(*place);
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

    fn standing(&self, index: usize, now: Micros) -> Option<Standing> {
        let entry = self.table.get(index);
        if entry.is_empty() || entry.is_hot() {
            return None;
        }
        let policy = self.versions.policy(entry.version())?;
        let (rests_at, exhausted) = match (entry.meter(), entry.beside().and_then(|place| self.subjects.get(place))) {
            (Some(meter), _) => {
                let look = policy.rules().first().map(|rule| rule.limiting().look(&State::Meter(meter), now));
                look.map_or((now, false), |look| (look.rests_at, look.remaining == 0))
            }
            // Its state is out, to be decided about together with others, and comes back: not rested, not to be let go.
            (None, Some(subject)) if subject.states.len() < policy.rules().len() => (Micros(u64::MAX), true),
            (None, Some(subject)) => {
                let states = policy.rules().iter().zip(&subject.states);
                let mut looks = states.map(|(rule, state)| rule.limiting().look(state, now));
                let held_back = subject.block.until.max(subject.promised) > now;
                (policy.rests_at(subject, now), held_back || looks.any(|look| look.remaining == 0))
            }
            (None, None) => (now, false),
        };
        Some(Standing { rests_at, limited: exhausted || entry.was_denied() })
    }
}

/// How much a key would lose by being forgotten.
struct Standing {
    rests_at: Micros,
    /// It is being held back, or was refused something.
    limited: bool,
}

/// Slots looked at for every new key; more than one, or the table would grow faster than it is looked over.
const LOOK_AT: usize = 3;
/// Keys compared when one has to go early.
const HANDFUL: usize = 16;
/// Keys that may have to go to make room for one, whose lists may be longer than theirs.
const TRIES: usize = 8;
/// A table this small is not worth shrinking.
const KEEP_SLOTS: usize = 256;
