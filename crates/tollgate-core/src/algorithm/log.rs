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

use super::{Algorithm, Charge, GiveBack, Look, Scale, Steady, Weighed, steady};
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
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Entry {
    at: Micros,
    /// Permits admitted up to and including this entry.
    total: u64,
}

/// The log as the clock guard makes it look: entries moved back by `back`, read as of `now`.
#[derive(Clone, Copy)]
struct View<'a> {
    state: &'a LogState,
    back: Micros,
    now: Micros,
}

impl Log {
    pub(crate) fn new(limit: u64, window: Micros) -> Self {
        Self { limit, window, tolerance: tolerance(window) }
    }

    /// Permits that count at `now`, reservations included.
    pub fn used(&self, state: &LogState, now: Micros) -> u64 {
        let view = self.view(state, now);
        view.total() - self.left_window(view)
    }

    /// The state of a key that was counted under another limit: its entries, rescaled if that is wanted.
    pub(crate) fn adopt(&self, state: &LogState, scale: Scale) -> LogState {
        let entries = state.entries.iter().map(|entry| Entry { total: scale.apply(entry.total), ..*entry });
        LogState { last: state.last, entries: entries.collect() }
    }

    fn view<'a>(&self, state: &'a LogState, now: Micros) -> View<'a> {
        match steady(state.last, now, self.tolerance) {
            Steady::Forward(_) => View { state, back: Micros::ZERO, now },
            Steady::Held if !state.entries.is_empty() => View { state, back: Micros::ZERO, now: state.last },
            Steady::Held => View { state, back: Micros::ZERO, now },
            Steady::Moved(back) => View { state, back, now },
        }
    }

    /// How many entries have left the window.
    fn gone(&self, view: View<'_>) -> usize {
        view.state.entries.partition_point(|entry| view.moment(entry) + self.window <= view.now)
    }

    /// The running total when the last entry that has left the window was made.
    fn left_window(&self, view: View<'_>) -> u64 {
        match self.gone(view) {
            0 => 0,
            gone => view.state.entries[gone - 1].total,
        }
    }

    /// Brings the stored times to the clock, and drops what has left once that is half of all.
    fn bring_up_to_date(&self, state: &mut LogState, now: Micros) {
        let View { back, now: moment, .. } = self.view(state, now);
        if back > Micros::ZERO {
            for entry in &mut state.entries {
                entry.at = entry.at - back;
            }
        }
        state.last = moment;
        let gone = self.gone(self.view(state, moment));
        if gone > 0 && gone * 2 >= state.entries.len() {
            // Totals start again from zero, so that they never grow out of exact numbers.
            let dropped = state.entries[gone - 1].total;
            state.entries.drain(..gone);
            for entry in &mut state.entries {
                entry.total -= dropped;
            }
            if state.entries.capacity() > 4 * state.entries.len().max(4) {
                state.entries.shrink_to(2 * state.entries.len());
            }
        }
    }

    fn add(&self, state: &mut LogState, cost: u64, at: Micros) {
        let total = state.total() + cost;
        match state.entries.last_mut() {
            Some(last) if last.at >= at => last.total = total,
            _ => state.entries.push(Entry { at, total }),
        }
    }
}

impl LogState {
    fn total(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.total)
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
    }

    /// Permits of one entry.
    fn permits(&self, index: usize) -> u64 {
        let before = if index == 0 { 0 } else { self.entries[index - 1].total };
        self.entries[index].total - before
    }
}

impl View<'_> {
    fn moment(self, entry: &Entry) -> Micros {
        entry.at - self.back
    }

    fn total(self) -> u64 {
        self.state.total()
    }

    /// The last moment in the log; ahead of now if somebody waits for it.
    fn last_moment(self) -> Micros {
        self.state.entries.last().map_or(Micros::ZERO, |entry| self.moment(entry))
    }
}

impl Algorithm for Log {
    type State = LogState;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn weigh(&self, state: &LogState, cost: u64, now: Micros) -> Weighed {
        let view = self.view(state, now);
        let line = view.last_moment();
        let must_leave = (view.total() + cost).saturating_sub(self.limit);
        if cost == 0 || (must_leave <= self.left_window(view) && line <= view.now) {
            return Weighed::at(now);
        }
        // The first entry by which enough permits were made is the last that has to leave.
        let blocking = state.entries.partition_point(|entry| entry.total < must_leave);
        let left_at = match state.entries.get(blocking) {
            Some(entry) if must_leave > 0 => view.moment(entry) + self.window,
            _ => now,
        };
        Weighed::at(left_at.max(line).max(view.now))
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
        let view = self.view(state, now);
        let used = view.total() - self.left_window(view);
        let waiting = view.last_moment() > view.now;
        let remaining = if waiting { 0 } else { self.limit.saturating_sub(used) };
        let rests_at = if used == 0 { now } else { view.last_moment() + self.window };
        Look { remaining, rests_at }
    }

    fn line_ends(&self, state: &LogState, now: Micros) -> Micros {
        self.view(state, now).last_moment()
    }

    fn horizon(&self) -> Micros {
        MAX_WAIT
    }
}
