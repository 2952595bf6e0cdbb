//! Sliding counter: a count per slice of the window instead of a time per permit.
//!
//! Every slice that still overlaps the window counts in full, so the limit holds in every true window. The cost: a
//! permit may count for up to one slice longer than the window, so at most what arrived in one slice is missing.
//! (Counting only whole recent slices, as is common, admits one slice too much instead.)
//!
//! ```text
//!    slices    │ 3 │ 0 │ 2 │ 4 │ 1 │            slice = window ÷ buckets, aligned to the epoch
//!    window      └──────────────┘ now           the 3 still counts: part of its slice is inside
//! ```
//!
//! A slice leaves when its end is one window old. Reservations are future slices; no later request is admitted before
//! them.
//!
//! Bound: at most `limit` permits in every window; with demand, at least `limit` per window and one slice.
//!
//! Twin: `counter.lua` in the Redis store.

use smallvec::SmallVec;

use super::{Algorithm, Charge, GiveBack, Look, Scale, Weighed, stepped_back};
use crate::{
    bounds::{MAX_WAIT, tolerance},
    held::Held,
    time::{Span, Timestamp},
};

/// A sliding counter's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counter {
    limit: u64,
    window: Span,
    /// Length of a slice.
    slice: Span,
    tolerance: Span,
}

/// The counts of one key, oldest first; empty slices are not stored.
///
/// A decision takes the same time for any number of slices: the total is kept, and a slice that leaves is skipped first
/// and removed later, together with others.
#[derive(Clone, Debug, Default)]
pub struct CounterState {
    /// The clock at the last change, to detect steps back.
    last: Timestamp,
    /// Permits of all slices that are not skipped.
    total: u64,
    /// How many slices at the front are skipped, because they had left the window at the last change.
    skipped: usize,
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
    pub(crate) fn new(limit: u64, window: Span, buckets: u32) -> Self {
        let slice = Span::from_micros(window.as_micros().div_ceil(u64::from(buckets)));
        Self { limit, window, slice, tolerance: tolerance(window) }
    }

    /// Permits that count at `now`, reservations included.
    pub fn used(&self, state: &CounterState, now: Timestamp) -> u64 {
        self.live(state, state.moment(now)).1
    }

    /// Migrates a state from another quota. If the slices have another length, each is placed by its last microsecond, so
    /// that none leaves early.
    pub(crate) fn adopt(&self, old: &Self, state: &CounterState, scale: Scale, now: Timestamp) -> CounterState {
        let indexed = old.live(state, state.moment(now)).0.iter().map(|slice| {
            let last_moment = old.start(slice) + old.slice - Span::MICROSECOND;
            let within_past = if old.start(slice) <= state.last { last_moment.min(state.last) } else { last_moment };
            let index = if old.slice == self.slice { slice.index } else { self.index(within_past) };
            (index, scale.apply(slice.permits))
        });
        CounterState::of(state.last, merged(indexed))
    }

    /// The slices that count at `now`, oldest first: where each begins, and its permits.
    pub fn slices<'a>(
        &'a self,
        state: &'a CounterState,
        now: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, u64)> + 'a {
        self.live(state, state.moment(now)).0.iter().map(|slice| (self.start(slice), slice.permits))
    }

    /// Length of the window.
    pub fn window(&self) -> Span {
        self.window
    }

    /// How far back the clock may step before the state moves with it.
    pub fn tolerance(&self) -> Span {
        self.tolerance
    }

    /// Length of one slice: the longest time that a permit counts beyond the window.
    pub fn slice(&self) -> Span {
        self.slice
    }

    fn index(&self, moment: Timestamp) -> u64 {
        moment.as_micros() / self.slice.as_micros()
    }

    fn start(&self, slice: &Slice) -> Timestamp {
        Timestamp::from_micros(slice.index * self.slice.as_micros())
    }

    /// When a slice no longer overlaps the window.
    fn leaves_at(&self, slice: &Slice) -> Timestamp {
        self.start(slice) + self.slice + self.window
    }

    /// Slices moved back with the clock: by whole slices, rounded down, so that none leaves early; past slices stay past.
    /// (The slice of the last change may hold reservations as well.)
    fn moved(&self, state: &CounterState, back: Span, now: Timestamp) -> Vec<Slice> {
        let (by, newest, last) = (back.as_micros() / self.slice.as_micros(), self.index(now), self.index(state.last));
        let indexed = state.stored().iter().map(|slice| {
            let index = slice.index.saturating_sub(by);
            (if slice.index < last { index.min(newest) } else { index }, slice.permits)
        });
        merged(indexed)
    }

    /// The slices that count at a time, and their permits. Slices that have left since the last change are counted one by
    /// one; the next charge skips them.
    fn live<'a>(&self, state: &'a CounterState, moment: Timestamp) -> (&'a [Slice], u64) {
        let (mut live, mut permits) = (state.stored(), state.total);
        while let [first, rest @ ..] = live
            && self.leaves_at(first) <= moment
        {
            (live, permits) = (rest, permits.saturating_sub(first.permits));
        }
        (live, permits)
    }

    fn add(&self, state: &mut CounterState, permits: u64, index: u64) {
        state.total = state.total.saturating_add(permits);
        match state.slices.last_mut() {
            Some(last) if last.index >= index => last.permits = last.permits.saturating_add(permits),
            _ => state.slices.push(Slice { index, permits }),
        }
    }

    /// Stores the time and skips the slices that have left. They are removed once they are half of all.
    fn bring_up_to_date(&self, state: &mut CounterState, now: Timestamp) {
        state.last = state.moment(now);
        let (live, permits) = self.live(state, state.last);
        (state.skipped, state.total) = (state.slices.len() - live.len(), permits);
        if state.skipped * 2 >= state.slices.len() {
            state.slices.drain(..state.skipped);
            state.skipped = 0;
        }
    }

    fn line(&self, slices: &[Slice]) -> Timestamp {
        slices.last().map_or(Timestamp::EPOCH, |slice| self.start(slice))
    }
}

