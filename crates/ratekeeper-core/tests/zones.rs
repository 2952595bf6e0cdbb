//! Calendar windows of time zones, against `jiff`: where each window ends, for random zones and instants.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

use jiff::{Timestamp as Instant, ToSpan, tz::TimeZoneDatabase};
use ratekeeper_core::{Align, LocalCalendar, Policy, Quota, Rule, Span, Take, Timestamp, Verb, Weekday, Zone};
use ratekeeper_testkit::random::Random;

/// Time until the window of a take ends.
fn rest(quota: Quota, calendar: LocalCalendar, now: Timestamp) -> Span {
    let policy = Policy::new("p", [Rule::fixed_window_aligned("r", quota, Align::Local(calendar))]).unwrap();
    policy.decide(&mut policy.fresh(), 1, &Verb::Take(Take::now()), now).decision.reset_after_span()
}

fn at(text: &str) -> Timestamp {
    Timestamp::from_micros(u64::try_from(text.parse::<Instant>().unwrap().as_microsecond()).unwrap())
}

fn place(zone: &str) -> LocalCalendar {
    LocalCalendar::new(Zone::named(zone).unwrap())
}

/// The end of the day, and of the month, by `jiff`, for every zone of the database that sets no clock back across
/// midnight: there a local date has two beginnings.
#[test]
fn windows_end_as_jiff_says() {
    let database = TimeZoneDatabase::bundled();
    let names: Vec<String> = database.available().map(|name| name.to_string()).collect();
    assert!(names.len() > 400);
    let mut random = Random::new(11);
    for _ in 0..60_000 {
        let name = &names[usize::try_from(random.below(names.len() as u64)).unwrap()];
        // 2012 to 2100: after the last clock that was set back across midnight, and after Samoa's skipped day.
        let seconds = i64::try_from(random.between(1_326_000_000, 4_100_000_000)).unwrap();
        let zone = database.get(name).unwrap();
        // Half of them within two hours of a transition.
        let near = zone.following(Instant::from_second(seconds).unwrap()).next();
        let instant = match near {
            Some(transition) if random.one_in(2) => {
                let off = i64::try_from(random.below(4 * 3_600 * 1_000_000)).unwrap() - 2 * 3_600 * 1_000_000;
                Instant::from_microsecond(transition.timestamp().as_microsecond() + off).unwrap()
            }
            _ => Instant::from_microsecond(seconds * 1_000_000 + i64::try_from(random.below(1_000_000)).unwrap())
                .unwrap(),
        };
        let zoned = instant.to_zoned(zone);
        let now = Timestamp::from_micros(u64::try_from(instant.as_microsecond()).unwrap());
        let until = |date: jiff::civil::Date| {
            let start = date.to_zoned(zoned.time_zone().clone()).unwrap().start_of_day().unwrap().timestamp();
            Span::from_micros(u64::try_from(start.as_microsecond() - instant.as_microsecond()).unwrap())
        };
        let date = zoned.date();
        assert_eq!(rest(Quota::per_day(5), place(name), now), until(date + 1.day()), "the day of {zoned}");
        let month = date.first_of_month() + 1.month();
        assert_eq!(rest(Quota::per_month(5), place(name), now), until(month), "the month of {zoned}");
        let year = jiff::civil::date(date.year() + 1, 1, 1);
        assert_eq!(rest(Quota::per_year(5), place(name), now), until(year), "the year of {zoned}");
        let first = random.pick(&Weekday::ALL);
        let ahead = (7 + first as i8 - date.weekday().to_monday_zero_offset() - 1).rem_euclid(7) + 1;
        let week = date + i64::from(ahead).days();
        assert_eq!(rest(Quota::per_week(5), place(name).week_start(first), now), until(week), "the week of {zoned}");
    }
}

#[test]
fn a_day_has_23_or_25_hours_where_the_clock_is_set() {
    let hours =
        |zone: &str, start: &str| rest(Quota::per_day(5), place(zone), at(start)).as_micros() / Span::HOUR.as_micros();
    assert_eq!(hours("Europe/Berlin", "2026-03-28T23:00:00Z"), 23);
    assert_eq!(hours("Europe/Berlin", "2026-10-24T22:00:00Z"), 25);
    assert_eq!(hours("Europe/Berlin", "2026-11-17T23:00:00Z"), 24);
    // Half an hour of daylight saving.
    let rest = rest(Quota::per_day(5), place("Australia/Lord_Howe"), at("2026-10-03T13:30:00Z"));
    assert_eq!(rest, Span::from_micros(Span::HOUR.as_micros() * 47 / 2));
}

/// In São Paulo 00:00 to 01:00 of 4 November 2018 did not exist: the day began at 01:00. In Beirut clocks are set at
/// midnight as well.
#[test]
fn a_day_without_midnight_begins_when_the_clock_skips_it() {
    let day = |zone: &str, now: &str| rest(Quota::per_day(5), place(zone), at(now));
    assert_eq!(day("America/Sao_Paulo", "2018-11-04T02:59:59Z"), Span::SECOND);
    assert_eq!(day("America/Sao_Paulo", "2018-11-04T03:00:00Z"), Span::from_secs(23 * 3_600));
    assert_eq!(day("Asia/Beirut", "2026-03-28T21:59:59Z"), Span::SECOND);
    assert_eq!(day("Asia/Beirut", "2026-03-28T22:00:00Z"), Span::from_secs(23 * 3_600));
}

/// Billing day 31: the last day of shorter months.
#[test]
fn a_billing_day_is_the_last_of_a_shorter_month() {
    let next = |day: u8, now: &str| at(now) + rest(Quota::per_month(5), place("UTC").month_day(day), at(now));
    assert_eq!(next(31, "2026-01-31T00:00:00Z"), at("2026-02-28T00:00:00Z"));
    assert_eq!(next(31, "2026-02-28T00:00:00Z"), at("2026-03-31T00:00:00Z"));
    assert_eq!(next(31, "2026-04-29T23:59:59Z"), at("2026-04-30T00:00:00Z"));
    assert_eq!(next(29, "2028-02-01T00:00:00Z"), at("2028-02-29T00:00:00Z"));
    assert_eq!(next(30, "2027-02-27T12:00:00Z"), at("2027-02-28T00:00:00Z"));
    assert_eq!(next(15, "2026-11-18T10:00:00Z"), at("2026-12-15T00:00:00Z"));
}

#[test]
fn zones_are_found_by_name() {
    assert_eq!(Zone::named("europe/berlin").unwrap().name(), "Europe/Berlin");
    assert_eq!(Zone::named("UTC+05:30").unwrap().name(), "UTC+05:30");
    assert!(Zone::named("Mars/Olympus").is_none() && Zone::named("UTC+99:00").is_none());
}
