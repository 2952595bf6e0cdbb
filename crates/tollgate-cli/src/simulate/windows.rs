//! How many permits went in the window that ends now, per key: what a limit promises, counted by somebody else.
//!
//! The rules are not asked. Each key has a log of what was let through and when it went; a window's content is a
//! difference of two running totals. So a fixed window's edge shows: twice its limit in one true window.
//!
//! Memory is bounded. Entries that have left the longest window go; if it still gets tight, later entries of known keys are
//! put together and new keys are not watched, so that the counts become lower bounds ([`Windows::is_short`]).

use std::collections::{HashMap, VecDeque};

use tollgate_core::Micros;

/// The logs of all keys.
#[derive(Debug)]
pub(crate) struct Windows {
    homes: HashMap<Box<str>, usize>,
    logs: Vec<Log>,
    vacant: Vec<usize>,
    longest: Micros,
    entries: usize,
    most_entries: usize,
    swept: Micros,
    short: bool,
}

/// What one key was let through with.
#[derive(Debug, Default)]
struct Log {
    entries: VecDeque<Entry>,
    /// Permits of the entries that have been dropped.
    dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    went: Micros,
    /// Permits up to and including this entry.
    total: u64,
}

/// Which key; good until the next admission.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Watched(usize);

impl Windows {
    pub(crate) fn new(longest: Micros) -> Self {
        Self {
            homes: HashMap::new(),
            logs: Vec::new(),
            vacant: Vec::new(),
            longest,
            entries: 0,
            most_entries: MOST_ENTRIES,
            swept: Micros::ZERO,
            short: false,
        }
    }

    /// Whether memory was short, so that counts may be too low.
    pub(crate) fn is_short(&self) -> bool {
        self.short
    }

    /// Notes permits that go at `went`, which may lie ahead of `now`. `None` if there is no room to watch the key.
    pub(crate) fn add(&mut self, key: &str, cost: u64, went: Micros, now: Micros) -> Option<Watched> {
        if self.entries >= self.most_entries {
            self.sweep(now);
        }
        let room = self.entries < self.most_entries;
        self.short |= !room;
        let home = self.home(key, room)?;
        let log = &mut self.logs[home];
        self.entries -= log.drop_until(now - self.longest);
        let total = log.total() + cost;
        match log.entries.back_mut() {
            // Nobody goes before the one admitted before him, except after a reset.
            Some(last) if last.went >= went || !room => last.total = total,
            _ => {
                log.entries.push_back(Entry { went, total });
                self.entries += 1;
            }
        }
        Some(Watched(home))
    }

    /// Notes that permits came back: those of `went`, or the latest that have gone by `now`.
    pub(crate) fn give_back(&mut self, key: &str, cost: u64, went: Option<Micros>, now: Micros) {
        if let Some(&home) = self.homes.get(key) {
            self.logs[home].give_back(cost, went, now);
        }
    }

    /// Permits of a key that went within the span that ends at `moment`.
    pub(crate) fn count(&self, Watched(home): Watched, span: Micros, moment: Micros) -> u64 {
        let Some(log) = self.logs.get(home) else { return 0 };
        let before = if moment < span { 0 } else { log.total_until(moment - span) };
        log.total_until(moment).saturating_sub(before)
    }

    fn home(&mut self, key: &str, room: bool) -> Option<usize> {
        if let Some(&home) = self.homes.get(key) {
            return Some(home);
        }
        if !room {
            return None;
        }
        let home = self.vacant.pop().unwrap_or_else(|| {
            self.logs.push(Log::default());
            self.logs.len() - 1
        });
        self.homes.insert(key.into(), home);
        // A key takes as much as a few entries, and more if it is long.
        self.entries += room_of(key);
        Some(home)
    }

    /// Lets go of everything that has left the longest window; not so often that it would take most of the time.
    fn sweep(&mut self, now: Micros) {
        if now < self.swept + Micros(self.longest.0 / 8) {
            return;
        }
        self.swept = now;
        let until = now - self.longest;
        let Self { homes, logs, vacant, entries, .. } = self;
        homes.retain(|key, &mut home| {
            *entries -= logs[home].drop_until(until);
            if !logs[home].entries.is_empty() {
                return true;
            }
            logs[home] = Log::default();
            vacant.push(home);
            *entries -= room_of(key);
            false
        });
    }
}

