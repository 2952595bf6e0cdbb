//! Durations in rule files: `250ms`, `1s`, `1h30m`, and `1mo` for the calendar.
//!
//! A duration is a sequence of whole numbers with units, largest unit first. Fractions are rejected, because their
//! precision would be unclear: `1500ms`, not `1.5s`. A number without a unit is rejected.

use ratekeeper_core::{Period, Span};

/// Parses a duration, such as `1h30m`. The error completes the sentence "per is …, ".
pub fn parse(word: &str) -> Result<Period, String> {
    if word == "1mo" {
        return Ok(Period::Month);
    }
    if word == "1y" {
        return Ok(Period::Year);
    }
    let mut rest = word;
    let mut total: u64 = 0;
    let mut smaller_than = u64::MAX;
    while !rest.is_empty() {
        let (number, unit, tail) = first_part(rest)?;
        let Some((_, size)) = UNITS.into_iter().find(|(name, _)| *name == unit) else {
            return Err(unknown_unit(number, unit));
        };
        if size >= smaller_than {
            return Err(format!("where {unit} comes too late; write each unit once, the largest first, such as 1h30m"));
        }
        smaller_than = size;
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(size));
        total = part.and_then(|part| total.checked_add(part)).ok_or("longer than we keep count; use at most 3257d")?;
        rest = tail;
    }
    if word.is_empty() {
        return Err("so it says nothing; use a span such as 250ms, 1s or 1h30m".to_owned());
    }
    Ok(Period::Span(Span::from_micros(total)))
}

/// Formats a span, such as `1h30m`. [`parse`] returns the same span.
pub(crate) fn format(span: Span) -> String {
    if span == Span::ZERO {
        return "0s".to_owned();
    }
    let mut left = span.as_micros();
    let mut out = String::new();
    for (unit, size) in UNITS {
        if left >= size {
            out.push_str(&format!("{}{unit}", left / size));
            left %= size;
        }
    }
    out
}

/// Formats a period, such as `1h30m` or `1mo`.
pub(crate) fn format_period(period: Period) -> String {
    match period {
        Period::Span(span) => format(span),
        Period::Month => "1mo".to_owned(),
        Period::Year => "1y".to_owned(),
    }
}

/// Splits `1h30m` into `1`, `h` and `30m`.
fn first_part(text: &str) -> Result<(&str, &str, &str), String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    if number.is_empty() {
        let found = text.chars().next().unwrap_or(' ');
        return Err(match found {
            '-' => "below zero; use a span such as 1s".to_owned(),
            c if c.is_whitespace() => "with a gap in it; write it in one word, such as 1h30m".to_owned(),
            _ => "which is no span of time; use a number and a unit, such as 250ms, 1s or 1h30m".to_owned(),
        });
    }
    let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    let (unit, tail) = rest.split_at(letters);
    match (unit, tail.chars().next()) {
        ("", None) => Err(no_unit(number)),
        ("", Some('.' | ',')) => Err("a fraction; use a smaller unit, such as 1500ms for 1.5s".to_owned()),
        ("", Some(c)) if c.is_whitespace() => Err("with a gap in it; write it in one word, such as 1h30m".to_owned()),
        ("", _) => Err("which is no span of time; use a number and a unit, such as 250ms, 1s or 1h30m".to_owned()),
        _ => Ok((number, unit, tail)),
    }
}

/// The message for a number without a unit.
pub(crate) fn no_unit(number: &str) -> String {
    format!("a number without a unit; say which one, such as {number}s for seconds or {number}ms for milliseconds")
}

fn unknown_unit(number: &str, unit: &str) -> String {
    if unit == "mo" {
        return "more than one calendar month; use 1mo, or days such as 60d".to_owned();
    }
    if unit == "y" {
        return "more than one calendar year; use 1y, or days such as 730d".to_owned();
    }
    let meant = match unit.to_lowercase().as_str() {
        "sec" | "secs" | "second" | "seconds" => Some("s"),
        "min" | "mins" | "minute" | "minutes" => Some("m"),
        "hr" | "hrs" | "hour" | "hours" => Some("h"),
        "day" | "days" => Some("d"),
        "week" | "weeks" => Some("w"),
        "µs" | "μs" | "usec" | "micros" => Some("us"),
        "msec" | "millis" => Some("ms"),
        _ => None,
    };
    let hint = meant.map(|unit| format!(", such as {number}{unit}")).unwrap_or_default();
    format!(
        "whose unit \"{unit}\" is not known; use us, ms, s, m, h, d or w{hint}, or 1mo for a calendar month, 1y for a year"
    )
}

const UNITS: [(&str, u64); 7] = [
    ("w", Span::WEEK.as_micros()),
    ("d", Span::DAY.as_micros()),
    ("h", Span::HOUR.as_micros()),
    ("m", Span::MINUTE.as_micros()),
    ("s", Span::SECOND.as_micros()),
    ("ms", 1_000),
    ("us", 1),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn micros(word: &str) -> u64 {
        match parse(word) {
            Ok(Period::Span(span)) => span.as_micros(),
            other => panic!("{word}: {other:?}"),
        }
    }

    #[test]
    fn every_unit_is_read() {
        assert_eq!(micros("7us"), 7);
        assert_eq!(micros("250ms"), 250_000);
        assert_eq!(micros("1s"), 1_000_000);
        assert_eq!(micros("5m"), 300_000_000);
        assert_eq!(micros("1h30m"), 5_400_000_000);
        assert_eq!(micros("1d"), 86_400_000_000);
        assert_eq!(micros("2w"), 14 * 86_400_000_000);
        assert_eq!(micros("0s"), 0);
        assert_eq!(parse("1mo"), Ok(Period::Month));
    }

    #[test]
    fn every_refusal_says_what_would_do() {
        for (word, part) in [
            ("60", "without a unit"),
            ("1h30", "without a unit"),
            ("", "says nothing"),
            ("1.5s", "a fraction"),
            ("-1s", "below zero"),
            ("1h 30m", "in one word"),
            ("1 h", "in one word"),
            ("s", "no span of time"),
            ("5min", "such as 5m"),
            ("2y", "use 1y"),
            ("1q", "not known"),
            ("30m1h", "h comes too late"),
            ("1s1s", "too late"),
            ("2mo", "use 1mo"),
            ("99999999999999999999s", "longer than we keep count"),
            ("9999999999999999999w", "longer than we keep count"),
            ("1%", "no span of time"),
        ] {
            let message = parse(word).unwrap_err();
            assert!(message.contains(part), "{word}: {message}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(micros in any::<u64>()) {
            prop_assert_eq!(parse(&format(Span::from_micros(micros))), Ok(Period::Span(Span::from_micros(micros))));
        }

        /// Core writes spans in one unit; rule files accept those as well.
        #[test]
        fn what_core_writes_is_read_back(micros in any::<u64>(), unit in 0..UNITS.len()) {
            let span = Span::from_micros(micros - micros % UNITS[unit].1);
            prop_assert_eq!(parse(&span.to_string()), Ok(Period::Span(span)));
        }

        #[test]
        fn any_text_is_read_or_refused(word in "\\PC*") {
            let _ = parse(&word);
        }

        #[test]
        fn any_near_miss_is_read_or_refused(word in "[0-9]{0,22}[a-zµ .-]{0,3}[0-9]{0,3}[a-z]{0,2}") {
            if let Ok(Period::Span(span)) = parse(&word) {
                prop_assert_eq!(parse(&format(span)), Ok(Period::Span(span)));
            }
        }
    }
}
