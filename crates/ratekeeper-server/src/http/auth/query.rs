//! Query of `/v1/auth`: domain, descriptor entries, cost and the status of a denial.
//!
//! `entry` adds an entry to the descriptor, and `and` begins the next descriptor:
//!
//! ```text
//! entry=user:header:x-api-key&entry=path:path&and&entry=ip:address
//! ```

use std::borrow::Cow;

use hyper::StatusCode;

use crate::{
    config::{EntrySource, deny_status, parse_entry},
    http::Problem,
    request::MAX_SUBJECTS,
};

/// The query of `/v1/auth`.
#[derive(Debug, Default)]
pub(super) struct AuthQuery {
    pub(super) domain: Option<String>,
    /// The entries of each descriptor. Empty if there is no `entry`.
    pub(super) descriptors: Vec<Vec<(String, EntrySource)>>,
    pub(super) cost: Option<u64>,
    pub(super) deny_status: Option<StatusCode>,
}

impl AuthQuery {
    /// Reads the query of a URI. Unknown and repeated parameters are errors.
    pub(super) fn read(query: &str) -> Result<Self, Problem> {
        let mut parsed = Self::default();
        let mut begins = true;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value).ok_or_else(|| {
                Problem::bad_request("the query has a % without two hexadecimal digits, or is not UTF-8")
            })?;
            let wrong = |what: String| Problem::bad_request(format!("the query has {name}={value}: {what}"));
            // A repeated parameter is ambiguous: a wrong choice would apply the wrong limit.
            let is_repeated = match name {
                "domain" => parsed.domain.is_some(),
                "cost" => parsed.cost.is_some(),
                "deny_status" => parsed.deny_status.is_some(),
                _ => false,
            };
            if is_repeated {
                return Err(wrong("the parameter occurs twice; keep one".to_owned()));
            }
            match name {
                "domain" => parsed.domain = Some(value.into_owned()),
                "entry" => {
                    let entry = parse_entry(&value).map_err(wrong)?;
                    if begins && parsed.descriptors.len() == MAX_SUBJECTS {
                        return Err(wrong(format!("more than {MAX_SUBJECTS} descriptors, which is the most")));
                    }
                    match parsed.descriptors.last_mut().filter(|_| !begins) {
                        Some(descriptor) => descriptor.push(entry),
                        None => parsed.descriptors.push(vec![entry]),
                    }
                    begins = false;
                }
                "and" if begins || !value.is_empty() => {
                    return Err(wrong("and has no value and goes between the entries of two descriptors".to_owned()));
                }
                "and" => begins = true,
                "cost" => parsed.cost = Some(value.parse().map_err(|_| wrong("use a whole number".to_owned()))?),
                "deny_status" => {
                    let status = value.parse().ok().and_then(deny_status);
                    parsed.deny_status = Some(status.ok_or_else(|| wrong("use 401, 403, 429 or 503".to_owned()))?);
                }
                _ => return Err(wrong("use domain, entry, and, cost and deny_status".to_owned())),
            }
        }
        if begins && !parsed.descriptors.is_empty() {
            return Err(Problem::bad_request("the query ends with and; an entry of the next descriptor follows it"));
        }
        Ok(parsed)
    }
}

/// Decodes percent-encoding and `+`; `None` if it is malformed or not UTF-8.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    if !value.contains(['%', '+']) {
        return Some(Cow::Borrowed(value));
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        match byte {
            b'%' => {
                let (digits, after) = after.split_at_checked(2)?;
                let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                bytes.push(digit(digits[0])? * 16 + digit(digits[1])?);
                rest = after;
                continue;
            }
            b'+' => bytes.push(b' '),
            byte => bytes.push(*byte),
        }
        rest = after;
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_undone_or_refused() {
        assert_eq!(decoded("user:header:x-api-key").as_deref(), Some("user:header:x-api-key"));
        assert_eq!(decoded("a%20b+c%C3%a9").as_deref(), Some("a b cé"));
        for bad in ["%", "%4", "%+f", "%4g", "%ff", "a%é"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }
}
