//! CSV fields: times, costs and operations, parsed to exact integers.

use ratekeeper_core::{
    OnExpiry, Release, RequestId, Span, Take, Timestamp, Verb,
    bounds::{MAX_PERMITS, MAX_TIME},
};

use crate::report::RequestProblem;

/// The verb of a request. To settle, the cost is the actual one; what was reserved, the history knows.
/// With an id, a settle is a commit and a refund is a cancel of that request.
pub(crate) fn verb(op: &[u8], cost: u64, max_wait: Span, id: Option<RequestId>) -> Result<Verb, RequestProblem> {
    match (op, id) {
        (b"commit" | b"settle", Some(id)) => return Ok(Verb::Commit { id, actual: cost }),
        (b"cancel" | b"refund", Some(id)) => return Ok(Verb::Cancel { id }),
        (b"reserve", Some(_)) => return Ok(Verb::Take(Take::up_to(max_wait))),
        (b"reserve" | b"commit" | b"cancel", None) => return Err(RequestProblem::NoId { op: excerpt(op) }),
        _ => {}
    }
    match op {
        b"take" => Ok(Verb::Take(Take::up_to(max_wait))),
        b"peek" => Ok(Verb::Peek),
        b"refund" => Ok(Verb::Refund { at: None }),
        b"settle" => Ok(Verb::Settle { actual: cost, at: None }),
        b"penalize" => Ok(Verb::Penalize),
        b"reset" => Ok(Verb::Reset),
        b"release" => Ok(Verb::Release(Release::Oldest)),
        other => Err(RequestProblem::Op { found: excerpt(other) }),
    }
}

pub(crate) fn id(text: &[u8]) -> Result<RequestId, RequestProblem> {
    RequestId::new(text).map_err(|error| RequestProblem::Id { error })
}

pub(crate) fn on_expiry(text: &[u8]) -> Result<OnExpiry, RequestProblem> {
    match text {
        b"keep" => Ok(OnExpiry::Keep),
        b"refund" => Ok(OnExpiry::Refund),
        other => Err(RequestProblem::OnExpiry { found: excerpt(other) }),
    }
}

/// Milliseconds with up to three decimals, as whole microseconds.
pub(crate) fn micros(column: &'static str, text: &[u8]) -> Result<Span, RequestProblem> {
    let (whole, decimals) = match text.iter().position(|&byte| byte == b'.') {
        Some(point) => (&text[..point], Some(&text[point + 1..])),
        None => (text, None),
    };
    let malformed = || RequestProblem::Time { column, found: excerpt(text) };
    let too_late = || RequestProblem::TimeTooLate { column, found: excerpt(text) };
    let millis = match digits(whole) {
        Digits::Number(number) => number,
        Digits::TooLarge => return Err(too_late()),
        Digits::None => return Err(malformed()),
    };
    let fraction = match decimals.map(|decimals| (digits(decimals), decimals.len())) {
        None => 0,
        Some((Digits::Number(tenths), 1)) => tenths * 100,
        Some((Digits::Number(hundredths), 2)) => hundredths * 10,
        Some((Digits::Number(micros), 3)) => micros,
        Some(_) => return Err(malformed()),
    };
    let micros = millis.checked_mul(1_000).and_then(|micros| micros.checked_add(fraction));
    micros.map(Span::from_micros).filter(|&span| span <= MAX_TIME.since(Timestamp::EPOCH)).ok_or_else(too_late)
}

pub(crate) fn cost(text: &[u8]) -> Result<u64, RequestProblem> {
    match digits(text) {
        Digits::Number(cost) if cost <= MAX_PERMITS => Ok(cost),
        Digits::Number(_) | Digits::TooLarge => Err(RequestProblem::CostTooLarge { found: excerpt(text) }),
        Digits::None => Err(RequestProblem::Cost { found: excerpt(text) }),
    }
}

enum Digits {
    None,
    Number(u64),
    TooLarge,
}

/// Parses digits only: no sign, no exponent, no spaces.
#[inline]
fn digits(text: &[u8]) -> Digits {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Digits::None;
    }
    let mut number: u64 = 0;
    for &byte in text {
        let next = number.checked_mul(10).and_then(|number| number.checked_add(u64::from(byte - b'0')));
        match next {
            Some(next) => number = next,
            None => return Digits::TooLarge,
        }
    }
    Digits::Number(number)
}

fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Option<u64> {
        micros("at_ms", text.as_bytes()).ok().map(Span::as_micros)
    }

    #[test]
    fn times_are_parsed_to_the_microsecond() {
        assert_eq!(millis("10200"), Some(10_200_000));
        assert_eq!(millis("0.1"), Some(100));
        assert_eq!(millis("0.01"), Some(10));
        assert_eq!(millis("007.001"), Some(7_001));
        assert_eq!(millis("4503599627370.495"), Some((1 << 52) - 1));
    }

    #[test]
    fn malformed_times_are_refused() {
        for text in ["", ".", "1.", ".5", "1.0000", "-1", "+1", "1e3", "NaN", "inf", "1,5", "0x10", "4503599627370.496"]
        {
            assert_eq!(millis(text), None, "{text}");
        }
        assert_eq!(millis("99999999999999999999999999"), None);
        assert_eq!(millis("18446744073709551.615"), None);
    }

    #[test]
    fn costs_are_whole_and_bounded() {
        let read = |text: &str| cost(text.as_bytes()).ok();
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("1099511627776"), Some(1 << 40));
        for text in ["1099511627777", "99999999999999999999999", "-1", "1.5", "NaN", "1e2", " 1"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
