//! Fixed window: put every admission into the window it goes in, and count.
//!
//! Windows have numbers. A request passes at a moment if no later window is spoken for (nobody goes before those who
//! wait) and its whole cost still fits into the window of that moment.
//!
//! Windows that start with the first request: a request that finds the key as good as new begins window 0 there and
//! then; the windows after it follow without a gap for as long as one of them is spoken for.

use tollgate_core::{Align, CalendarUnit, Micros, Period, UtcOffset};

use super::{Booking, Naive, calendar, first_moment};

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
}

impl FixedWindow {
    pub(super) fn new(limit: u64, period: Period, align: Align) -> Self {
        let windows = match (period, align) {
            (Period::Span(span), Align::Epoch) => Windows::Every(span.0),
            (Period::Span(span), Align::FirstRequest) => Windows::FromFirst(span.0),
            (Period::Span(Micros::DAY), Align::Calendar(offset)) => Windows::Calendar(CalendarUnit::Day, offset),
            (Period::Span(_), Align::Calendar(offset)) => Windows::Calendar(CalendarUnit::Week, offset),
            (Period::Month, Align::Calendar(offset)) => Windows::Calendar(CalendarUnit::Month, offset),
            (Period::Month, _) => panic!("only the calendar knows months"),
        };
        Self { limit, windows, admitted: Vec::new() }
    }

    /// Where window 0 begins for a key at a moment: with the request that found it as good as new.
    fn origin(&self, now: u64) -> u64 {
        let Windows::FromFirst(period) = self.windows else { return 0 };
        let (mut origin, mut good_as_new_at) = (0, 0);
        for booking in &self.admitted {
            if booking.asked >= good_as_new_at {
                origin = booking.asked;
            }
            good_as_new_at = origin + ((booking.go - origin) / period + 1) * period;
        }
        if now >= good_as_new_at { now } else { origin }
    }

    fn number(&self, origin: u64, moment: u64) -> i128 {
        match self.windows {
            Windows::Every(period) => i128::from(moment / period),
            // What came before the origin is of an older time.
            Windows::FromFirst(period) => {
                if moment < origin {
                    -1
                } else {
                    i128::from((moment - origin) / period)
                }
            }
            Windows::Calendar(unit, offset) => calendar::number(unit, offset, moment),
        }
    }

    fn begins(&self, origin: u64, number: i128) -> u64 {
        let times = |period: u64| u64::try_from(number).unwrap() * period;
        match self.windows {
            Windows::Every(period) => times(period),
            Windows::FromFirst(period) => origin + times(period),
            Windows::Calendar(unit, offset) => calendar::begins(unit, offset, number),
        }
    }

    /// The last window spoken for, and how many permits go in it.
    fn last(&self, origin: u64) -> Option<(i128, u64)> {
        let numbered = || self.admitted.iter().map(|booking| (self.number(origin, booking.go), booking.cost));
        let last = numbered().map(|(number, _)| number).max()?;
        let permits = numbered().filter(|(number, _)| *number == last).map(|(_, cost)| cost).sum();
        Some((last, permits))
    }

    /// Permits free at a moment.
    fn free(&self, origin: u64, last: Option<(i128, u64)>, moment: u64) -> u64 {
        let number = self.number(origin, moment);
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
        first_moment(now, |moment| self.free(origin, last, moment) >= cost)
    }

    fn book(&mut self, booking: Booking) {
        self.admitted.push(booking);
    }

    fn remaining(&self, now: u64) -> u64 {
        let origin = self.origin(now);
        self.free(origin, self.last(origin), now)
    }

    fn rests_at(&self, now: u64) -> u64 {
        let origin = self.origin(now);
        match self.last(origin) {
            Some((last, _)) if last >= self.number(origin, now) => self.begins(origin, last + 1),
            _ => now,
        }
    }
}
