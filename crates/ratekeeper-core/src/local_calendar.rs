//! Calendar periods of a time zone: days, weeks, months and years by local time.
//!
//! A period begins at the first instant whose local date is its first day, or later: a day of 23 or 25 hours is one
//! period, and a day whose midnight does not exist begins when the clock skips it. Periods are numbered, so that "three
//! months later" is an addition.
//!
//! A month may begin on another day than the first, as billing months do. In a month that is too short for it, the period
//! begins on the last day: a billing day of 31 is 28 February, 31 March, 30 April.
//!
//! Where a place has skipped a whole day (Samoa, 30 December 2011), the period of that day is empty.

use crate::{
    calendar::{CalendarUnit, as_i64, first_day_of, month_of},
    time::{Span, Timestamp},
    zone::Zone,
};

/// The calendar of a place: its zone, the first day of its weeks, and the day on which its months begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LocalCalendar {
    zone: Zone,
    week_start: Weekday,
    month_day: u8,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Weekday {
    /// As in ISO 8601.
    #[default]
    Monday,
    /// The second day.
    Tuesday,
    /// The third day.
    Wednesday,
    /// The fourth day.
    Thursday,
    /// The fifth day.
    Friday,
    /// The sixth day.
    Saturday,
    /// The seventh day.
    Sunday,
}

impl Weekday {
    /// All days, from Monday.
    pub const ALL: [Self; 7] =
        [Self::Monday, Self::Tuesday, Self::Wednesday, Self::Thursday, Self::Friday, Self::Saturday, Self::Sunday];

    /// The name in rule files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Monday => "monday",
            Self::Tuesday => "tuesday",
            Self::Wednesday => "wednesday",
            Self::Thursday => "thursday",
            Self::Friday => "friday",
            Self::Saturday => "saturday",
            Self::Sunday => "sunday",
        }
    }
}

impl LocalCalendar {
    /// The calendar of a zone, with weeks from Monday and months from the first.
    pub fn new(zone: Zone) -> Self {
        Self { zone, week_start: Weekday::Monday, month_day: 1 }
    }

    /// Weeks begin on this day.
    #[must_use]
    pub fn week_start(mut self, day: Weekday) -> Self {
        self.week_start = day;
        self
    }

    /// Months begin on this day, 1 to 31; on the last day of a month that is too short.
    #[must_use]
    pub fn month_day(mut self, day: u8) -> Self {
        self.month_day = day;
        self
    }

    /// The zone.
    pub fn zone(&self) -> Zone {
        self.zone
    }

    /// The first day of weeks.
    pub fn first_weekday(&self) -> Weekday {
        self.week_start
    }

    /// The day on which months begin.
    pub fn first_month_day(&self) -> u8 {
        self.month_day
    }
}

/// Numbered periods of one unit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LocalPeriods {
    /// Day, week, month or year.
    pub unit: CalendarUnit,
    /// The place.
    pub calendar: LocalCalendar,
}

impl LocalPeriods {
    /// The number of the period that contains an instant.
    pub(crate) fn index(self, now: Timestamp) -> i64 {
        let now = as_i64(now);
        let mut index = self.of_day(self.calendar.zone.local(now).div_euclid(DAY));
        // Where the clock is set back across midnight, the local date is not that of the period.
        while self.begin(index) > now {
            index -= 1;
        }
        while self.begin(index + 1) <= now {
            index += 1;
        }
        index
    }

    /// When a period begins. The period that contains the epoch begins at the epoch.
    pub(crate) fn start(self, index: i64) -> Timestamp {
        Timestamp::from_micros(u64::try_from(self.begin(index)).unwrap_or(0))
    }

    /// A length that no period is shorter than, those of skipped days apart.
    pub(crate) fn shortest(self) -> Span {
        let hours = match self.unit {
            CalendarUnit::Day => 20,
            CalendarUnit::Week => 7 * 24 - 4,
            CalendarUnit::Month => 27 * 24,
            CalendarUnit::Year => 364 * 24,
        };
        Span::from_micros(hours * Span::HOUR.as_micros())
    }

    fn begin(self, index: i64) -> i64 {
        self.calendar.zone.instant(self.first_day(index) * DAY)
    }

    /// The first day of a period, counted from the epoch.
    fn first_day(self, index: i64) -> i64 {
        match self.unit {
            CalendarUnit::Day => index,
            CalendarUnit::Week => index * 7 - THURSDAY + self.calendar.week_start as i64,
            CalendarUnit::Month => {
                let (first, next) = (first_day_of(index), first_day_of(index + 1));
                (first + i64::from(self.calendar.month_day) - 1).min(next - 1)
            }
            CalendarUnit::Year => first_day_of(index * 12),
        }
    }

    /// The period of a day.
    fn of_day(self, day: i64) -> i64 {
        match self.unit {
            CalendarUnit::Day => day,
            CalendarUnit::Week => (day + THURSDAY - self.calendar.week_start as i64).div_euclid(7),
            CalendarUnit::Month => {
                let month = month_of(day);
                if day < self.first_day(month) { month - 1 } else { month }
            }
            CalendarUnit::Year => month_of(day).div_euclid(12),
        }
    }
}

const DAY: i64 = Span::DAY.as_micros() as i64;
/// 1 January 1970 was a Thursday: three days after a Monday.
const THURSDAY: i64 = 3;