/// Slices, with equal indices merged.
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
    fn of(last: Timestamp, slices: Vec<Slice>) -> Self {
        let total = slices.iter().map(|slice| slice.permits).fold(0, u64::saturating_add);
        Self { last, total, skipped: 0, slices: SmallVec::from_vec(slices) }
    }

    /// The slices that are not skipped.
    fn stored(&self) -> &[Slice] {
        &self.slices[self.skipped..]
    }

    /// The time to read the slices at: now, or later while a clock that stepped back catches up.
    fn moment(&self, now: Timestamp) -> Timestamp {
        if self.stored().is_empty() { now } else { now.max(self.last) }
    }

    /// The clock at the last change.
    pub fn last(&self) -> Timestamp {
        self.last
    }

    /// The stored slices, oldest first: index and permits.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.stored().iter().map(|slice| (slice.index, slice.permits))
    }

    /// A counter from its stored form. The slices must ascend, as [`pairs`](Self::pairs) returns them.
    pub fn restore(last: Timestamp, pairs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self::of(last, pairs.into_iter().map(|(index, permits)| Slice { index, permits }).collect())
    }

    /// Heap bytes beyond the struct itself.
    pub fn heap_bytes(&self) -> usize {
        if self.slices.spilled() { self.slices.capacity() * size_of::<Slice>() } else { 0 }
    }
}

/// Two states are equal if their slices are; how many are skipped in front of them does not matter.
impl PartialEq for CounterState {
    fn eq(&self, other: &Self) -> bool {
        self.last == other.last && self.stored() == other.stored()
    }
}

impl Eq for CounterState {}

impl Algorithm for Counter {
    type State = CounterState;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn follow(&self, state: &mut CounterState, now: Timestamp) -> Span {
        let back = stepped_back(state.last, now, self.tolerance);
        if back > Span::ZERO {
            *state = CounterState::of(state.last - back, self.moved(state, back, now));
        }
        back
    }

    fn weigh(&self, state: &CounterState, cost: u64, now: Timestamp) -> Weighed {
        let moment = state.moment(now);
        let (live, mut counted) = self.live(state, moment);
        let line = self.line(live);
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

    fn charge(&self, state: &mut CounterState, charge: Charge, now: Timestamp) {
        self.bring_up_to_date(state, now);
        let index = self.index(charge.at.max(state.last));
        self.add(state, charge.cost, index);
    }

    /// More than the limit in one slice has the same effect as the limit.
    fn penalize(&self, state: &mut CounterState, charge: Charge, now: Timestamp) {
        self.bring_up_to_date(state, now);
        let index = self.index(state.last);
        self.add(state, charge.cost.min(self.limit), index);
    }

    /// Each slice is stored, so permits can always be returned; without a time, the latest ones not in the future.
    fn give_back(&self, state: &mut CounterState, back: GiveBack, now: Timestamp) {
        self.bring_up_to_date(state, now);
        let until = self.index(back.at.unwrap_or(state.last));
        let mut missing = back.cost;
        let CounterState { skipped, total, slices, .. } = state;
        for slice in slices[*skipped..].iter_mut().rev().filter(|slice| slice.index <= until) {
            if missing == 0 || (back.at.is_some() && slice.index != until) {
                break;
            }
            let permits = slice.permits.min(missing);
            slice.permits -= permits;
            *total = total.saturating_sub(permits);
            missing -= permits;
        }
        if slices[*skipped..].iter().any(|slice| slice.permits == 0) {
            slices.drain(..*skipped);
            *skipped = 0;
            slices.retain(|slice| slice.permits > 0);
        }
    }

    fn look(&self, state: &CounterState, now: Timestamp) -> Look {
        let moment = state.moment(now);
        let (live, used) = self.live(state, moment);
        let remaining = if self.line(live) > moment { 0 } else { self.limit.saturating_sub(used) };
        Look { remaining, reset_at: live.last().map_or(now, |slice| self.leaves_at(slice)) }
    }

    /// A reservation may be for any time of the last slice.
    fn line_ends(&self, state: &CounterState, _now: Timestamp) -> Timestamp {
        state.stored().last().map_or(Timestamp::EPOCH, |slice| self.start(slice) + self.slice - Span::MICROSECOND)
    }

    /// Reservations of one slice do not depend on each other.
    fn is_last_in_line(&self, state: &CounterState, _cost: u64, at: Timestamp, _now: Timestamp) -> bool {
        at >= self.line(state.stored())
    }

    fn reset_with_held(&self, state: &CounterState, held: Held, _now: Timestamp) -> Timestamp {
        let index = state.stored().last().map_or(0, |slice| slice.index).max(self.index(held.until));
        self.leaves_at(&Slice { index, permits: 0 })
    }

    fn turn(&self) -> Span {
        Span::from_micros(self.window.as_micros() / 20)
    }

    fn horizon(&self) -> Span {
        MAX_WAIT
    }
}
