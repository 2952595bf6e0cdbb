//! Timestamps in rule files: RFC 3339 with an offset, such as `2027-01-31T23:59:59Z`.

use ratekeeper_core::Timestamp;

/// Parses a timestamp. The error completes the sentence "until is …, ".
pub(crate) fn parse(word: &str) -> Result<Timestamp, String> {
    let refusal = || format!("which is no point in time; use {EXAMPLE}");
    // A zone name in brackets would need a time zone database.
    if word.contains('[') {
        return Err(refusal());
    }
    let parsed: jiff::Timestamp = word.parse().map_err(|_| refusal())?;
    let micros = u64::try_from(parsed.as_microsecond());
    micros.map(Timestamp::from_micros).map_err(|_| "before 1970; leave the override out".to_owned())
}

/// Formats a timestamp in UTC.
pub fn format(timestamp: Timestamp) -> String {
    let micros = i64::try_from(timestamp.as_micros()).ok();
    let formatted = micros.and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
    formatted.map_or_else(|| "the end of time".to_owned(), |timestamp| timestamp.to_string())
}

/// The remedy in error messages.
pub(crate) const EXAMPLE: &str = "a date, a time and an offset, such as 2027-01-31T23:59:59Z";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_read_with_any_offset() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Ok(Timestamp::EPOCH));
        assert_eq!(parse("2027-01-31T23:59:59Z"), Ok(Timestamp::from_secs(1_801_439_999)));
        assert_eq!(parse("2027-02-01T01:59:59+02:00"), parse("2027-01-31T23:59:59Z"));
        assert_eq!(parse("2027-01-31 23:59:59.25Z"), Ok(Timestamp::from_micros(1_801_439_999_250_000)));
        assert_eq!(parse("2028-02-29T00:00:00Z"), Ok(Timestamp::from_secs(1_835_395_200)));
    }

    #[test]
    fn a_timestamp_is_written_in_utc() {
        assert_eq!(format(Timestamp::from_secs(1_801_439_999)), "2027-01-31T23:59:59Z");
        assert_eq!(format(Timestamp::from_micros(u64::MAX)), "the end of time");
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
