//! Keys of the local shares that one lock guards, within a byte budget.
//!
//! A key's entry holds the store's last report and, after local grants, its debt. Entries without a debt may be evicted:
//! first those whose report has lapsed, a few with every insertion; where there is still no room, those that have permits
//! left, in clock order. A key that is used up is not evicted for a new one, and an entry with a debt stays until it is
//! charged or has drained. A local grant that finds no room is refused.
//!
//! Bound: at most [`SWEEP`] entries are examined per insertion.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use ratekeeper_core::Timestamp;

use super::entry::Entry;
use crate::policies::Version;

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

/// TotalsChange of the totals over all shards.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TotalsChange {
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

    /// Makes room for so many bytes without evicting the entries in `keep`. Returns whether there is room.
    pub(super) fn make_room(&mut self, bytes: usize, keep: &[usize], now: Timestamp) -> bool {
        let stays = |index: usize, entry: &Entry| keep.contains(&index) || entry.is_needed(now);
        self.sweep(FEW, |index, entry| entry.report.reset_at() <= now && !stays(index, entry));
        if self.bytes + bytes > self.budget {
            let mut missing = self.bytes + bytes - self.budget;
            self.sweep(SWEEP, |index, entry| {
                let goes = missing > 0 && !stays(index, entry) && !entry.report.is_exhausted(now);
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
    pub(super) fn account(&mut self, index: usize) -> TotalsChange {
        let Some(entry) = self.slots.get_mut(index).and_then(Option::as_mut) else { return TotalsChange::default() };
        let (before, after) = (entry.size, entry.measure());
        entry.size = after;
        if after.owing && !entry.is_queued {
            entry.is_queued = true;
            self.owing.push_back(index);
        }
        self.bytes = self.bytes + after.bytes - before.bytes;
        TotalsChange {
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

/// Entries examined per insertion: a few always, more where there is no room.
const FEW: usize = 4;
const SWEEP: usize = 64;
