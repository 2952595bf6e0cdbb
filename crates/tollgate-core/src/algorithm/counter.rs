//! The sliding counter: a count per slice of the window instead of a moment per permit.
//!
//! Every slice that still overlaps the window counts in full, so the limit holds in every true window. The price is
//! stated: a permit may count for up to one slice longer than the window, so at most what arrived in one slice is
//! missing. (Counting only whole recent slices, as is common, lets one slice too much through instead.)
//!
//! ```text
//!    slices    │ 3 │ 0 │ 2 │ 4 │ 1 │            slice = window ÷ buckets, aligned to the epoch
//!    window      └──────────────┘ now           the 3 still counts: part of its slice is inside
//! ```
//!
//! A slice leaves when its end is one window old. Reservations are slices ahead, and nobody goes before them.
//!
//! Bound: at most `limit` permits in every window; with demand, at least `limit` per window and one slice.

use smallvec::SmallVec;

use super::{Algorithm, Charge, GiveBack, Look, Scale, Weighed, stepped_back};
use crate::{
    bounds::{MAX_WAIT, tolerance},
    time::Micros,
};

/// A sliding counter's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counter {
    limit: u64,
    window: Micros,
    /// Length of a slice.
    slice: Micros,
    tolerance: Micros,
}

/// The counts of one key, oldest first; slices nobody used are not kept.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CounterState {
    /// The clock at the last change, to notice when it steps back.
    last: Micros,
    slices: SmallVec<[Slice; 4]>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Slice {
    /// Which slice, counted from the epoch.
    index: u64,
    permits: u64,
}

impl Counter {
    /// Slices round up to whole microseconds, so they cover the window.
    pub(crate) fn new(limit: u64, window: Micros, buckets: u32) -> Self {
        let slice = Micros(window.0.div_ceil(u64::from(buckets)));
        Self { limit, window, slice, tolerance: tolerance(window) }
    }

    /// Permits that count at `now`, reservations included.
    pub fn used(&self, state: &CounterState, now: Micros) -> u64 {
        self.live(state, state.moment(now)).iter().map(|slice| slice.permits).sum()
    }

    /// The state of a key that was counted under other numbers. Where slices have another length, each goes where its
    /// last moment lies, so that none leaves early.
    pub(crate) fn adopt(&self, old: &Self, state: &CounterState, scale: Scale, now: Micros) -> CounterState {
        let indexed = old.live(state, state.moment(now)).iter().map(|slice| {
            let last_moment = old.start(slice) + old.slice - Micros(1);
            let within_past = if old.start(slice) <= state.last { last_moment.min(state.last) } else { last_moment };
            let index = if old.slice == self.slice { slice.index } else { self.index(within_past) };
            (index, scale.apply(slice.permits))
        });
        CounterState { last: state.last, slices: SmallVec::from_vec(merged(indexed)) }
    }

    /// The slices that count at `now`, oldest first: where each begins, and its permits.
    pub fn slices<'a>(&'a self, state: &'a CounterState, now: Micros) -> impl Iterator<Item = (Micros, u64)> + 'a {
        self.live(state, state.moment(now)).iter().map(|slice| (self.start(slice), slice.permits))
    }

    /// Length of the window.
    pub fn window(&self) -> Micros {
        self.window
    }

    /// How far back the clock may step before the state moves with it.
    pub fn tolerance(&self) -> Micros {
        self.tolerance
    }

    /// Length of one slice, which is also the slack.
    pub fn slice(&self) -> Micros {
        self.slice
    }

    fn index(&self, moment: Micros) -> u64 {
        moment.0 / self.slice.0
    }

    fn start(&self, slice: &Slice) -> Micros {
        Micros(slice.index * self.slice.0)
    }

    /// When a slice no longer overlaps the window.
    fn leaves_at(&self, slice: &Slice) -> Micros {
        self.start(slice) + self.slice + self.window
    }

    /// Slices moved back with the clock: by whole slices and rather too little, so that none leaves early, but what
    /// lay in slices that were past stays past. (The slice of the last change may hold reservations as well.)
    fn moved(&self, state: &CounterState, back: Micros, now: Micros) -> Vec<Slice> {
        let (by, newest, last) = (back.0 / self.slice.0, self.index(now), self.index(state.last));
        let indexed = state.slices.iter().map(|slice| {
            let index = slice.index.saturating_sub(by);
            (if slice.index < last { index.min(newest) } else { index }, slice.permits)
        });
        merged(indexed)
    }

    /// The slices that count at a moment.
    fn live<'a>(&self, state: &'a CounterState, moment: Micros) -> &'a [Slice] {
        let gone = state.slices.partition_point(|slice| self.leaves_at(slice) <= moment);
        &state.slices[gone..]
    }

    fn add(&self, state: &mut CounterState, permits: u64, index: u64) {
        match state.slices.last_mut() {
            Some(last) if last.index >= index => last.permits = last.permits.saturating_add(permits),
            _ => state.slices.push(Slice { index, permits }),
        }
    }

    /// Notes the time and forgets the slices that have left.
    fn bring_up_to_date(&self, state: &mut CounterState, now: Micros) {
        state.last = state.moment(now);
        let gone = state.slices.len() - self.live(state, state.last).len();
        state.slices.drain(..gone);
    }

    fn line(&self, slices: &[Slice]) -> Micros {
        slices.last().map_or(Micros::ZERO, |slice| self.start(slice))
    }
}

