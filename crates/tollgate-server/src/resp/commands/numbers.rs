//! Arguments that are numbers, and keys that are text: bytes in, checked values or a clear refusal out.

use tollgate_core::{Micros, bounds::MAX_WAIT};

use super::{Refused, shown};

/// A whole number that is not negative.
#[inline]
pub(super) fn whole(what: &str, bytes: &[u8]) -> Result<u64, Refused> {
    // Nineteen digits fit, and nothing near that is accepted anywhere.
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

/// The same, and not 0.
#[inline]
pub(super) fn positive(what: &str, bytes: &[u8]) -> Result<u64, Refused> {
    match whole(what, bytes)? {
        0 => Err(Refused::because(format_args!("{what} is 0; it is 1 at least"))),
        number => Ok(number),
    }
}

/// Whole seconds.
#[inline]
pub(super) fn seconds(what: &str, bytes: &[u8]) -> Result<Micros, Refused> {
    positive(what, bytes).map(Micros::from_secs)
}

/// Milliseconds somebody would wait.
pub(super) fn wait(what: &str, bytes: &[u8]) -> Result<Micros, Refused> {
    let span = Micros::from_millis(whole(what, bytes)?);
    if span > MAX_WAIT {
        return Err(Refused::because(format_args!("{what} is {span}; {MAX_WAIT} is the most")));
    }
    Ok(span)
}

/// Keys and domains are text on every wire, so that they are the same key on all of them.
#[inline]
pub(super) fn text<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a str, Refused> {
    std::str::from_utf8(bytes).map_err(|_| {
        Refused::because(format_args!("{what} '{}' is not UTF-8; encode it, as hex or base64", shown(bytes)))
    })
}

#[cold]
fn not_a_number(what: &str, bytes: &[u8]) -> Refused {
    let negative = bytes.first() == Some(&b'-') && bytes.len() > 1 && bytes[1..].iter().all(u8::is_ascii_digit);
    let why = if negative { "is negative" } else { "is not a whole number" };
    Refused::because(format_args!("{what} '{}' {why}; give one of up to 1099511627776", shown(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<T: std::fmt::Debug>(told: Result<T, Refused>) -> String {
        told.unwrap_err().0
    }

    #[test]
    fn only_whole_numbers_are_numbers() {
        assert_eq!(whole("n", b"0"), Ok(0));
        assert_eq!(whole("n", b"1000000000000000000"), Ok(1_000_000_000_000_000_000));
        for not in [&b""[..], b"+1", b"1.0", b" 1", b"1 ", b"0x1", b"1e3", b"12345678901234567890", b"\xff"] {
            assert!(refusal(whole("n", not)).contains("is not a whole number"), "{}", not.escape_ascii());
        }
        assert!(refusal(whole("n", b"-1")).contains("is negative"));
        assert!(refusal(positive("n", b"0")).contains("1 at least"));
    }

    #[test]
    fn a_wait_has_an_end() {
        assert_eq!(wait("WAIT", b"8640000000"), Ok(MAX_WAIT));
        assert!(refusal(wait("WAIT", b"8640000001")).contains("100d is the most"));
    }
}
