//! `GCRA key max_burst tokens_per_period period [TOKENS count]`: argument parsing compatible with Redis 8.8.
//!
//! The order of the checks and the texts of the errors are those of Redis, so that a client's tests see no difference.
//! Redis counts in whole microseconds of 63 bits. Amounts whose span would overflow are an error in both.
//!
//! Additional bounds: a burst above 2^40 tokens or a period above 2^48 µs is an error, although Redis accepts it.

use ratekeeper_core::{Span, bounds::MAX_PERMITS};

use super::{Command, CommandError, numbers, throttle::ThrottleRequest};
use crate::engine::Throttle;

/// Parses the arguments into the key and the request.
pub(super) fn read(command: Command<'_>) -> Result<(&str, ThrottleRequest), CommandError> {
    let (Some(key), Some(max_burst), Some(count), Some(period), 4..=6) =
        (command.argument(0), command.argument(1), command.argument(2), command.argument(3), command.arguments())
    else {
        return Err(CommandError::usage(USAGE));
    };
    let burst = match integer(max_burst) {
        Some(max_burst @ 0..) => max_burst.saturating_add(1),
        _ => return Err(CommandError::because("value is out of range, must be positive")),
    };
    let count = positive(count)?;
    let period = seconds(period)?;
    let tokens = match (command.argument(4), command.argument(5)) {
        (None, _) => 1,
        (Some(word), _) if !word.eq_ignore_ascii_case(b"TOKENS") => return Err(CommandError::syntax(word, USAGE)),
        (Some(_), None) => return Err(CommandError::because("Missing TOKENS value")),
        (Some(_), Some(tokens)) => positive(tokens)?,
    };
    let emission = emission(period, count);
    for (name, amount) in [("TOKENS", tokens), ("max_burst", burst)] {
        if emission > i64::MAX / amount {
            return Err(CommandError::because(format_args!(
                "GCRA limiting uses microsecond accuracy. Combination of period, tokens_per_period and {name} would cause an \
                 overflow"
            )));
        }
    }
    let key = numbers::text("the key", key)?;
    let (burst, count, tokens) = (burst.unsigned_abs(), count.unsigned_abs(), tokens.unsigned_abs());
    // `count` exceeds what a rule can hold: use one token per emission interval, rounded as in Redis.
    let (count, period) =
        if count > MAX_PERMITS { (1, Span::from_micros(emission.unsigned_abs())) } else { (count, micros(period)) };
    // A cost above the burst can never be allowed, so any value above it is equivalent.
    Ok((key, ThrottleRequest::as_redis_cell(Throttle { burst, count, period }, tokens.min(burst.saturating_add(1)))))
}

/// A 64-bit decimal integer in canonical form: no plus sign, no leading zero, no blank.
fn integer(bytes: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = digits.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !digits.starts_with('0'));
    text.parse().ok().filter(|_| is_canonical)
}

fn positive(bytes: &[u8]) -> Result<i64, CommandError> {
    match integer(bytes) {
        Some(number @ 1..) => Ok(number),
        Some(_) => {
            Err(CommandError::because(format_args!("value is out of range, value must between 1 and {}", i64::MAX)))
        }
        None => Err(CommandError::because("value is not an integer or out of range")),
    }
}

fn seconds(bytes: &[u8]) -> Result<f64, CommandError> {
    let number =
        std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<f64>().ok()).filter(|number| !number.is_nan());
    match number {
        None => Err(CommandError::because("value is not a valid float")),
        Some(period) if period > 0.0 && period < 1e12 => Ok(period),
        Some(_) => Err(CommandError::because("period must be > 0 and < 1e12")),
    }
}

/// Emission interval in microseconds, rounded to the nearest; at least 1.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "below 1e18, and rounded as Redis rounds"
)]
fn emission(period: f64, count: i64) -> i64 {
    ((period * 1e6 / count as f64 + 0.5) as i64).max(1)
}

/// The period, rounded to the nearest microsecond; at least 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and below 1e18")]
fn micros(period: f64) -> Span {
    Span::from_micros(((period * 1e6).round() as u64).max(1))
}

const USAGE: &str = "GCRA key max_burst tokens_per_period period [TOKENS n]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_spelling() {
        for (text, number) in [("0", 0), ("7", 7), ("-12", -12), ("9223372036854775807", i64::MAX)] {
            assert_eq!(integer(text.as_bytes()), Some(number));
        }
        for text in ["", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1.0", "9223372036854775808", "0x1"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn periods_are_exact_to_the_microsecond() {
        for (text, span) in
            [("60", 60_000_000), ("0.5", 500_000), ("1.000001", 1_000_001), ("1e3", 1_000_000_000), ("1e-9", 1)]
        {
            assert_eq!(micros(seconds(text.as_bytes()).unwrap()), Span::from_micros(span), "{text}");
        }
        for text in ["0", "-1", "1e12", "inf", "nan", "x", "", "1 "] {
            assert!(seconds(text.as_bytes()).is_err(), "{text}");
        }
    }
}
