//! Oracle for calendar periods of a time zone: dates and first instants by `jiff`, periods counted on the calendar.

use std::{cell::RefCell, collections::HashMap};

use jiff::{
    Timestamp, ToSpan,
    civil::Date,
    tz::{TimeZone, TimeZoneDatabase},
};
use ratekeeper_core::{LocalCalendar, Period, Span};

/// The number of the period that contains an instant.
pub(super) fn number(period: Period, place: LocalCalendar, instant: u64) -> i128 {
    let at = Timestamp::from_microsecond(i64::try_from(instant).expect("an instant")).expect("an instant");
    let date = at.to_zoned(zone(place)).date();
    let month = i128::from(date.year()) * 12 + i128::from(date.month()) - 1;
    match period {
        Period::Span(Span::DAY) => days(date),
        Period::Span(_) => {
            // Days since the Monday before the epoch, from the first weekday on.
            (days(date) + 3 - place.first_weekday() as i128).div_euclid(7)
        }
        Period::Month => {
            let begins = i128::from(place.first_month_day()).min(i128::from(date.days_in_month()));
            if i128::from(date.day()) < begins { month - 1 } else { month }
        }
        Period::Year => i128::from(date.year()),
    }
}

/// When it begins; the one that contains the epoch begins at the epoch.
pub(super) fn begins(period: Period, place: LocalCalendar, number: i128) -> u64 {
    let epoch = jiff::civil::date(1970, 1, 1);
    let small = |number: i128| i16::try_from(number).expect("a year");
    let date = match period {
        Period::Span(Span::DAY) => epoch + i64::try_from(number).expect("a day").days(),
        Period::Span(_) => {
            let day = number * 7 - 3 + place.first_weekday() as i128;
            epoch + i64::try_from(day).expect("a day").days()
        }
        Period::Month => {
            let first = jiff::civil::date(
                small(number.div_euclid(12)),
                i8::try_from(number.rem_euclid(12)).expect("a month") + 1,
                1,
            );
            let day = i8::try_from(place.first_month_day()).expect("a day").min(first.days_in_month());
            jiff::civil::date(first.year(), first.month(), day)
        }
        Period::Year => jiff::civil::date(small(number), 1, 1),
    };
    let first = date.to_zoned(zone(place)).expect("a date").start_of_day().expect("a start").timestamp();
    u64::try_from(first.as_microsecond()).unwrap_or(0)
}

fn days(date: Date) -> i128 {
    let since = jiff::civil::date(1970, 1, 1).until(date).expect("a span of days");
    i128::from(since.get_days())
}

fn zone(place: LocalCalendar) -> TimeZone {
    let name = place.zone().name();
    match name.strip_prefix("UTC") {
        Some(offset) if !offset.is_empty() => {
            let (sign, hours, minutes) = (&offset[..1], &offset[1..3], &offset[4..6]);
            let seconds = hours.parse::<i32>().expect("hours") * 3_600 + minutes.parse::<i32>().expect("minutes") * 60;
            let seconds = if sign == "-" { -seconds } else { seconds };
            TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).expect("an offset"))
        }
        _ => ZONES.with_borrow_mut(|zones| {
            let read = || TimeZoneDatabase::bundled().get(name).expect("a zone");
            zones.entry(name).or_insert_with(read).clone()
        }),
    }
}

thread_local! {
    static ZONES: RefCell<HashMap<&'static str, TimeZone>> = RefCell::default();
}
