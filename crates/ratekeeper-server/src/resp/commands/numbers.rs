//! Parsing and validation of command arguments: numbers, durations, UTF-8 text.

use ratekeeper_core::{Span, bounds::MAX_WAIT};

use super::{CommandError, shown};

/// A non-negative integer.
#[inline]
pub(super) fn whole(what: &str, bytes: &[u8]) -> Result<u64, CommandError> {
    // Nineteen digits fit into 64 bits; all accepted ranges are far smaller.
    if bytes.is_empty() || bytes.len() > 19 {
        return Err(not_a_number(what, bytes));
    }
    let mut number = 0_u64;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(not_a_number(what, bytes));
        }
        number = number * 10 + u64::from(digit);
    }
    Ok(number)
}

/// A positive integer.
#[inline]
pub(super) fn positive(what: &str, bytes: &[u8]) -> Result<u64, CommandError> {
    match whole(what, bytes)? {
        0 => Err(CommandError::because(format_args!("{what} is 0; use 1 or more"))),
        number => Ok(number),
    }
}

/// A positive number of seconds.
#[inline]
pub(super) fn seconds(what: &str, bytes: &[u8]) -> Result<Span, CommandError> {
    positive(what, bytes).map(Span::from_secs)
}

/// A maximum wait in milliseconds, up to [`MAX_WAIT`].
pub(super) fn wait(what: &str, bytes: &[u8]) -> Result<Span, CommandError> {
    millis(what, bytes, MAX_WAIT)
}

/// A number of milliseconds.
pub(super) fn millis(what: &str, bytes: &[u8], most: Span) -> Result<Span, CommandError> {
    let span = Span::from_millis(whole(what, bytes)?);
    if span > most {
        return Err(CommandError::because(format_args!("{what} is {span}; {most} is the most")));
    }
    Ok(span)
}

/// UTF-8 text. Keys and domains are text on every wire, so that a key is the same on all of them.
#[inline]
pub(super) fn text<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a str, CommandError> {
    std::str::from_utf8(bytes).map_err(|_| {
        CommandError::because(format_args!("{what} '{}' is not UTF-8; encode it, as hex or base64", shown(bytes)))
    })
}

#[cold]
fn not_a_number(what: &str, bytes: &[u8]) -> CommandError {
    let negative = bytes.first() == Some(&b'-') && bytes.len() > 1 && bytes[1..].iter().all(u8::is_ascii_digit);
    let why = if negative { "is negative" } else { "is not a whole number" };
    CommandError::because(format_args!("{what} '{}' {why}; use a whole number up to 1099511627776", shown(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<T: std::fmt::Debug>(result: Result<T, CommandError>) -> String {
        result.unwrap_err().0
    }

    #[test]
    fn only_whole_numbers_are_numbers() {
        assert_eq!(whole("n", b"0"), Ok(0));
        assert_eq!(whole("n", b"1000000000000000000"), Ok(1_000_000_000_000_000_000));
        for not in [&b""[..], b"+1", b"1.0", b" 1", b"1 ", b"0x1", b"1e3", b"12345678901234567890", b"\xff"] {
            assert!(refusal(whole("n", not)).contains("is not a whole number"), "{}", not.escape_ascii());
        }
        assert!(refusal(whole("n", b"-1")).contains("is negative"));
        assert!(refusal(positive("n", b"0")).contains("use 1 or more"));
    }

    #[test]
    fn a_wait_is_bounded() {
        assert_eq!(wait("WAIT", b"8640000000"), Ok(MAX_WAIT));
        assert!(refusal(wait("WAIT", b"8640000001")).contains("100d is the most"));
    }
}