impl Log {
    fn total(&self) -> u64 {
        self.entries.back().map_or(self.dropped, |entry| entry.total)
    }

    /// Permits that went up to and including a moment.
    fn total_until(&self, moment: Micros) -> u64 {
        match self.entries.partition_point(|entry| entry.went <= moment) {
            0 => self.dropped,
            count => self.entries[count - 1].total,
        }
    }

    /// Drops what went by then; says how many entries that were.
    fn drop_until(&mut self, moment: Micros) -> usize {
        let mut count = 0;
        // At time zero nothing has left any window.
        while moment > Micros::ZERO
            && let Some(first) = self.entries.front().filter(|first| first.went <= moment)
        {
            self.dropped = first.total;
            self.entries.pop_front();
            count += 1;
        }
        count
    }

    fn give_back(&mut self, cost: u64, went: Option<Micros>, now: Micros) {
        let until = went.unwrap_or(now);
        let mut missing = cost;
        let mut index = self.entries.partition_point(|entry| entry.went <= until);
        while missing > 0 && index > 0 {
            index -= 1;
            if went.is_some_and(|went| self.entries[index].went != went) {
                break;
            }
            let before = if index == 0 { self.dropped } else { self.entries[index - 1].total };
            let back = (self.entries[index].total - before).min(missing);
            self.entries.range_mut(index..).for_each(|entry| entry.total -= back);
            missing -= back;
        }
    }
}

fn room_of(key: &str) -> usize {
    8 + key.len() / 16
}

/// 16 bytes each.
const MOST_ENTRIES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_counts_what_went_within_it() {
        let mut windows = Windows::new(Micros(100));
        windows.add("u", 5, Micros(0), Micros(0));
        windows.add("u", 7, Micros(50), Micros(50));
        let u = windows.add("u", 1, Micros(150), Micros(99)).unwrap_or(Watched(9));
        assert_eq!(windows.count(u, Micros(100), Micros(50)), 12);
        assert_eq!(windows.count(u, Micros(100), Micros(100)), 7, "an entry one window old has left");
        assert_eq!(windows.count(u, Micros(100), Micros(149)), 7);
        assert_eq!(windows.count(u, Micros(100), Micros(150)), 1);
        windows.give_back("u", 3, None, Micros(120));
        assert_eq!(windows.count(u, Micros(100), Micros(149)), 4);
        windows.give_back("u", 1, Some(Micros(150)), Micros(120));
        assert_eq!(windows.count(u, Micros(100), Micros(150)), 0);
    }

    #[test]
    fn idle_keys_make_room() {
        let mut windows = Windows::new(Micros(100));
        windows.add("old", 1, Micros(0), Micros(0));
        windows.add("new", 1, Micros(450), Micros(450));
        windows.sweep(Micros(500));
        assert_eq!((windows.homes.len(), windows.vacant.len()), (1, 1));
        assert_eq!(windows.entries, 1 + room_of("new"));
        windows.add("newer", 1, Micros(500), Micros(500));
        assert_eq!(windows.logs.len(), 2);
    }

    /// Too many keys: nothing is made up, and the lack is admitted.
    #[test]
    fn without_room_counts_are_lower_bounds_and_say_so() {
        let mut windows = Windows::new(Micros(1_000));
        windows.most_entries = 10;
        windows.add("known", 1, Micros(0), Micros(0));
        windows.add("known", 1, Micros(1), Micros(1));
        assert!(!windows.is_short());
        let known = windows.add("known", 1, Micros(2), Micros(2)).unwrap_or(Watched(9));
        assert!(windows.add("new", 1, Micros(3), Micros(3)).is_none());
        assert!(windows.is_short());
        assert_eq!(windows.count(known, Micros(1_000), Micros(2)), 3);
        // The third was put together with the second, so it leaves a little early, never late.
        assert_eq!(windows.count(known, Micros(1_000), Micros(1_001)), 0);
    }
}
