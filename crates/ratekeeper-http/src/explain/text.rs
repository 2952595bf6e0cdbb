//! Text of explanations: counts, times, spans, and untrusted text in quotes.

use ratekeeper_core::{Span, Timestamp};

use crate::json;

/// `1 cell`, `2 cells`.
pub fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Untrusted text in quotes: escaped for a terminal, and shortened.
pub fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 40;
    if text.chars().count() <= MAX_CHARS {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(MAX_CHARS).collect();
    format!("{start:?}…")
}

/// A time in milliseconds since the epoch, with up to three decimals and no trailing zeros.
pub fn millis(at: Timestamp) -> String {
    let mut text = Vec::new();
    json::push_millis(&mut text, at);
    String::from_utf8(text).unwrap_or_default()
}

/// A span in readable units: `900ms`, `5.5s`, `58m 35.5s`, `2d 3h`. Nothing is rounded.
pub fn span(span: Span) -> String {
    if span.as_micros() < 1_000 {
        return if span.as_micros() == 0 { "0s".to_owned() } else { format!("{}µs", span.as_micros()) };
    }
    if span < Span::SECOND {
        return format!("{}ms", millis(Timestamp::EPOCH + span));
    }
    let mut parts = Vec::new();
    let mut rest = span.as_micros();
    for (size, unit) in [(Span::DAY.as_micros(), "d"), (Span::HOUR.as_micros(), "h"), (Span::MINUTE.as_micros(), "m")] {
        if rest >= size {
            parts.push(format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    if rest > 0 {
        let (seconds, fraction) = (rest / 1_000_000, format!("{:06}", rest % 1_000_000));
        match fraction.trim_end_matches('0') {
            "" => parts.push(format!("{seconds}s")),
            fraction => parts.push(format!("{seconds}.{fraction}s")),
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_in_units() {
        let written = |micros| span(Span::from_micros(micros));
        assert_eq!(written(0), "0s");
        assert_eq!(written(7), "7µs");
        assert_eq!(written(900_500), "900.5ms");
        assert_eq!(written(5_500_000), "5.5s");
        assert_eq!(written(3_515_500_000), "58m 35.5s");
        assert_eq!(written(86_400_000_000 + 10_800_000_001), "1d 3h 0.000001s");
        assert_eq!(written(3_600_000_000), "1h");
    }

    #[test]
    fn times_have_no_trailing_zeros() {
        let written = |micros| millis(Timestamp::from_micros(micros));
        assert_eq!(written(10_200_000), "10200");
        assert_eq!(written(10_200_500), "10200.5");
        assert_eq!(written(10_200_050), "10200.05");
        assert_eq!(written(1), "0.001");
        assert_eq!(written(0), "0");
    }
}
