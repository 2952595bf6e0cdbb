//! Parser of the `Retry-After` field.

use std::time::{Duration, SystemTime};

use http::{
    HeaderMap,
    header::{DATE, RETRY_AFTER},
};

/// The delay that `Retry-After` asks for, in seconds or as a date. A date is relative to the response's `Date` field, because
/// the clocks may differ, or else to `now`; a past date is zero. `None` if the field is missing or malformed.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Saturates; the caller bounds it.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let date = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    Some(until.duration_since(date.unwrap_or(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &[(&'static str, &str)]) -> Option<Duration> {
        let noon = httpdate::parse_http_date("Mon, 12 Jan 2026 12:00:00 GMT").unwrap();
        let headers = fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        retry_after(&headers.collect(), noon)
    }

    #[test]
    fn digits_are_seconds() {
        assert_eq!(parse(&[("retry-after", "120")]), Some(Duration::from_secs(120)));
        assert_eq!(parse(&[("retry-after", " 0 ")]), Some(Duration::ZERO));
        assert_eq!(parse(&[("retry-after", "99999999999999999999999")]), Some(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn a_date_is_relative_to_the_date_field() {
        let at = ("retry-after", "Mon, 12 Jan 2026 12:00:30 GMT");
        assert_eq!(parse(&[at]), Some(Duration::from_secs(30)));
        assert_eq!(parse(&[at, ("date", "Mon, 12 Jan 2026 12:00:20 GMT")]), Some(Duration::from_secs(10)));
        assert_eq!(parse(&[at, ("date", "yesterday")]), Some(Duration::from_secs(30)));
    }

    #[test]
    fn a_past_date_is_zero() {
        assert_eq!(parse(&[("retry-after", "Mon, 12 Jan 2026 11:00:00 GMT")]), Some(Duration::ZERO));
    }

    #[test]
    fn malformed_values_are_ignored() {
        for junk in ["", "soon", "-1", "1.5", "1e3", "Mon, 32 Foo 2026"] {
            assert_eq!(parse(&[("retry-after", junk)]), None, "{junk:?}");
        }
        assert_eq!(parse(&[]), None);
    }
}
