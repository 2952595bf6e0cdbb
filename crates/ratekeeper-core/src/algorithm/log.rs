//! Sliding log: at most `limit` permits in every window, exactly.
//!
//! Admissions are stored as pairs of (time, permits so far), ascending in both; those of one microsecond share a pair.
//! The count of a window is the difference of two running totals, and its start is found by binary search: a decision
//! costs O(log n), and an entry 16 bytes. Entries that have left the window are removed together once they are half of
//! all, so removal costs amortized O(1) per entry.
//!
//! ```text
//!      time  10000   10100   10900   11200
//!    so far      5      35      36      86
//!            └─ left ─┘   └─ in (10200, 11200]: 86 − 35 = 51 ─┘
//! ```
//!
//! An entry exactly one window old no longer counts. A reservation is an entry in the future; later ones come after it,
//! so reservations keep their order and the pairs stay ascending.
//!
//! Bound: at most `limit` permits in every window, and with demand not one fewer.
//!
//! Twins: `log.lua`, and `lone_log.lua` for a policy of one log, in the Redis store.

use super::{Algorithm, Charge, GiveBack, Look, Scale, Weighed, stepped_back};
use crate::{
    bounds::{MAX_WAIT, tolerance},
    held::Held,
    time::{Span, Timestamp},
};

/// A sliding log's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Log {
    limit: u64,
    window: Span,
    tolerance: Span,
}

/// The admissions of one key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LogState {
    /// The clock at the last change, to detect steps back.
    last: Timestamp,
    /// Permits of the entries removed so far: the start of the running totals.
    dropped: u64,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Entry {
    at: Timestamp,
    /// Permits admitted up to and including this entry.
    total: u64,
}

impl Log {
    pub(crate) fn new(limit: u64, window: Span) -> Self {
        Self { limit, window, tolerance: tolerance(window) }
    }

    /// Length of the window.
    pub fn window(&self) -> Span {
        self.window
    }

    /// How far back the clock may step before the state moves with it.
    pub fn tolerance(&self) -> Span {
        self.tolerance
    }

    /// Permits that count at `now`, reservations included.
    pub fn used(&self, state: &LogState, now: Timestamp) -> u64 {
        state.total() - self.left_window(state, state.moment(now))
    }

    /// The admissions that count at `now`, oldest first: time and permits. Reservations are later than `now`.
    pub fn live<'a>(
        &self,
        state: &'a LogState,
        now: Timestamp,
    ) -> impl ExactSizeIterator<Item = (Timestamp, u64)> + 'a {
        let gone = self.gone(state, state.moment(now));
        (gone..state.entries.len()).map(|index| (state.entries[index].at, state.permits(index)))
    }

    /// Migrates a state from another quota: what is still in the old window, scaled if requested.
    pub(crate) fn adopt(old: &Self, state: &LogState, scale: Scale, now: Timestamp) -> LogState {
        let left = old.left_window(state, state.moment(now));
        let live = state.entries.iter().filter(|entry| entry.total > left);
        let entries = live.map(|entry| Entry { total: scale.apply(entry.total - left), ..*entry });
        LogState { last: state.last, dropped: 0, entries: entries.collect() }
    }

    /// Number of entries that have left the window at `now`, and the running total of the last of them.
    pub fn left(&self, state: &LogState, now: Timestamp) -> (usize, u64) {
        let moment = state.moment(now);
        (self.gone(state, moment), self.left_window(state, moment))
    }

    /// Number of entries that have left the window.
    fn gone(&self, state: &LogState, moment: Timestamp) -> usize {
        state.entries.partition_point(|entry| entry.at + self.window <= moment)
    }

    /// The running total of the last entry that has left the window.
    fn left_window(&self, state: &LogState, moment: Timestamp) -> u64 {
        match self.gone(state, moment) {
            0 => state.dropped,
            gone => state.entries[gone - 1].total,
        }
    }

    /// Stores the time, and removes entries that have left the window once they are half of all.
    fn bring_up_to_date(&self, state: &mut LogState, now: Timestamp) {
        state.last = state.moment(now);
        let gone = self.gone(state, state.last);
        if gone > 0 && gone * 2 >= state.entries.len() {
            state.dropped = state.entries[gone - 1].total;
            state.entries.drain(..gone);
            // Totals continue, so that the other entries stay unchanged; only an empty log, or one about to exceed exact
            // numbers, starts again from zero.
            if state.entries.is_empty() {
                state.dropped = 0;
            } else if state.dropped >= REBASE_AT {
                state.rebase();
            }
            if state.entries.capacity() > 4 * state.entries.len().max(4) {
                state.entries.shrink_to(2 * state.entries.len());
            }
        }
    }

    fn add(&self, state: &mut LogState, cost: u64, at: Timestamp) {
        let total = (state.total() + cost).min(MAX_TOTAL);
        match state.entries.last_mut() {
            Some(last) if last.at >= at => last.total = total,
            _ => state.entries.push(Entry { at, total }),
        }
    }
}

impl LogState {
    /// The time to read the log at: now, or later while a clock that stepped back catches up.
    fn moment(&self, now: Timestamp) -> Timestamp {
        if self.entries.is_empty() { now } else { now.max(self.last) }
    }

