//! The sliding log: at most `limit` permits in every window, exactly.
//!
//! Admissions are kept as pairs of (moment, permits so far), ascending in both; those of one microsecond share a pair.
//! What lies inside the window is then a difference of two running totals, and where it begins a binary search: a
//! decision costs O(log n) and 16 bytes per entry, with nothing to trim on the way. Entries that have left the window
//! are dropped together once they make up half, so the dropping is paid for by the adding.
//!
//! ```text
//!    moment  10000   10100   10900   11200
//!    so far      5      35      36      86
//!            └─ left ─┘   └─ in (10200, 11200]: 86 − 35 = 51 ─┘
//! ```
//!
//! An entry exactly one window old no longer counts. A reservation is an entry that lies ahead; the next one goes
//! behind it, so the line is kept and the pairs stay ascending.
//!
//! Bound: at most `limit` permits in every window, and with demand not one fewer.

use super::{Algorithm, Charge, GiveBack, Look, Scale, Weighed, stepped_back};
use crate::{
    bounds::{MAX_WAIT, tolerance},
    time::Micros,
};

/// A sliding log's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Log {
    limit: u64,
    window: Micros,
    tolerance: Micros,
}

/// The admissions of one key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LogState {
    /// The clock at the last change, to notice when it steps back.
    last: Micros,
    /// Permits of the entries dropped so far: where the running totals begin.
    dropped: u64,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Entry {
    at: Micros,
    /// Permits admitted up to and including this entry.
    total: u64,
}

impl Log {
    pub(crate) fn new(limit: u64, window: Micros) -> Self {
        Self { limit, window, tolerance: tolerance(window) }
    }

    /// Length of the window.
    pub fn window(&self) -> Micros {
        self.window
    }

    /// How far back the clock may step before the state moves with it.
    pub fn tolerance(&self) -> Micros {
        self.tolerance
    }

    /// Permits that count at `now`, reservations included.
    pub fn used(&self, state: &LogState, now: Micros) -> u64 {
        state.total() - self.left_window(state, state.moment(now))
    }

