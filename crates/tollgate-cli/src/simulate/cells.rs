//! What may stand in a cell: times, costs and operations, from text to exact integers and back.

use tollgate_core::{
    Micros,
    bounds::{MAX_PERMITS, MAX_TIME},
};

use tollgate_server::line;

use crate::report::RequestProblem;

/// What a request wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Op {
    Take,
    Peek,
    Refund,
    Settle,
    Penalize,
    Reset,
    Release,
}

impl Op {
    /// The word for it in files and answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Take => "take",
            Self::Peek => "peek",
            Self::Refund => "refund",
            Self::Settle => "settle",
            Self::Penalize => "penalize",
            Self::Reset => "reset",
            Self::Release => "release",
        }
    }
}

pub(crate) fn op(text: &[u8]) -> Result<Op, RequestProblem> {
    match text {
        b"take" => Ok(Op::Take),
        b"peek" => Ok(Op::Peek),
        b"refund" => Ok(Op::Refund),
        b"settle" => Ok(Op::Settle),
        b"penalize" => Ok(Op::Penalize),
        b"reset" => Ok(Op::Reset),
        b"release" => Ok(Op::Release),
        other => Err(RequestProblem::Op { found: told(other) }),
    }
}

/// Milliseconds with up to three decimals, as whole microseconds.
pub(crate) fn micros(column: &'static str, text: &[u8]) -> Result<Micros, RequestProblem> {
    let (whole, decimals) = match text.iter().position(|&byte| byte == b'.') {
        Some(point) => (&text[..point], Some(&text[point + 1..])),
        None => (text, None),
    };
    let mistaken = || RequestProblem::Time { column, found: told(text) };
    let late = || RequestProblem::TimeTooLate { column, found: told(text) };
    let millis = match digits(whole) {
        Digits::Number(number) => number,
        Digits::TooLarge => return Err(late()),
        Digits::None => return Err(mistaken()),
    };
    let below = match decimals.map(|decimals| (digits(decimals), decimals.len())) {
        None => 0,
        Some((Digits::Number(tenths), 1)) => tenths * 100,
        Some((Digits::Number(hundredths), 2)) => hundredths * 10,
        Some((Digits::Number(micros), 3)) => micros,
        Some(_) => return Err(mistaken()),
    };
    let micros = millis.checked_mul(1_000).and_then(|micros| micros.checked_add(below));
    micros.map(Micros).filter(|&micros| micros <= MAX_TIME).ok_or_else(late)
}

pub(crate) fn cost(text: &[u8]) -> Result<u64, RequestProblem> {
    match digits(text) {
        Digits::Number(cost) if cost <= MAX_PERMITS => Ok(cost),
        Digits::Number(_) | Digits::TooLarge => Err(RequestProblem::CostTooLarge { found: told(text) }),
        Digits::None => Err(RequestProblem::Cost { found: told(text) }),
    }
}

/// The text of a time: whole milliseconds, or with no more decimals than it needs.
pub(crate) fn told_millis(at: Micros) -> String {
    let mut text = Vec::new();
    line::push_millis(&mut text, at);
    String::from_utf8(text).unwrap_or_default()
}

enum Digits {
    None,
    Number(u64),
    TooLarge,
}

/// Nothing but digits: no sign, no exponent, no spaces.
#[inline]
fn digits(text: &[u8]) -> Digits {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Digits::None;
    }
    let mut number: u64 = 0;
    for &byte in text {
        let longer = number.checked_mul(10).and_then(|number| number.checked_add(u64::from(byte - b'0')));
        match longer {
            Some(longer) => number = longer,
            None => return Digits::TooLarge,
        }
    }
    Digits::Number(number)
}

fn told(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Option<u64> {
        micros("at_ms", text.as_bytes()).ok().map(Micros::get)
    }

    #[test]
    fn times_are_read_to_the_microsecond_without_floats() {
        assert_eq!(millis("10200"), Some(10_200_000));
        assert_eq!(millis("0.1"), Some(100));
        assert_eq!(millis("0.01"), Some(10));
        assert_eq!(millis("007.001"), Some(7_001));
        assert_eq!(millis("4503599627370.495"), Some((1 << 52) - 1));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", ".", "1.", ".5", "1.0000", "-1", "+1", "1e3", "NaN", "inf", "1,5", "0x10", "4503599627370.496"]
        {
            assert_eq!(millis(text), None, "{text}");
        }
        assert_eq!(millis("99999999999999999999999999"), None);
        assert_eq!(millis("18446744073709551.615"), None);
    }

    #[test]
    fn times_are_told_with_no_more_decimals_than_they_need() {
        let told = |micros| told_millis(Micros(micros));
        assert_eq!(told(10_200_000), "10200");
        assert_eq!(told(10_200_500), "10200.5");
        assert_eq!(told(10_200_050), "10200.05");
        assert_eq!(told(1), "0.001");
        assert_eq!(told(0), "0");
    }

    #[test]
    fn costs_are_whole_and_countable() {
        let read = |text: &str| cost(text.as_bytes()).ok();
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("1099511627776"), Some(1 << 40));
        for text in ["1099511627777", "99999999999999999999999", "-1", "1.5", "NaN", "1e2", " 1"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
