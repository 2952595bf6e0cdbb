//! Sliding maxima: permits of each key in the window that ends now, counted independently of the algorithms.
//!
//! Each key has a log of admitted permits with running totals; the content of a window is the difference of two totals. This
//! makes the edge problem of fixed windows visible: up to twice the limit in one sliding window.
//!
//! Bound: [`MAX_ENTRIES`]. Entries older than the longest window are dropped; if that does not suffice, later entries of
//! known keys are merged and new keys are not counted, so that the counts become lower bounds ([`PeakWindows::is_short`]).

use std::collections::{HashMap, VecDeque};

use ratekeeper_core::{Span, Timestamp};

/// The logs of all keys.
#[derive(Debug)]
pub(crate) struct PeakWindows {
    indexes: HashMap<Box<str>, usize>,
    logs: Vec<AdmissionLog>,
    free: Vec<usize>,
    longest: Span,
    entries: usize,
    max_entries: usize,
    swept: Timestamp,
    short: bool,
}

/// Admitted permits of one key.
#[derive(Debug, Default)]
struct AdmissionLog {
    entries: VecDeque<Entry>,
    /// Permits of the entries that have been dropped.
    dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Timestamp,
    /// Permits up to and including this entry.
    total: u64,
}

/// Index of a key; valid until the next admission.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct KeyId(usize);

impl PeakWindows {
    pub(crate) fn new(longest: Span) -> Self {
        Self {
            indexes: HashMap::new(),
            logs: Vec::new(),
            free: Vec::new(),
            longest,
            entries: 0,
            max_entries: MAX_ENTRIES,
            swept: Timestamp::EPOCH,
            short: false,
        }
    }

    /// Whether memory was short, so that counts may be too low.
    pub(crate) fn is_short(&self) -> bool {
        self.short
    }

    /// Adds permits used at `at`, which may be later than `now`. `None` if there is no room for the key.
    pub(crate) fn add(&mut self, key: &str, cost: u64, at: Timestamp, now: Timestamp) -> Option<KeyId> {
        if self.entries >= self.max_entries {
            self.sweep(now);
        }
        let room = self.entries < self.max_entries;
        self.short |= !room;
        let index = self.index(key, room)?;
        let log = &mut self.logs[index];
        self.entries -= log.drop_until(now - self.longest);
        let total = log.total() + cost;
        match log.entries.back_mut() {
            // Admission times of a key ascend, except after a reset.
            Some(last) if last.at >= at || !room => last.total = total,
            _ => {
                log.entries.push_back(Entry { at, total });
                self.entries += 1;
            }
        }
        Some(KeyId(index))
    }

    /// Removes refunded permits: those used at `at`, or the latest ones used until `now`.
    pub(crate) fn refund(&mut self, key: &str, cost: u64, at: Option<Timestamp>, now: Timestamp) {
        if let Some(&index) = self.indexes.get(key) {
            self.logs[index].refund(cost, at, now);
        }
    }

    /// Permits of a key used within the span that ends at `moment`.
    pub(crate) fn count(&self, KeyId(index): KeyId, span: Span, moment: Timestamp) -> u64 {
        let Some(log) = self.logs.get(index) else { return 0 };
        let before = if moment.since(Timestamp::EPOCH) < span { 0 } else { log.total_until(moment - span) };
        log.total_until(moment).saturating_sub(before)
    }

    fn index(&mut self, key: &str, room: bool) -> Option<usize> {
        if let Some(&index) = self.indexes.get(key) {
            return Some(index);
        }
        if !room {
            return None;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.logs.push(AdmissionLog::default());
            self.logs.len() - 1
        });
        self.indexes.insert(key.into(), index);
        // The key counts as a few entries, more if it is long.
        self.entries += entries_of(key);
        Some(index)
    }

    /// Drops everything older than the longest window, at most once per eighth of it.
    fn sweep(&mut self, now: Timestamp) {
        if now < self.swept + Span::from_micros(self.longest.as_micros() / 8) {
            return;
        }
        self.swept = now;
        let until = now - self.longest;
        let Self { indexes, logs, free, entries, .. } = self;
        indexes.retain(|key, &mut index| {
            *entries -= logs[index].drop_until(until);
            if !logs[index].entries.is_empty() {
                return true;
            }
            logs[index] = AdmissionLog::default();
            free.push(index);
            *entries -= entries_of(key);
            false
        });
    }
}

impl AdmissionLog {
    fn total(&self) -> u64 {
        self.entries.back().map_or(self.dropped, |entry| entry.total)
    }