    /// The time of the last entry; in the future if it is a reservation.
    fn last_moment(&self) -> Timestamp {
        self.entries.last().map_or(Timestamp::EPOCH, |entry| entry.at)
    }

    fn total(&self) -> u64 {
        self.entries.last().map_or(self.dropped, |entry| entry.total)
    }

    fn rebase(&mut self) {
        for entry in &mut self.entries {
            entry.total -= self.dropped;
        }
        self.dropped = 0;
    }

    /// The clock at the last change.
    pub fn last(&self) -> Timestamp {
        self.last
    }

    /// The start of the running totals.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The stored entries, oldest first: time, and running total up to and including it.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (Timestamp, u64)> + '_ {
        self.entries.iter().map(|entry| (entry.at, entry.total))
    }

    /// A log from its stored form. The pairs must ascend in both, as [`pairs`](Self::pairs) returns them.
    pub fn restore(last: Timestamp, dropped: u64, pairs: impl IntoIterator<Item = (Timestamp, u64)>) -> Self {
        Self { last, dropped, entries: pairs.into_iter().map(|(at, total)| Entry { at, total }).collect() }
    }

    /// Number of stored entries, including those that have left the window and are not removed yet.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Heap bytes.
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    /// Lowers every total from `index` on: removes permits of that entry.
    fn remove(&mut self, index: usize, permits: u64) {
        if self.permits(index) == permits {
            self.entries.remove(index);
        }
        for entry in self.entries.iter_mut().skip(index) {
            entry.total -= permits;
        }
        if self.entries.is_empty() {
            self.dropped = 0;
        }
    }

    /// Permits of one entry.
    fn permits(&self, index: usize) -> u64 {
        let before = if index == 0 { self.dropped } else { self.entries[index - 1].total };
        self.entries[index].total - before
    }
}

impl Algorithm for Log {
    type State = LogState;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn follow(&self, state: &mut LogState, now: Timestamp) -> Span {
        let back = stepped_back(state.last, now, self.tolerance);
        if back > Span::ZERO {
            for entry in &mut state.entries {
                entry.at = entry.at - back;
            }
            state.last = state.last - back;
        }
        back
    }

    fn weigh(&self, state: &LogState, cost: u64, now: Timestamp) -> Weighed {
        let (moment, line) = (state.moment(now), state.last_moment());
        let must_leave = (state.total() + cost).saturating_sub(self.limit);
        if cost == 0 || (must_leave <= self.left_window(state, moment) && line <= moment) {
            return Weighed::at(now);
        }
        // The first entry with a sufficient running total is the last that has to leave.
        let blocking = state.entries.partition_point(|entry| entry.total < must_leave);
        let left_at = match state.entries.get(blocking) {
            Some(entry) if must_leave > state.dropped => entry.at + self.window,
            _ => now,
        };
        Weighed::at(left_at.max(line).max(moment))
    }

    fn charge(&self, state: &mut LogState, charge: Charge, now: Timestamp) {
        self.bring_up_to_date(state, now);
        let at = charge.at.max(state.last);
        self.add(state, charge.cost, at);
    }

    /// More than the limit at one time has the same effect as the limit.
    fn penalize(&self, state: &mut LogState, charge: Charge, now: Timestamp) {
        self.bring_up_to_date(state, now);
        let at = state.last;
        self.add(state, charge.cost.min(self.limit), at);
    }

    /// Each time is stored, so permits can always be returned exactly; without a time, the latest ones not in the future.
    fn give_back(&self, state: &mut LogState, back: GiveBack, now: Timestamp) {
        self.bring_up_to_date(state, now);
        let until = back.at.unwrap_or(state.last);
        let mut missing = back.cost;
        let mut index = state.entries.partition_point(|entry| entry.at <= until);
        while missing > 0 && index > 0 {
            index -= 1;
            if back.at.is_some_and(|at| state.entries[index].at != at) {
                break;
            }
            let permits = state.permits(index).min(missing);
            state.remove(index, permits);
            missing -= permits;
        }
    }

    fn look(&self, state: &LogState, now: Timestamp) -> Look {
        let (used, moment) = (self.used(state, now), state.moment(now));
        let waiting = state.last_moment() > moment;
        let remaining = if waiting { 0 } else { self.limit.saturating_sub(used) };
        let reset_at = if used == 0 { now } else { state.last_moment() + self.window };
        Look { remaining, reset_at }
    }

    fn line_ends(&self, state: &LogState, _now: Timestamp) -> Timestamp {
        state.last_moment()
    }

    fn reset_with_held(&self, state: &LogState, held: Held, _now: Timestamp) -> Timestamp {
        held.until.max(state.last_moment()) + self.window
    }

    fn turn(&self) -> Span {
        Span::from_micros(self.window.as_micros() / 20)
    }

    fn horizon(&self) -> Span {
        MAX_WAIT
    }
}

/// Totals this large start again from zero when entries are removed next.
const REBASE_AT: u64 = 1 << 39;
/// Five bytes in a store. Only penalties of a million times the largest limit in one window could reach it.
const MAX_TOTAL: u64 = (1 << 40) - 1;
