//! Calendar arithmetic: days, weeks and months at a fixed offset from UTC.
//!
//! Periods are numbered, so that "three months later" is an addition. Time zones, other first days and years are those
//! of [`LocalCalendar`](crate::LocalCalendar).

use std::fmt;

use crate::time::{Span, Timestamp};

/// A calendar period that a fixed window can cover.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum CalendarUnit {
    /// Midnight to midnight.
    Day,
    /// Monday to Sunday, as in ISO 8601.
    Week,
    /// The first of a month to the first of the next.
    Month,
    /// The first of January to the first of the next.
    Year,
}

/// How far local clocks are ahead of UTC, in whole minutes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct UtcOffset {
    minutes: i32,
}

impl UtcOffset {
    /// No offset.
    pub const UTC: Self = Self { minutes: 0 };
    /// The largest offset either way, 18 hours, as ISO 8601 libraries commonly allow; real ones end at +14:00.
    pub const MAX_MINUTES: i32 = 18 * 60;

    /// Minutes east of Greenwich; negative to the west.
    pub const fn minutes(minutes: i32) -> Self {
        Self { minutes }
    }

    /// Hours east of Greenwich; negative to the west.
    pub const fn hours(hours: i32) -> Self {
        Self { minutes: hours.saturating_mul(60) }
    }

    /// Minutes east of Greenwich.
    pub const fn as_minutes(self) -> i32 {
        self.minutes
    }

    const fn micros(self) -> i64 {
        self.minutes as i64 * Span::MINUTE.as_micros() as i64
    }
}

impl fmt::Display for UtcOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.minutes < 0 { '-' } else { '+' };
        let minutes = self.minutes.unsigned_abs();
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// The calendar of one fixed window.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Calendar {
    /// Day, week or month.
    pub unit: CalendarUnit,
    /// The offset at which it begins.
    pub offset: UtcOffset,
}

impl Calendar {
    /// The number of the period that `now` lies in. Before the epoch numbers are negative.
    pub(crate) fn index(self, now: Timestamp) -> i64 {
        let day = (as_i64(now) + self.offset.micros()).div_euclid(DAY);
        match self.unit {
            CalendarUnit::Day => day,
            CalendarUnit::Week => (day + THURSDAY).div_euclid(7),
            CalendarUnit::Month => month_of(day),
            CalendarUnit::Year => month_of(day).div_euclid(12),
        }
    }

    /// When that period begins. The period that contains the epoch begins at the epoch.
    pub(crate) fn start(self, index: i64) -> Timestamp {
        let day = match self.unit {
            CalendarUnit::Day => index,
            CalendarUnit::Week => index * 7 - THURSDAY,
            CalendarUnit::Month => first_day_of(index),
            CalendarUnit::Year => first_day_of(index * 12),
        };
        let start = day * DAY - self.offset.micros();
        Timestamp::from_micros(u64::try_from(start).unwrap_or(0))
    }

    /// Length of the shortest period of this unit.
    pub(crate) fn shortest(self) -> Span {
        match self.unit {
            CalendarUnit::Day => Span::DAY,
            CalendarUnit::Week => Span::WEEK,
            CalendarUnit::Month => Span::from_micros(28 * Span::DAY.as_micros()),
            CalendarUnit::Year => Span::from_micros(365 * Span::DAY.as_micros()),
        }
    }
}

/// Months since year 0 for a day counted from the epoch.
///
/// Years are taken to begin in March, so that the leap day is the last of its year and months fall into a pattern of
/// 153 days every five; this is the usual way to compute a proleptic Gregorian date without a table.
pub(crate) fn month_of(day: i64) -> i64 {
    let day = day + DAYS_TO_EPOCH;
    let era = day.div_euclid(DAYS_PER_ERA);
    let day_of_era = day.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    (era * 400 + year_of_era) * 12 + month_from_march + 2
}

/// The inverse: the first day, counted from the epoch, of a month counted from year 0.
pub(crate) fn first_day_of(month: i64) -> i64 {
    let from_march = month - 2;
    let year = from_march.div_euclid(12);
    let month_from_march = from_march.rem_euclid(12);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month_from_march + 2) / 5;
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_TO_EPOCH
}

/// Instants stay below 2^53, so this never saturates in practice.
pub(crate) fn as_i64(at: Timestamp) -> i64 {
    i64::try_from(at.as_micros()).unwrap_or(i64::MAX)
}

const DAY: i64 = Span::DAY.as_micros() as i64;
/// 1 January 1970 was a Thursday: three days into its week.
const THURSDAY: i64 = 3;
/// 400 Gregorian years, after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;
/// From 1 March of year 0 to 1 January 1970.
const DAYS_TO_EPOCH: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(unit: CalendarUnit, offset: UtcOffset, seconds: u64) -> (u64, u64) {
        let calendar = Calendar { unit, offset };
        let index = calendar.index(Timestamp::from_secs(seconds));
        (calendar.start(index).as_micros() / 1_000_000, calendar.start(index + 1).as_micros() / 1_000_000)
    }

    #[test]
    fn months_begin_on_the_first() {
        // 2024-02-29T12:00:00Z lies between 1 February and 1 March of a leap year.
        let leap_day = 1_709_208_000;
        assert_eq!(at(CalendarUnit::Month, UtcOffset::UTC, leap_day), (1_706_745_600, 1_709_251_200));
        // 2026-11-15T00:00:00Z
        let day = 1_794_700_800;
        assert_eq!(at(CalendarUnit::Month, UtcOffset::UTC, day), (1_793_491_200, 1_796_083_200));
    }

    #[test]
    fn weeks_begin_on_monday() {
        // 2026-11-15 is a Sunday: its week is 9 to 16 November.
        let sunday = 1_794_700_800 + 3_600;
        assert_eq!(at(CalendarUnit::Week, UtcOffset::UTC, sunday), (1_794_182_400, 1_794_787_200));
    }

    #[test]
    fn days_follow_the_offset() {
        // 23:30 UTC is half past one on the next day at +02:00.
        let late = 1_794_700_800 - 1_800;
        let (start, end) = at(CalendarUnit::Day, UtcOffset::hours(2), late);
        assert_eq!((start, end), (1_794_693_600, 1_794_780_000));
        assert_eq!(UtcOffset::minutes(-210).to_string(), "-03:30");
    }

    #[test]
    fn every_month_of_four_centuries_is_its_own_first_day() {
        let mut day = first_day_of(0);
        for month in 0..400 * 12 {
            assert_eq!(first_day_of(month), day, "month {month}");
            let length = first_day_of(month + 1) - day;
            assert!((28..=31).contains(&length), "month {month} has {length} days");
            assert_eq!(month_of(day), month);
            assert_eq!(month_of(day + length - 1), month);
            day += length;
        }
    }

    #[test]
    fn the_period_of_the_epoch_begins_at_the_epoch() {
        assert_eq!(at(CalendarUnit::Week, UtcOffset::UTC, 0), (0, 4 * 86_400));
        assert_eq!(at(CalendarUnit::Day, UtcOffset::hours(-5), 0), (0, 5 * 3_600));
    }
}
