//! Resolution of unquoted scalars: null, boolean, number or text.
//!
//! Follows the core schema of YAML 1.2, so `yes`, `1_000` and `12:30` are text. Only plain decimal numbers become
//! numbers. Fractions, negative and hexadecimal numbers are recognised separately, so that messages can name them.

/// The meaning of an unquoted scalar.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Meaning {
    Null,
    Bool(bool),
    Whole(u64),
    Odd(Odd),
    Text,
}

/// A value that the language has and rule files do not use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Odd {
    Negative,
    Fraction,
    OtherBase,
    TooBig,
    NotFinite,
    Date,
}

impl Odd {
    /// The text that follows the value in messages: "-5, below zero".
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Negative => "below zero",
            Self::Fraction => "a number with a fraction or an exponent",
            Self::OtherBase => "a number that is not decimal",
            Self::TooBig => "more than any limit",
            Self::NotFinite => "not a finite number",
            Self::Date => "a date or time",
        }
    }
}

/// Resolves an unquoted scalar.
pub(crate) fn resolve(word: &str) -> Meaning {
    match word {
        "" | "~" | "null" | "Null" | "NULL" => return Meaning::Null,
        "true" | "True" | "TRUE" => return Meaning::Bool(true),
        "false" | "False" | "FALSE" => return Meaning::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Meaning::Odd(Odd::NotFinite),
        _ => {}
    }
    let (negative, digits) = match word.as_bytes().first() {
        Some(b'-') => (true, &word[1..]),
        Some(b'+') => (false, &word[1..]),
        _ => (false, word),
    };
    if matches!(digits, ".inf" | ".Inf" | ".INF") {
        return Meaning::Odd(Odd::NotFinite);
    }
    if all(digits, |c| c.is_ascii_digit()) {
        return whole(negative, digits);
    }
    let other_base = |prefix, digit: fn(char) -> bool| word.strip_prefix(prefix).is_some_and(|rest| all(rest, digit));
    if other_base("0x", |c| c.is_ascii_hexdigit()) || other_base("0o", |c| ('0'..='7').contains(&c)) {
        return Meaning::Odd(Odd::OtherBase);
    }
    if is_decimal_fraction(digits) { Meaning::Odd(Odd::Fraction) } else { Meaning::Text }
}

fn whole(negative: bool, digits: &str) -> Meaning {
    match digits.parse::<u64>() {
        Ok(0) => Meaning::Whole(0),
        _ if negative => Meaning::Odd(Odd::Negative),
        Ok(number) => Meaning::Whole(number),
        Err(_) => Meaning::Odd(Odd::TooBig),
    }
}

/// `1.5`, `.5`, `1.`, `1e3`: digits with one point or an exponent or both.
fn is_decimal_fraction(word: &str) -> bool {
    let (mantissa, exponent) = match word.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (word, None),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        all(digits, |c| c.is_ascii_digit())
    });
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = before.chars().chain(after.chars());
    exponent_fits && !(before.is_empty() && after.is_empty()) && digits.into_iter().all(|c| c.is_ascii_digit())
}

fn all(word: &str, wanted: impl Fn(char) -> bool) -> bool {
    !word.is_empty() && word.chars().all(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_core_schema() {
        assert_eq!(resolve("100"), Meaning::Whole(100));
        assert_eq!(resolve("+7"), Meaning::Whole(7));
        assert_eq!(resolve("18446744073709551615"), Meaning::Whole(u64::MAX));
        assert_eq!(resolve("18446744073709551616"), Meaning::Odd(Odd::TooBig));
        assert_eq!(resolve("-5"), Meaning::Odd(Odd::Negative));
        assert_eq!(resolve("0x1F"), Meaning::Odd(Odd::OtherBase));
        assert_eq!(resolve("0o17"), Meaning::Odd(Odd::OtherBase));
        assert_eq!(resolve("-.inf"), Meaning::Odd(Odd::NotFinite));
        assert_eq!(resolve(".NaN"), Meaning::Odd(Odd::NotFinite));
        for fraction in ["1.5", ".5", "1.", "1e3", "-2.5E-7"] {
            assert_eq!(resolve(fraction), Meaning::Odd(Odd::Fraction), "{fraction}");
        }
        for text in ["yes", "1_000", "1s", "e5", ".", "-", "+", "0x", "1.2.3", "1e", "+02:00", "*"] {
            assert_eq!(resolve(text), Meaning::Text, "{text}");
        }
        assert_eq!(resolve("~"), Meaning::Null);
        assert_eq!(resolve("False"), Meaning::Bool(false));
    }
}
