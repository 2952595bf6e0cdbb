//! Points in time as people write them: `2027-01-31T23:59:59Z`, with an offset that leaves no doubt whose clock is meant.

use jiff::Timestamp;
use tollgate_core::Micros;

/// Reads a point in time. The error completes the sentence "until is …, ".
pub(crate) fn parse(word: &str) -> Result<Micros, String> {
    let refusal = || format!("which is no point in time; use {EXAMPLE}");
    // A name in brackets would need a table of the world's time zones.
    if word.contains('[') {
        return Err(refusal());
    }
    let moment: Timestamp = word.parse().map_err(|_| refusal())?;
    let micros = u64::try_from(moment.as_microsecond());
    micros.map(Micros).map_err(|_| "before 1970; leave the override out".to_owned())
}

/// A point in time as one would write it, by the clock of Greenwich.
pub fn tell(moment: Micros) -> String {
    let micros = i64::try_from(moment.0).ok().and_then(|micros| Timestamp::from_microsecond(micros).ok());
    micros.map_or_else(|| "the end of time".to_owned(), |moment| moment.to_string())
}

/// What would do.
pub(crate) const EXAMPLE: &str = "a date, a time and an offset, such as 2027-01-31T23:59:59Z";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_whatever_clock_it_is_told_by() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Ok(Micros::ZERO));
        assert_eq!(parse("2027-01-31T23:59:59Z"), Ok(Micros::from_secs(1_801_439_999)));
        assert_eq!(parse("2027-02-01T01:59:59+02:00"), parse("2027-01-31T23:59:59Z"));
        assert_eq!(parse("2027-01-31 23:59:59.25Z"), Ok(Micros(1_801_439_999_250_000)));
        assert_eq!(parse("2028-02-29T00:00:00Z"), Ok(Micros::from_secs(1_835_395_200)));
    }

    #[test]
    fn a_moment_is_told_as_it_would_be_written() {
        assert_eq!(tell(Micros::from_secs(1_801_439_999)), "2027-01-31T23:59:59Z");
        assert_eq!(tell(Micros(u64::MAX)), "the end of time");
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for word in [
            "",
            "tomorrow",
            "2027-01-31",
            "2027-01-31T23:59:59",
            "2027-02-29T00:00:00Z",
            "2027-13-01T00:00:00Z",
            "2027-01-31T25:00:00Z",
            "1801439999",
            "2027-01-31T23:59:59Z[UTC]",
            "99999-01-01T00:00:00Z",
        ] {
            assert!(parse(word).unwrap_err().contains("2027-01-31T23:59:59Z"), "{word}");
        }
        assert!(parse("1969-12-31T23:59:59Z").unwrap_err().contains("before 1970"));
    }
}
