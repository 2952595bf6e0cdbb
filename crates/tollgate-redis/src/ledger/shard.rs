//! Keys of the local share, within a byte budget.
//!
//! A key's entry holds the store's last word and, after local grants, its debt. Entries without a debt may be evicted:
//! first those whose word has lapsed, a few with every insertion; where there is still no room, those that have permits
//! left, in clock order. A key that is used up is not evicted for a new one, and an entry with a debt stays until it is
//! charged or has drained. A local grant that finds no room is refused.
//!
//! Bound: at most [`SWEEP`] entries are examined per insertion.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use tollgate_core::{LeaseId, Micros};

use super::{debt::Debt, recall::RuleWord};
use crate::policies::Version;

/// What is known of one key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Arc<[u8]>,
    /// The rules that the word and the debt are counted under.
    pub(super) version: Arc<Version>,
    pub(super) word: Word,
    /// Leases that the store granted to this process.
    pub(super) held: Vec<Held>,
    pub(super) debt: Option<Box<Debt>>,
    /// The number of the last local grant, and when it was made.
    pub(super) last_grant: u64,
    pub(super) granted_at: Micros,
    /// The number of the last local grant that is frozen or charged.
    pub(super) frozen_upto: u64,
    /// The same of those that are charged.
    pub(super) charged_upto: u64,
    size: Size,
    is_queued: bool,
}

/// What the store last said of a key's local rules. No rules if it has said nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Word {
    pub(super) at: Micros,
    pub(super) blocked_until: Micros,
    pub(super) rules: Vec<RuleWord>,
}

/// A lease that the store granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) id: LeaseId,
    pub(super) permits: u64,
    pub(super) since: Micros,
}

/// What an entry adds to the totals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) bytes: usize,
    pub(super) owing: bool,
    pub(super) grants: u64,
}

impl Word {
    fn rests_at(&self) -> Micros {
        let longest = self.rules.iter().map(|rule| rule.reset_after).max().unwrap_or_default();
        (self.at + longest).max(self.blocked_until)
    }

    /// Whether some rule has nothing left, so that forgetting the key would hand out a share that is used up.
    fn is_exhausted(&self, now: Micros) -> bool {
        self.rests_at() > now && (self.blocked_until > now || self.rules.iter().any(|rule| rule.remaining == 0))
    }
}

impl Entry {
    pub(super) fn new(name: &[u8], version: &Arc<Version>) -> Self {
        Self {
            name: name.into(),
            version: Arc::clone(version),
            word: Word::default(),
            held: Vec::new(),
            debt: None,
            last_grant: 0,
            granted_at: Micros::ZERO,
            frozen_upto: 0,
            charged_upto: 0,
            size: Size::default(),
            is_queued: false,
        }
    }

    fn measure(&self) -> Size {
        let words = self.word.rules.capacity() * size_of::<RuleWord>() + self.held.capacity() * size_of::<Held>();
        let debt = self.debt.as_deref().map_or(0, Debt::bytes);
        let grants = self
            .debt
            .as_deref()
            .map_or(0, |debt| debt.since.grants + debt.frozen.as_ref().map_or(0, |frozen| frozen.granted.grants));
        Size { bytes: ENTRY_BYTES + self.name.len() + words + debt, owing: self.debt.is_some(), grants }
    }

    /// Calls that began before a local grant look for it here until they have ended.
    fn is_needed(&self, now: Micros) -> bool {
        self.debt.is_some() || (self.last_grant > 0 && self.granted_at + LONGEST_CALL > now)
    }
}

/// Keys that share a lock.
#[derive(Debug)]
pub(super) struct Shard {
    by_name: HashMap<Arc<[u8]>, usize>,
    slots: Vec<Option<Entry>>,
    free: Vec<usize>,
    hand: usize,
    bytes: usize,
    budget: usize,
    owing: VecDeque<usize>,
}

/// Change of the totals over all shards.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    pub(super) keys: i64,
    pub(super) grants: i64,
}

impl Shard {
    pub(super) fn new(budget: usize) -> Self {
        Self {
            by_name: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bytes: 0,
            budget,
            owing: VecDeque::new(),
        }
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(super) fn entry(&mut self, index: usize) -> Option<&mut Entry> {
        self.slots.get_mut(index)?.as_mut()
    }

    /// Makes room for so many bytes beside the entries in `keep`. Says whether it could.
    pub(super) fn make_room(&mut self, bytes: usize, keep: &[usize], now: Micros) -> bool {
        let stays = |index: usize, entry: &Entry| keep.contains(&index) || entry.is_needed(now);
        self.sweep(FEW, |index, entry| entry.word.rests_at() <= now && !stays(index, entry));
        if self.bytes + bytes > self.budget {
            let mut missing = self.bytes + bytes - self.budget;
            self.sweep(SWEEP, |index, entry| {
                let goes = missing > 0 && !stays(index, entry) && !entry.word.is_exhausted(now);
                missing = if goes { missing.saturating_sub(entry.size.bytes) } else { missing };
                goes
            });
        }
        self.bytes + bytes <= self.budget
    }

    /// Puts in an entry; room has been made.
    pub(super) fn insert(&mut self, entry: Entry) -> usize {
        let name = Arc::clone(&entry.name);
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index] = Some(entry);
                index
            }
            None => {
                self.slots.push(Some(entry));
                self.slots.len() - 1
            }
        };
        self.by_name.insert(name, index);
        index
    }

    /// Notes what has become of an entry; to be called after every change.
    pub(super) fn account(&mut self, index: usize) -> Change {
        let Some(entry) = self.slots.get_mut(index).and_then(Option::as_mut) else { return Change::default() };
        let (before, after) = (entry.size, entry.measure());
        entry.size = after;
        if after.owing && !entry.is_queued {
            entry.is_queued = true;
            self.owing.push_back(index);
        }
        self.bytes = self.bytes + after.bytes - before.bytes;
        Change {
            keys: i64::from(after.owing) - i64::from(before.owing),
            grants: after.grants.cast_signed() - before.grants.cast_signed(),
        }
    }

    /// The next key that owes something. It is named again only after [`account`](Self::account) has seen it.
    pub(super) fn next_owing(&mut self) -> Option<(Arc<Version>, Arc<[u8]>)> {
        while let Some(index) = self.owing.pop_front() {
            if let Some(entry) = self.slots.get_mut(index).and_then(Option::as_mut) {
                let was_queued = std::mem::take(&mut entry.is_queued);
                if was_queued && entry.debt.is_some() {
                    return Some((Arc::clone(&entry.version), Arc::clone(&entry.name)));
                }
            }
        }
        None
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn sweep(&mut self, most: usize, mut goes: impl FnMut(usize, &Entry) -> bool) {
        for _ in 0..most.min(self.slots.len()) {
            self.hand = (self.hand + 1) % self.slots.len();
            if let Some(entry) = &self.slots[self.hand]
                && goes(self.hand, entry)
            {
                self.bytes -= entry.size.bytes;
                self.by_name.remove(&entry.name);
                self.slots[self.hand] = None;
                self.free.push(self.hand);
            }
        }
    }
}

/// A slot, its place in the index, and the headers of the name.
pub(super) const ENTRY_BYTES: usize = size_of::<Option<Entry>>() + 3 * size_of::<usize>() + 2 * size_of::<usize>();
/// Entries examined per insertion: a few always, more where there is no room.
const FEW: usize = 4;
const SWEEP: usize = 64;
/// Deadlines are milliseconds; a call that has outlived this one has been given up long ago.
const LONGEST_CALL: Micros = Micros(10_000_000);
