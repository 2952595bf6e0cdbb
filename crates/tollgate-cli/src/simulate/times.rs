//! A time axis whose marks fall on whole seconds, minutes, hours and days, in UTC.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use tollgate_core::Micros;

/// A stretch of time with marks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    from: Micros,
    until: Micros,
    step: u64,
}

impl Times {
    pub(crate) fn new(from: Micros, until: Micros) -> Self {
        let until = until.max(from + Micros(1));
        let span = (until - from).0;
        let fits = |step: &u64| span / step <= MOST_MARKS;
        let step = steps().find(fits).unwrap_or(span);
        Self { from, until, step }
    }
}

impl Ranged for Times {
    type FormatOption = NoDefaultFormatting;
    type ValueType = Micros;

    fn map(&self, value: &Micros, limit: (i32, i32)) -> i32 {
        let (span, room) = ((self.until - self.from).0, i64::from(limit.1) - i64::from(limit.0));
        let along = i128::from(room) * i128::from((*value - self.from).0) / i128::from(span);
        limit.0.saturating_add(i32::try_from(along).unwrap_or(i32::MAX))
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<Micros> {
        if hint.max_num_points() == 0 {
            return Vec::new();
        }
        let first = self.from.0.div_ceil(self.step);
        let marks = (first..).map(|mark| Micros(mark * self.step)).take_while(|&mark| mark <= self.until);
        marks.take(hint.max_num_points()).collect()
    }

    fn range(&self) -> Range<Micros> {
        self.from..self.until
    }
}

impl ValueFormatter<Micros> for Times {
    fn format_ext(&self, value: &Micros) -> String {
        let (days, of_day) = (value.0 / Micros::DAY.0, value.0 % Micros::DAY.0);
        let (hours, minutes) = (of_day / Micros::HOUR.0, of_day / Micros::MINUTE.0 % 60);
        let (seconds, below) = (of_day / 1_000_000 % 60, of_day % 1_000_000);
        match self.step {
            ..1_000 => format!("{hours:02}:{minutes:02}:{seconds:02}.{below:06}"),
            1_000..1_000_000 => format!("{hours:02}:{minutes:02}:{seconds:02}.{:03}", below / 1_000),
            1_000_000..60_000_000 => format!("{hours:02}:{minutes:02}:{seconds:02}"),
            // Where midnight comes by more than once, it tells the day.
            _ if of_day == 0 && self.until - self.from > Micros::DAY => date(days),
            60_000_000..86_400_000_000 => format!("{hours:02}:{minutes:02}"),
            _ => date(days),
        }
    }
}

/// Steps that people count in, in microseconds.
fn steps() -> impl Iterator<Item = u64> {
    let decimal = (0..6).flat_map(|power| [1, 2, 5].map(|step| step * 10_u64.pow(power)));
    let seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];
    let days = [1, 2, 7, 14, 30, 91, 182, 365, 730, 1_826, 3_652];
    decimal.chain(seconds.map(|step| step * 1_000_000)).chain(days.map(|step| step * Micros::DAY.0))
}

/// A day since the epoch as a date. Years are reckoned from March, so that the leap day is the last.
fn date(days: u64) -> String {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

/// More labels than this would touch.
const MOST_MARKS: u64 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_fall_on_times_that_people_know() {
        let told = |from, until| {
            let times = Times::new(Micros::from_millis(from), Micros::from_millis(until));
            times.key_points(10).iter().map(|mark| times.format_ext(mark)).collect::<Vec<_>>()
        };
        assert_eq!(told(68_340_000, 68_460_000), ["18:59:00", "18:59:30", "19:00:00", "19:00:30", "19:01:00"]);
        assert_eq!(
            told(10_000, 10_400),
            ["00:00:10.000", "00:00:10.100", "00:00:10.200", "00:00:10.300", "00:00:10.400"]
        );
        assert_eq!(told(1_709_100_000_000, 1_709_400_000_000)[1], "2024-02-29");
    }

    #[test]
    fn days_become_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_454), "2026-01-01");
    }
}