/// Slices with what fell onto the same index put together.
fn merged(indexed: impl Iterator<Item = (u64, u64)>) -> Vec<Slice> {
    let mut slices: Vec<Slice> = Vec::new();
    for (index, permits) in indexed {
        match slices.last_mut() {
            Some(last) if last.index >= index => last.permits = last.permits.saturating_add(permits),
            _ => slices.push(Slice { index, permits }),
        }
    }
    slices
}

impl CounterState {
    /// The moment to read the slices at: now, or a little later while a clock that stepped back catches up.
    fn moment(&self, now: Micros) -> Micros {
        if self.slices.is_empty() { now } else { now.max(self.last) }
    }

    /// The clock at the last change.
    pub fn last(&self) -> Micros {
        self.last
    }

    /// What is kept, oldest first: the number of each slice, and its permits.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.slices.iter().map(|slice| (slice.index, slice.permits))
    }

    /// A counter read back from where a store kept it. The slices must ascend, as [`pairs`](Self::pairs) tells them.
    pub fn restore(last: Micros, pairs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self { last, slices: pairs.into_iter().map(|(index, permits)| Slice { index, permits }).collect() }
    }

    /// Bytes kept on the heap beyond the struct itself.
    pub fn heap_bytes(&self) -> usize {
        if self.slices.spilled() { self.slices.capacity() * size_of::<Slice>() } else { 0 }
    }
}

impl Algorithm for Counter {
    type State = CounterState;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn follow(&self, state: &mut CounterState, now: Micros) -> Micros {
        let back = stepped_back(state.last, now, self.tolerance);
        if back > Micros::ZERO {
            state.slices = SmallVec::from_vec(self.moved(state, back, now));
            state.last = state.last - back;
        }
        back
    }

    fn weigh(&self, state: &CounterState, cost: u64, now: Micros) -> Weighed {
        let moment = state.moment(now);
        let live = self.live(state, moment);
        let line = self.line(live);
        let mut counted: u64 = live.iter().map(|slice| slice.permits).sum();
        if cost == 0 || (counted + cost <= self.limit && line <= moment) {
            return Weighed::at(now);
        }
        let mut free_at = line.max(moment);
        for slice in live {
            if counted + cost <= self.limit {
                break;
            }
            counted -= slice.permits;
            free_at = free_at.max(self.leaves_at(slice));
        }
        Weighed::at(free_at)
    }

    fn charge(&self, state: &mut CounterState, charge: Charge, now: Micros) {
        self.bring_up_to_date(state, now);
        let index = self.index(charge.at.max(state.last));
        self.add(state, charge.cost, index);
    }

    /// In one slice, more than the limit weighs no more than the limit.
    fn penalize(&self, state: &mut CounterState, charge: Charge, now: Micros) {
        self.bring_up_to_date(state, now);
        let index = self.index(state.last);
        self.add(state, charge.cost.min(self.limit), index);
    }

    /// The counter knows each slice, so it can always give back; without a moment, the latest already gone.
    fn give_back(&self, state: &mut CounterState, back: GiveBack, now: Micros) {
        self.bring_up_to_date(state, now);
        let until = self.index(back.at.unwrap_or(state.last));
        let mut missing = back.cost;
        for slice in state.slices.iter_mut().rev().filter(|slice| slice.index <= until) {
            if missing == 0 || (back.at.is_some() && slice.index != until) {
                break;
            }
            let permits = slice.permits.min(missing);
            slice.permits -= permits;
            missing -= permits;
        }
        state.slices.retain(|slice| slice.permits > 0);
    }

    fn look(&self, state: &CounterState, now: Micros) -> Look {
        let moment = state.moment(now);
        let live = self.live(state, moment);
        let used: u64 = live.iter().map(|slice| slice.permits).sum();
        let remaining = if self.line(live) > moment { 0 } else { self.limit.saturating_sub(used) };
        Look { remaining, rests_at: live.last().map_or(now, |slice| self.leaves_at(slice)) }
    }

    /// Somebody may have been told any moment of the last slice.
    fn line_ends(&self, state: &CounterState, _now: Micros) -> Micros {
        state.slices.last().map_or(Micros::ZERO, |slice| self.start(slice) + self.slice - Micros(1))
    }

    /// Within a slice, nobody stands on anybody.
    fn is_last_in_line(&self, state: &CounterState, _cost: u64, at: Micros, _now: Micros) -> bool {
        at >= self.line(&state.slices)
    }

    fn horizon(&self) -> Micros {
        MAX_WAIT
    }
}
