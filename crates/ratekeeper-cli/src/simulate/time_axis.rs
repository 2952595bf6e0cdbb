//! A time axis whose marks fall on whole seconds, minutes, hours and days, in UTC.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use ratekeeper_core::{Span, Timestamp};

/// A time axis with marks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeAxis {
    from: Timestamp,
    until: Timestamp,
    step: u64,
}

impl TimeAxis {
    pub(crate) fn new(from: Timestamp, until: Timestamp) -> Self {
        let until = until.max(from + Span::from_micros(1));
        let span = until.since(from).as_micros();
        let fits = |step: &u64| span / step <= MAX_MARKS;
        let step = steps().find(fits).unwrap_or(span);
        Self { from, until, step }
    }
}

impl Ranged for TimeAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = Timestamp;

    fn map(&self, value: &Timestamp, limit: (i32, i32)) -> i32 {
        let (span, pixels) = (self.until.since(self.from).as_micros(), i64::from(limit.1) - i64::from(limit.0));
        let offset = i128::from(pixels) * i128::from(value.since(self.from).as_micros()) / i128::from(span);
        limit.0.saturating_add(i32::try_from(offset).unwrap_or(i32::MAX))
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<Timestamp> {
        if hint.max_num_points() == 0 {
            return Vec::new();
        }
        let first = self.from.as_micros().div_ceil(self.step);
        let marks =
            (first..).map(|mark| Timestamp::from_micros(mark * self.step)).take_while(|&mark| mark <= self.until);
        marks.take(hint.max_num_points()).collect()
    }

    fn range(&self) -> Range<Timestamp> {
        self.from..self.until
    }
}

impl ValueFormatter<Timestamp> for TimeAxis {
    fn format_ext(&self, value: &Timestamp) -> String {
        let (days, of_day) = (value.as_micros() / Span::DAY.as_micros(), value.as_micros() % Span::DAY.as_micros());
        let (hours, minutes) = (of_day / Span::HOUR.as_micros(), of_day / Span::MINUTE.as_micros() % 60);
        let (seconds, fraction) = (of_day / 1_000_000 % 60, of_day % 1_000_000);
        match self.step {
            ..1_000 => format!("{hours:02}:{minutes:02}:{seconds:02}.{fraction:06}"),
            1_000..1_000_000 => format!("{hours:02}:{minutes:02}:{seconds:02}.{:03}", fraction / 1_000),
            1_000_000..60_000_000 => format!("{hours:02}:{minutes:02}:{seconds:02}"),
            // If the axis has several midnights, the label is the date.
            _ if of_day == 0 && self.until.since(self.from) > Span::DAY => date(days),
            60_000_000..86_400_000_000 => format!("{hours:02}:{minutes:02}"),
            _ => date(days),
        }
    }
}

/// Distances between marks, in microseconds: round numbers of seconds, minutes, hours and days.
fn steps() -> impl Iterator<Item = u64> {
    let decimal = (0..6).flat_map(|power| [1, 2, 5].map(|step| step * 10_u64.pow(power)));
    let seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];
    let days = [1, 2, 7, 14, 30, 91, 182, 365, 730, 1_826, 3_652];
    decimal.chain(seconds.map(|step| step * 1_000_000)).chain(days.map(|step| step * Span::DAY.as_micros()))
}

/// Days since the epoch as a date. The year starts in March in this calculation, so that the leap day is its last.
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

/// More labels than this would overlap.
const MAX_MARKS: u64 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_fall_on_round_times() {
        let written = |from, until| {
            let axis = TimeAxis::new(Timestamp::from_millis(from), Timestamp::from_millis(until));
            axis.key_points(10).iter().map(|mark| axis.format_ext(mark)).collect::<Vec<_>>()
        };
        assert_eq!(written(68_340_000, 68_460_000), ["18:59:00", "18:59:30", "19:00:00", "19:00:30", "19:01:00"]);
        assert_eq!(
            written(10_000, 10_400),
            ["00:00:10.000", "00:00:10.100", "00:00:10.200", "00:00:10.300", "00:00:10.400"]
        );
        assert_eq!(written(1_709_100_000_000, 1_709_400_000_000)[1], "2024-02-29");
    }

    #[test]
    fn days_become_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_454), "2026-01-01");
    }
}
