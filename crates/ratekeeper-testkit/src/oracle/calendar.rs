//! Calendar of the oracle: the day, week or month of an instant, found by counting days.
//!
//! Months are not computed but listed, from January 1970 to December 2199.

use std::sync::LazyLock;

use ratekeeper_core::{CalendarUnit, UtcOffset};

const DAY: i128 = 86_400_000_000;

/// The first day of every month since January 1970, in days since the epoch.
static MONTHS: LazyLock<Vec<i128>> = LazyLock::new(|| {
    let mut firsts = Vec::new();
    let mut day = 0;
    for year in 1970..2200 {
        let leap = year % 400 == 0 || (year % 4 == 0 && year % 100 != 0);
        let february = if leap { 29 } else { 28 };
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            firsts.push(day);
            day += length;
        }
    }
    firsts
});

/// The number of the period that contains an instant.
pub(super) fn number(unit: CalendarUnit, offset: UtcOffset, instant: u64) -> i128 {
    let local_day = (i128::from(instant) + shift(offset)).div_euclid(DAY);
    match unit {
        CalendarUnit::Day => local_day,
        // 5 January 1970 was the first Monday.
        CalendarUnit::Week => (local_day - 4).div_euclid(7) + 1,
        CalendarUnit::Year => unreachable!("years are those of a zone"),
        CalendarUnit::Month => i128::try_from(MONTHS.partition_point(|&first| first <= local_day)).unwrap() - 1,
    }
}

/// The start of the period with this number.
pub(super) fn begins(unit: CalendarUnit, offset: UtcOffset, number: i128) -> u64 {
    let local_day = match unit {
        CalendarUnit::Day => number,
        CalendarUnit::Week => (number - 1) * 7 + 4,
        CalendarUnit::Year => unreachable!("years are those of a zone"),
        CalendarUnit::Month => usize::try_from(number).map_or(-31, |index| MONTHS[index]),
    };
    u64::try_from((local_day * DAY - shift(offset)).max(0)).unwrap()
}

/// The offset in microseconds.
fn shift(offset: UtcOffset) -> i128 {
    i128::from(offset.as_minutes()) * 60_000_000
}
