//! Reading a peer's `Retry-After`.

use std::time::{Duration, SystemTime};

use http::{
    HeaderMap,
    header::{DATE, RETRY_AFTER},
};

/// How long the peer asks us to stay away: so many seconds, or until a date. A date is measured from the peer's own `Date`
/// where it sent one, since our clocks may differ; one that has passed asks for nothing. `None` if there is no such field,
/// or nothing that can be read.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number holds are as good as for ever; the caller has a bound.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let date = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    Some(until.duration_since(date.unwrap_or(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(fields: &[(&'static str, &str)]) -> Option<Duration> {
        let noon = httpdate::parse_http_date("Mon, 12 Jan 2026 12:00:00 GMT").unwrap();
        let headers = fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        retry_after(&headers.collect(), noon)
    }

    #[test]
    fn seconds_are_seconds() {
        assert_eq!(told(&[("retry-after", "120")]), Some(Duration::from_secs(120)));
        assert_eq!(told(&[("retry-after", " 0 ")]), Some(Duration::ZERO));
        assert_eq!(told(&[("retry-after", "99999999999999999999999")]), Some(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn a_date_is_measured_by_the_peers_clock_if_it_told_us() {
        let at = ("retry-after", "Mon, 12 Jan 2026 12:00:30 GMT");
        assert_eq!(told(&[at]), Some(Duration::from_secs(30)));
        assert_eq!(told(&[at, ("date", "Mon, 12 Jan 2026 12:00:20 GMT")]), Some(Duration::from_secs(10)));
        assert_eq!(told(&[at, ("date", "yesterday")]), Some(Duration::from_secs(30)));
    }

    #[test]
    fn a_date_that_has_passed_asks_for_nothing() {
        assert_eq!(told(&[("retry-after", "Mon, 12 Jan 2026 11:00:00 GMT")]), Some(Duration::ZERO));
    }

    #[test]
    fn what_cannot_be_read_says_nothing() {
        for junk in ["", "soon", "-1", "1.5", "1e3", "Mon, 32 Foo 2026"] {
            assert_eq!(told(&[("retry-after", junk)]), None, "{junk:?}");
        }
        assert_eq!(told(&[]), None);
    }
}
