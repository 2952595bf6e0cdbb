//! The fixed window: count, and forget at the end of the window.
//!
//! Windows begin at multiples of the period, with a key's first admitted request, or with the calendar. The edge is
//! its known weakness: a full window just before a boundary and another just after it. The sliding forms have none.
//!
//! ```text
//!      window 0         window 1         window 2
//!   ├────────────────┼────────────────┼────────────────┤
//!    ▒▒▒▒▒▒▒▒ limit   ▒▒▒ reserved      free
//! ```
//!
//! A reservation goes to the first later window with room. `used` then exceeds the limit and lies over consecutive
//! windows, `limit` in each; when a window ends, `limit` of it is forgotten. A cost is never split: it skips to the
//! next window, and what was left of the one before counts as used.
//!
//! Bound: at most `limit` permits in each window, so at most twice that in any span as long as one.

use super::{Algorithm, Charge, GiveBack, Look, Meter, Scale, Weighed, stepped_back};
use crate::{
    bounds::{MAX_LEVEL, tolerance},
    calendar::Calendar,
    time::Micros,
};

/// A fixed window's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window {
    limit: u64,
    schedule: Schedule,
    tolerance: Micros,
}

/// Where windows begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Schedule {
    /// At multiples of the period since the epoch.
    Epoch(Micros),
    /// With the first admitted request of a key that is as good as new.
    FirstRequest(Micros),
    /// With the calendar.
    Calendar(Calendar),
}

/// The count at a moment, ended windows forgotten and clock guard applied.
#[derive(Clone, Copy)]
struct Level {
    /// Start of the current window.
    start: Micros,
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
    pub fn tolerance(&self) -> Micros {
        self.tolerance
    }

    /// Permits used in the window that `now` lies in (and reserved in later ones), and when it began.
    pub fn used(&self, state: &Meter, now: Micros) -> (u64, Micros) {
        let level = self.level(state, now);
        (level.used, level.start)
    }

    /// When the window after the one that began at `start` begins.
    pub fn end(&self, start: Micros) -> Micros {
        self.schedule.later(start, 1)
    }

    /// The state of a key that was counted under other numbers. A window that goes on stays where it is; what was
    /// used of the current window fills at most the new limit, and each later one with reservations counts as full.
    pub(crate) fn adopt(&self, old: &Self, state: &Meter, scale: Scale, now: Micros) -> Meter {
        let level = old.level(state, now);
        if level.used == 0 {
            return Meter::default();
        }
        let start = if old.schedule == self.schedule { level.start } else { self.schedule.start(now) };
        let windows_ahead = (level.used - 1) / old.limit;
        let in_last = scale.apply(level.used - windows_ahead * old.limit).min(self.limit);
        Meter { at: start, used: (windows_ahead * self.limit + in_last).min(self.most()) }
    }

    fn level(&self, state: &Meter, now: Micros) -> Level {
        let fresh = Level { start: self.schedule.start(now), used: 0 };
        if state.used == 0 {
            return fresh;
        }
        if now < state.at {
            return Level { start: state.at, used: state.used };
        }
        let ended = self.schedule.windows_between(state.at, now);
        match state.used.saturating_sub(ended.saturating_mul(self.limit)) {
            0 => fresh,
            used => Level { start: self.schedule.later(state.at, ended), used },
        }
    }

    /// The start of the window that holds the last of so many permits.
    fn window_of(&self, level: Level, permits: u64) -> Micros {
        self.schedule.later(level.start, permits.div_ceil(self.limit).saturating_sub(1))
    }

    /// The most that may be charged: few enough that neither the permits nor the windows to hold them leave 2^52.
    fn most(&self) -> u64 {
        (MAX_LEVEL / self.schedule.shortest().0).saturating_mul(self.limit).min(MAX_LEVEL)
    }
}

impl Algorithm for Window {
    type State = Meter;

    fn limit(&self) -> u64 {
        self.limit
    }

    /// The used part moves to the window of now.
    fn follow(&self, state: &mut Meter, now: Micros) -> Micros {
        let back = stepped_back(state.at, now, self.tolerance);
        if back > Micros::ZERO {
            state.at = self.schedule.start(now);
        }
        back
    }

    fn weigh(&self, state: &Meter, cost: u64, now: Micros) -> Weighed {
        let level = self.level(state, now);
        if cost == 0 || level.used + cost <= self.limit {
            Weighed::at(now)
        } else {
            Weighed::at(self.window_of(level, level.used + cost))
        }
    }

    fn charge(&self, state: &mut Meter, charge: Charge, now: Micros) {
        let level = self.level(state, now);
        let windows_until_then = self.schedule.windows_between(level.start, charge.at.max(level.start));
        let used = level.used.max(windows_until_then * self.limit) + charge.cost;
        *state = Meter { at: level.start, used };
    }

    /// Fills at most the window the last permit lies in: what is used up cannot be used up further.
    fn penalize(&self, state: &mut Meter, charge: Charge, now: Micros) {
        let level = self.level(state, now);
        let full = level.used.div_ceil(self.limit).max(1) * self.limit;
        *state = Meter { at: level.start, used: level.used.saturating_add(charge.cost).min(full) };
    }

    fn give_back(&self, state: &mut Meter, back: GiveBack, now: Micros) {
        if !back.last_in_line {
            return;
        }
        let level = self.level(state, now);
        // What was taken in a window that has ended is forgotten; this one is not to pay for it.
        if back.at.is_none_or(|at| at >= level.start) {
            *state = Meter { at: level.start, used: level.used.saturating_sub(back.cost) };
        }
    }

    fn look(&self, state: &Meter, now: Micros) -> Look {
        let level = self.level(state, now);
        let rests_at = match level.used {
            0 => now,
            used => self.schedule.later(level.start, used.div_ceil(self.limit)),
        };
        Look { remaining: self.limit.saturating_sub(level.used), rests_at }
    }

    fn line_ends(&self, state: &Meter, now: Micros) -> Micros {
        let level = self.level(state, now);
        if level.used <= self.limit { now } else { self.window_of(level, level.used) }
    }

    fn horizon(&self) -> Micros {
        let windows = (self.most() / self.limit).saturating_sub(2);
        Micros(windows.saturating_mul(self.schedule.shortest().0))
    }
}

impl Schedule {
    /// The start of the window that a request at `now` opens or falls into.
    fn start(self, now: Micros) -> Micros {
        match self {
            Self::Epoch(period) => Micros(now.0 - now.0 % period.0),
            Self::FirstRequest(_) => now,
            Self::Calendar(calendar) => calendar.start(calendar.index(now)),
        }
    }

    /// The start of the window so many windows after the one that began at `start`.
    fn later(self, start: Micros, windows: u64) -> Micros {
        match self {
            Self::Epoch(period) | Self::FirstRequest(period) => start + Micros(windows.saturating_mul(period.0)),
            Self::Calendar(calendar) => {
                // Bounded by `Window::most`, so this fits easily.
                let windows = i64::try_from(windows).unwrap_or(i64::from(u32::MAX));
                calendar.start(calendar.index(start) + windows)
            }
        }
    }

    /// How many window boundaries lie between a start and a moment not before it.
    fn windows_between(self, start: Micros, moment: Micros) -> u64 {
        match self {
            Self::Epoch(period) | Self::FirstRequest(period) => (moment - start).0 / period.0,
            Self::Calendar(calendar) => calendar.index(moment).abs_diff(calendar.index(start)),
        }
    }

    fn shortest(self) -> Micros {
        match self {
            Self::Epoch(period) | Self::FirstRequest(period) => period,
            Self::Calendar(calendar) => calendar.shortest(),
        }
    }
}
