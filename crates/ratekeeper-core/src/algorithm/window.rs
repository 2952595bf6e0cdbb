//! Fixed window: counts permits, and starts again at the end of the window.
//!
//! Windows begin at multiples of the period, with a key's first admitted request, or with the calendar. The edge is
//! its known weakness: a full window just before a boundary and another just after it. The sliding algorithms have none.
//!
//! ```text
//!      window 0         window 1         window 2
//!   ├────────────────┼────────────────┼────────────────┤
//!    ▒▒▒▒▒▒▒▒ limit   ▒▒▒ reserved      free
//! ```
//!
//! A reservation is charged to the first later window with room. `used` then exceeds the limit and covers consecutive
//! windows, `limit` in each; when a window ends, `limit` is subtracted. A cost is never split: it goes to the next
//! window, and what was left of the one before counts as used.
//!
//! Bound: at most `limit` permits in each window, so at most twice that in any span as long as one.
//!
//! Twin: `window.lua` in the Redis store.

use super::{Algorithm, Charge, GiveBack, LeaseId, Look, Meter, Scale, Weighed, stepped_back};
use crate::{
    bounds::{MAX_LEVEL, MAX_TIME, tolerance},
    calendar::Calendar,
    held::Held,
    local_calendar::LocalPeriods,
    time::{Span, Timestamp},
};

/// A fixed window's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window {
    limit: u64,
    schedule: Schedule,
    tolerance: Span,
}

/// Where windows begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Schedule {
    /// At multiples of the period since the epoch.
    Epoch(Span),
    /// With the first admitted request of a key in its initial state.
    FirstRequest(Span),
    /// With the calendar.
    Calendar(Calendar),
    /// With the calendar of a place.
    Local(LocalPeriods),
}

/// The count at a time, ended windows subtracted and clock guard applied.
#[derive(Clone, Copy)]
struct WindowCount {
    /// Start of the current window.
    start: Timestamp,
    used: u64,
}

impl Window {
    pub(crate) fn new(limit: u64, schedule: Schedule) -> Self {
        Self { limit, schedule, tolerance: tolerance(schedule.shortest()) }
    }

    /// Where windows begin.
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// How far back the clock may step before the state moves with it.
    pub fn tolerance(&self) -> Span {
        self.tolerance
    }

    /// Permits used in the window that `now` lies in (and reserved in later ones), and when it began.
    pub fn used(&self, state: &Meter, now: Timestamp) -> (u64, Timestamp) {
        let count = self.count(state, now);
        (count.used, count.start)
    }

    /// When the window after the one that began at `start` begins.
    pub fn end(&self, start: Timestamp) -> Timestamp {
        self.schedule.later(start, 1)
    }

    /// For the calendar of a place: the starts of consecutive windows, the one of `now` at position
    /// [`PRESENT_WINDOW`](Self::PRESENT_WINDOW). Scripts select from them by the server's clock.
    pub fn starts_around(&self, now: Timestamp) -> Option<[Timestamp; Self::WINDOWS_AROUND]> {
        let Schedule::Local(periods) = self.schedule else { return None };
        let first = periods.index(now.min(MAX_TIME)) - Self::PRESENT_WINDOW as i64;
        Some(std::array::from_fn(|position| periods.start(first + position as i64)))
    }

    /// The number of [starts](Self::starts_around): as many before the present window and after it as a state can cover,
    /// and two more for clocks that differ.
    pub const WINDOWS_AROUND: usize = 30;

    /// The position of the present window in [starts](Self::starts_around), from 0.
    pub const PRESENT_WINDOW: usize = 14;

    /// Migrates a state from another quota. A window of the same schedule continues; what was used of the current window
    /// fills at most the new limit, and each later one with reservations counts as full.
    pub(crate) fn adopt(&self, old: &Self, state: &Meter, scale: Scale, now: Timestamp) -> Meter {
        let count = old.count(state, now);
        if count.used == 0 {
            return Meter::default();
        }
        let start = if old.schedule == self.schedule { count.start } else { self.schedule.start(now) };
        let windows_ahead = (count.used - 1) / old.limit;
        let in_last = scale.apply(count.used - windows_ahead * old.limit).min(self.limit);
        Meter { at: start, used: (windows_ahead * self.limit + in_last).min(self.most()) }
    }

    fn count(&self, state: &Meter, now: Timestamp) -> WindowCount {
        let fresh = WindowCount { start: self.schedule.start(now), used: 0 };
        if state.used == 0 {
            return fresh;
        }
        if now < state.at {
            return WindowCount { start: state.at, used: state.used };
        }
        let ended = self.schedule.windows_between(state.at, now);
        match state.used.saturating_sub(ended.saturating_mul(self.limit)) {
            0 => fresh,
            used => WindowCount { start: self.schedule.later(state.at, ended), used },
        }
    }

    /// The start of the window that holds the last of this many permits.
    fn window_of(&self, count: WindowCount, permits: u64) -> Timestamp {
        self.schedule.later(count.start, permits.div_ceil(self.limit).saturating_sub(1))
    }

    /// The most that may be charged: neither the permits nor the end of their windows exceed 2^52.
    fn most(&self) -> u64 {
        if let Schedule::Local(_) = self.schedule {
            return self.limit.saturating_mul(MAX_LOCAL_WINDOWS).min(MAX_LEVEL);
        }
        (MAX_LEVEL / self.schedule.shortest().as_micros()).saturating_mul(self.limit).min(MAX_LEVEL)
    }
}

impl Algorithm for Window {
    type State = Meter;

    fn limit(&self) -> u64 {
        self.limit
    }

    /// What is used moves to the window of `now`.
    fn follow(&self, state: &mut Meter, now: Timestamp) -> Span {
        let back = stepped_back(state.at, now, self.tolerance);
        if back > Span::ZERO {
            state.at = self.schedule.start(now);
        }
        back
    }

