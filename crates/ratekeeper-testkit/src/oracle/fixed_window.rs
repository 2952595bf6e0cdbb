//! Oracle for the fixed window: assigns every admission to its window and adds up the costs.
//!
//! Windows are numbered. A request passes at an instant if no later window has a reservation (no request passes before an
//! earlier one) and its whole cost fits into the window of that instant.
//!
//! Windows that start with the first request: a request that finds the key in its initial state starts window 0. The next
//! windows follow without a gap while one of them has an admission.

use ratekeeper_core::{Align, CalendarUnit, LocalCalendar, Period, Span, UtcOffset, Zone};

use super::{Booking, Naive, calendar, first_instant, local};

pub(super) struct FixedWindow {
    limit: u64,
    windows: Windows,
    admitted: Vec<Booking>,
}

#[derive(Clone, Copy)]
enum Windows {
    Every(u64),
    FromFirst(u64),
    Calendar(CalendarUnit, UtcOffset),
    Local(Period, LocalCalendar),
}

impl FixedWindow {
    pub(super) fn new(limit: u64, period: Period, align: Align) -> Self {
        let windows = match (period, align) {
            (Period::Span(span), Align::Epoch) => Windows::Every(span.as_micros()),
            (Period::Span(span), Align::FirstRequest) => Windows::FromFirst(span.as_micros()),
            (Period::Span(Span::DAY), Align::Calendar(offset)) => Windows::Calendar(CalendarUnit::Day, offset),
            (Period::Span(_), Align::Calendar(offset)) => Windows::Calendar(CalendarUnit::Week, offset),
            (Period::Month, Align::Calendar(offset)) => Windows::Calendar(CalendarUnit::Month, offset),
            (Period::Year, Align::Calendar(offset)) => Windows::Local(period, LocalCalendar::new(Zone::fixed(offset))),
            (_, Align::Local(calendar)) => Windows::Local(period, calendar),
            (Period::Month | Period::Year, _) => panic!("a month needs a calendar alignment"),
        };
        Self { limit, windows, admitted: Vec::new() }
    }

    /// The start of window 0 at an instant: the request that found the key in its initial state.
    fn origin(&self, now: u64) -> u64 {
        let Windows::FromFirst(period) = self.windows else { return 0 };
        let (mut origin, mut initial_at) = (0, 0);
        for booking in &self.admitted {
            if booking.asked >= initial_at {
                origin = booking.asked;
            }
            initial_at = origin + ((booking.go - origin) / period + 1) * period;
        }
        if now >= initial_at { now } else { origin }
    }

    fn number(&self, origin: u64, instant: u64) -> i128 {
        match self.windows {
            Windows::Every(period) => i128::from(instant / period),
            // Admissions before the origin belong to an earlier sequence of windows.
            Windows::FromFirst(period) => {
                if instant < origin {
                    -1
                } else {
                    i128::from((instant - origin) / period)
                }
            }
            Windows::Calendar(unit, offset) => calendar::number(unit, offset, instant),
            Windows::Local(period, place) => local::number(period, place, instant),
        }
    }

    fn begins(&self, origin: u64, number: i128) -> u64 {
        let times = |period: u64| u64::try_from(number).unwrap() * period;
        match self.windows {
            Windows::Every(period) => times(period),
            Windows::FromFirst(period) => origin + times(period),
            Windows::Calendar(unit, offset) => calendar::begins(unit, offset, number),
            Windows::Local(period, place) => local::begins(period, place, number),
        }
    }

    /// The last window with an admission, and its permits.
    fn last(&self, origin: u64) -> Option<(i128, u64)> {
        let numbered = || self.admitted.iter().map(|booking| (self.number(origin, booking.go), booking.cost));
        let last = numbered().map(|(number, _)| number).max()?;
        let permits = numbered().filter(|(number, _)| *number == last).map(|(_, cost)| cost).sum();
        Some((last, permits))
    }

    /// Permits free at an instant.
    fn free(&self, origin: u64, last: Option<(i128, u64)>, instant: u64) -> u64 {
        let number = self.number(origin, instant);
        match last {
            Some((last, _)) if last > number => 0,
            Some((last, permits)) if last == number => self.limit - permits,
            _ => self.limit,
        }
    }
}

impl Naive for FixedWindow {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn free_at(&self, cost: u64, now: u64) -> u64 {
        let origin = self.origin(now);
        let last = self.last(origin);
        first_instant(now, |instant| self.free(origin, last, instant) >= cost)
    }

    fn book(&mut self, booking: Booking) {
        self.admitted.push(booking);
    }

    fn remaining(&self, now: u64) -> u64 {
        let origin = self.origin(now);
        self.free(origin, self.last(origin), now)
    }

    fn reset_at(&self, now: u64) -> u64 {
        let origin = self.origin(now);
        match self.last(origin) {
            Some((last, _)) if last >= self.number(origin, now) => self.begins(origin, last + 1),
            _ => now,
        }
    }
}