    /// The admissions that count at `now`, oldest first: moment and permits. Reservations lie ahead of now.
    pub fn live<'a>(&self, state: &'a LogState, now: Micros) -> impl ExactSizeIterator<Item = (Micros, u64)> + 'a {
        let gone = self.gone(state, state.moment(now));
        (gone..state.entries.len()).map(|index| (state.entries[index].at, state.permits(index)))
    }

    /// The state of a key that was counted under other numbers: what was still in the old window, rescaled if wanted.
    pub(crate) fn adopt(old: &Self, state: &LogState, scale: Scale, now: Micros) -> LogState {
        let left = old.left_window(state, state.moment(now));
        let live = state.entries.iter().filter(|entry| entry.total > left);
        let entries = live.map(|entry| Entry { total: scale.apply(entry.total - left), ..*entry });
        LogState { last: state.last, dropped: 0, entries: entries.collect() }
    }

    /// How many entries have left the window at `now`, and the running total when the last of them was made.
    pub fn left(&self, state: &LogState, now: Micros) -> (usize, u64) {
        let moment = state.moment(now);
        (self.gone(state, moment), self.left_window(state, moment))
    }

    /// How many entries have left the window.
    fn gone(&self, state: &LogState, moment: Micros) -> usize {
        state.entries.partition_point(|entry| entry.at + self.window <= moment)
    }

    /// The running total when the last entry that has left the window was made.
    fn left_window(&self, state: &LogState, moment: Micros) -> u64 {
        match self.gone(state, moment) {
            0 => state.dropped,
            gone => state.entries[gone - 1].total,
        }
    }

    /// Notes the time, and drops what has left the window once that is half of all.
    fn bring_up_to_date(&self, state: &mut LogState, now: Micros) {
        state.last = state.moment(now);
        let gone = self.gone(state, state.last);
        if gone > 0 && gone * 2 >= state.entries.len() {
            state.dropped = state.entries[gone - 1].total;
            state.entries.drain(..gone);
            // Totals go on, so that what stays need not be touched; only an empty log, or one about to leave exact
            // numbers, begins again from zero.
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

    fn add(&self, state: &mut LogState, cost: u64, at: Micros) {
        let total = (state.total() + cost).min(MAX_TOTAL);
        match state.entries.last_mut() {
            Some(last) if last.at >= at => last.total = total,
            _ => state.entries.push(Entry { at, total }),
        }
    }
}

impl LogState {
    /// The moment to read the log at: now, or a little later while a clock that stepped back catches up.
    fn moment(&self, now: Micros) -> Micros {
        if self.entries.is_empty() { now } else { now.max(self.last) }
    }

    /// The last moment in the log; ahead of now if somebody waits for it.
    fn last_moment(&self) -> Micros {
        self.entries.last().map_or(Micros::ZERO, |entry| entry.at)
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
    pub fn last(&self) -> Micros {
        self.last
    }

    /// Where the running totals begin.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What is kept, oldest first: each moment, and the running total up to and including it.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (Micros, u64)> + '_ {
        self.entries.iter().map(|entry| (entry.at, entry.total))
    }

    /// A log read back from where a store kept it. The pairs must ascend in both, as [`pairs`](Self::pairs) tells them.
    pub fn restore(last: Micros, dropped: u64, pairs: impl IntoIterator<Item = (Micros, u64)>) -> Self {
        Self { last, dropped, entries: pairs.into_iter().map(|(at, total)| Entry { at, total }).collect() }
    }

    /// Entries kept, those that have left the window but are not dropped yet included.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Bytes kept on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    /// Lowers every total from `index` on: so many permits of that entry never happened.
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

    fn follow(&self, state: &mut LogState, now: Micros) -> Micros {
        let back = stepped_back(state.last, now, self.tolerance);
        if back > Micros::ZERO {
            for entry in &mut state.entries {
                entry.at = entry.at - back;
            }
            state.last = state.last - back;
        }
        back
    }

    fn weigh(&self, state: &LogState, cost: u64, now: Micros) -> Weighed {
        let (moment, line) = (state.moment(now), state.last_moment());
        let must_leave = (state.total() + cost).saturating_sub(self.limit);
        if cost == 0 || (must_leave <= self.left_window(state, moment) && line <= moment) {
            return Weighed::at(now);
        }
        // The first entry by which enough permits were made is the last that has to leave.
        let blocking = state.entries.partition_point(|entry| entry.total < must_leave);
        let left_at = match state.entries.get(blocking) {
            Some(entry) if must_leave > state.dropped => entry.at + self.window,
            _ => now,
        };
        Weighed::at(left_at.max(line).max(moment))
    }

    fn charge(&self, state: &mut LogState, charge: Charge, now: Micros) {
        self.bring_up_to_date(state, now);
        let at = charge.at.max(state.last);
        self.add(state, charge.cost, at);
    }

    /// At one moment, more than the limit weighs no more than the limit.
    fn penalize(&self, state: &mut LogState, charge: Charge, now: Micros) {
        self.bring_up_to_date(state, now);
        let at = state.last;
        self.add(state, charge.cost.min(self.limit), at);
    }

    /// The log knows each moment, so it can always give back exactly; without one, the latest already gone.
    fn give_back(&self, state: &mut LogState, back: GiveBack, now: Micros) {
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

    fn look(&self, state: &LogState, now: Micros) -> Look {
        let (used, moment) = (self.used(state, now), state.moment(now));
        let waiting = state.last_moment() > moment;
        let remaining = if waiting { 0 } else { self.limit.saturating_sub(used) };
        let rests_at = if used == 0 { now } else { state.last_moment() + self.window };
        Look { remaining, rests_at }
    }

    fn line_ends(&self, state: &LogState, _now: Micros) -> Micros {
        state.last_moment()
    }

    fn horizon(&self) -> Micros {
        MAX_WAIT
    }
}

/// Totals this large are brought back to zero when entries are next dropped.
const REBASE_AT: u64 = 1 << 39;
/// Five bytes in a store. Only penalties could get there, by charging a million times the largest limit in one window.
const MAX_TOTAL: u64 = (1 << 40) - 1;