    fn weigh(&self, state: &Meter, cost: u64, now: Timestamp) -> Weighed {
        let count = self.count(state, now);
        if cost == 0 || count.used + cost <= self.limit {
            Weighed::at(now)
        } else {
            Weighed::at(self.window_of(count, count.used + cost))
        }
    }

    fn charge(&self, state: &mut Meter, charge: Charge, now: Timestamp) {
        let count = self.count(state, now);
        let windows_until_then = self.schedule.windows_between(count.start, charge.at.max(count.start));
        let used = count.used.max(windows_until_then * self.limit) + charge.cost;
        // A charge for local grants or a shadow rule's reservation may be larger than what scripts have starts for.
        let is_local = matches!(self.schedule, Schedule::Local(_));
        let used = if is_local { used.min(self.most()) } else { used };
        *state = Meter { at: count.start, used };
    }

    /// Fills at most the window of the last permit.
    fn penalize(&self, state: &mut Meter, charge: Charge, now: Timestamp) {
        let count = self.count(state, now);
        let full = count.used.div_ceil(self.limit).max(1) * self.limit;
        *state = Meter { at: count.start, used: count.used.saturating_add(charge.cost).min(full) };
    }

    fn give_back(&self, state: &mut Meter, back: GiveBack, now: Timestamp) {
        if !back.last_in_line {
            return;
        }
        let count = self.count(state, now);
        // Permits of an ended window are no longer counted, so they are not returned to this one.
        if back.at.is_none_or(|at| at >= count.start) {
            *state = Meter { at: count.start, used: count.used.saturating_sub(back.cost) };
        }
    }

    fn look(&self, state: &Meter, now: Timestamp) -> Look {
        let count = self.count(state, now);
        let reset_at = match count.used {
            0 => now,
            used => self.schedule.later(count.start, used.div_ceil(self.limit)),
        };
        Look { remaining: self.limit.saturating_sub(count.used), reset_at }
    }

    fn line_ends(&self, state: &Meter, now: Timestamp) -> Timestamp {
        let count = self.count(state, now);
        if count.used <= self.limit { now } else { self.window_of(count, count.used) }
    }

    /// What was used in a window that has ended does not count any more.
    fn charge_past(&self, state: &mut Meter, cost: u64, used_at: Timestamp, now: Timestamp) {
        let start = self.count(state, used_at).start;
        if start <= used_at || start > now {
            self.penalize(state, Charge { cost, at: used_at, lease: LeaseId(0) }, used_at);
        }
    }

    fn reset_with_held(&self, state: &Meter, held: Held, now: Timestamp) -> Timestamp {
        let count = self.count(state, now);
        let windows = count.used.div_ceil(self.limit).max(1);
        self.schedule.later(self.schedule.start(held.until).max(count.start), windows)
    }

    /// A window that starts with the first request is opened by takes alone, and allotments end with it: opened by a
    /// report, it would begin later than its first use.
    fn allotment_end(&self, state: &Meter, now: Timestamp) -> Option<Timestamp> {
        let Schedule::FirstRequest(_) = self.schedule else { return Some(MAX_TIME) };
        let count = self.count(state, now);
        (count.used > 0).then(|| self.schedule.later(count.start, 1))
    }

    fn turn(&self) -> Span {
        Span::from_micros(self.schedule.shortest().as_micros() / 20)
    }

    fn horizon(&self) -> Span {
        let windows = (self.most() / self.limit).saturating_sub(2);
        Span::from_micros(windows.saturating_mul(self.schedule.shortest().as_micros()))
    }
}

impl Schedule {
    /// The start of the window of a request at `now`.
    fn start(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Epoch(period) => Timestamp::from_micros(now.as_micros() - now.as_micros() % period.as_micros()),
            Self::FirstRequest(_) => now,
            Self::Calendar(calendar) => calendar.start(calendar.index(now)),
            Self::Local(periods) => periods.start(periods.index(now)),
        }
    }

    /// The start of the window that is `windows` after the one that began at `start`.
    fn later(self, start: Timestamp, windows: u64) -> Timestamp {
        match self {
            Self::Epoch(period) | Self::FirstRequest(period) => {
                start + Span::from_micros(windows.saturating_mul(period.as_micros()))
            }
            Self::Calendar(calendar) => {
                // Bounded by `Window::most`, so this fits easily.
                let windows = i64::try_from(windows).unwrap_or(i64::from(u32::MAX));
                calendar.start(calendar.index(start) + windows)
            }
            Self::Local(periods) => {
                // Never further ahead: a state covers no more windows.
                match i64::try_from(windows) {
                    Ok(ahead) if windows <= MAX_LOCAL_WINDOWS => periods.start(periods.index(start) + ahead),
                    _ => MAX_TIME,
                }
            }
        }
    }

    /// Number of window boundaries between a start and a time not before it.
    fn windows_between(self, start: Timestamp, moment: Timestamp) -> u64 {
        match self {
            Self::Epoch(period) | Self::FirstRequest(period) => moment.since(start).as_micros() / period.as_micros(),
            Self::Calendar(calendar) => calendar.index(moment).abs_diff(calendar.index(start)),
            Self::Local(periods) => periods.index(moment).abs_diff(periods.index(start)),
        }
    }

    fn shortest(self) -> Span {
        match self {
            Self::Epoch(period) | Self::FirstRequest(period) => period,
            Self::Calendar(calendar) => calendar.shortest(),
            Self::Local(periods) => periods.shortest(),
        }
    }
}

/// Windows of a place that a state covers at most, so that a script needs the starts of few of them.
const MAX_LOCAL_WINDOWS: u64 = 13;