    /// Permits used up to and including a moment.
    fn total_until(&self, moment: Timestamp) -> u64 {
        match self.entries.partition_point(|entry| entry.at <= moment) {
            0 => self.dropped,
            count => self.entries[count - 1].total,
        }
    }

    /// Drops entries until that moment; returns their number.
    fn drop_until(&mut self, moment: Timestamp) -> usize {
        let mut count = 0;
        // At time zero no window has ended.
        while moment > Timestamp::EPOCH
            && let Some(first) = self.entries.front().filter(|first| first.at <= moment)
        {
            self.dropped = first.total;
            self.entries.pop_front();
            count += 1;
        }
        count
    }

    fn refund(&mut self, cost: u64, at: Option<Timestamp>, now: Timestamp) {
        let until = at.unwrap_or(now);
        let mut missing = cost;
        let mut index = self.entries.partition_point(|entry| entry.at <= until);
        while missing > 0 && index > 0 {
            index -= 1;
            if at.is_some_and(|at| self.entries[index].at != at) {
                break;
            }
            let before = if index == 0 { self.dropped } else { self.entries[index - 1].total };
            let back = (self.entries[index].total - before).min(missing);
            self.entries.range_mut(index..).for_each(|entry| entry.total -= back);
            missing -= back;
        }
    }
}

fn entries_of(key: &str) -> usize {
    8 + key.len() / 16
}

/// 16 bytes each.
const MAX_ENTRIES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_counts_the_permits_within_it() {
        let mut windows = PeakWindows::new(Span::from_micros(100));
        windows.add("u", 5, Timestamp::from_micros(0), Timestamp::from_micros(0));
        windows.add("u", 7, Timestamp::from_micros(50), Timestamp::from_micros(50));
        let u = windows.add("u", 1, Timestamp::from_micros(150), Timestamp::from_micros(99)).unwrap_or(KeyId(9));
        assert_eq!(windows.count(u, Span::from_micros(100), Timestamp::from_micros(50)), 12);
        assert_eq!(
            windows.count(u, Span::from_micros(100), Timestamp::from_micros(100)),
            7,
            "an entry one window old has left"
        );
        assert_eq!(windows.count(u, Span::from_micros(100), Timestamp::from_micros(149)), 7);
        assert_eq!(windows.count(u, Span::from_micros(100), Timestamp::from_micros(150)), 1);
        windows.refund("u", 3, None, Timestamp::from_micros(120));
        assert_eq!(windows.count(u, Span::from_micros(100), Timestamp::from_micros(149)), 4);
        windows.refund("u", 1, Some(Timestamp::from_micros(150)), Timestamp::from_micros(120));
        assert_eq!(windows.count(u, Span::from_micros(100), Timestamp::from_micros(150)), 0);
    }

    #[test]
    fn idle_keys_are_dropped() {
        let mut windows = PeakWindows::new(Span::from_micros(100));
        windows.add("old", 1, Timestamp::from_micros(0), Timestamp::from_micros(0));
        windows.add("new", 1, Timestamp::from_micros(450), Timestamp::from_micros(450));
        windows.sweep(Timestamp::from_micros(500));
        assert_eq!((windows.indexes.len(), windows.free.len()), (1, 1));
        assert_eq!(windows.entries, 1 + entries_of("new"));
        windows.add("newer", 1, Timestamp::from_micros(500), Timestamp::from_micros(500));
        assert_eq!(windows.logs.len(), 2);
    }

    /// With too many keys, counts are never too high, and `is_short` reports it.
    #[test]
    fn without_room_counts_are_lower_bounds() {
        let mut windows = PeakWindows::new(Span::from_micros(1_000));
        windows.max_entries = 10;
        windows.add("known", 1, Timestamp::from_micros(0), Timestamp::from_micros(0));
        windows.add("known", 1, Timestamp::from_micros(1), Timestamp::from_micros(1));
        assert!(!windows.is_short());
        let known = windows.add("known", 1, Timestamp::from_micros(2), Timestamp::from_micros(2)).unwrap_or(KeyId(9));
        assert!(windows.add("new", 1, Timestamp::from_micros(3), Timestamp::from_micros(3)).is_none());
        assert!(windows.is_short());
        assert_eq!(windows.count(known, Span::from_micros(1_000), Timestamp::from_micros(2)), 3);
        // The third was merged into the second entry, so it leaves the window early, never late.
        assert_eq!(windows.count(known, Span::from_micros(1_000), Timestamp::from_micros(1_001)), 0);
    }
}
