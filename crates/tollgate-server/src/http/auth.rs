//! `/v1/auth`: for proxies that ask before they pass a request on (nginx `auth_request`, forwardAuth).
//!
//! The proxy's own configuration says, in the query, what to look at; the client cannot write there.
//!
//! ```text
//! /v1/auth?domain=api&entry=user:header:x-api-key&entry=path:path&cost=2&deny_status=403
//! ```

use std::{borrow::Cow, net::SocketAddr, str::FromStr};

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{HOST, HeaderName, HeaderValue},
};

use super::{Http, Problem, Reply, render};
use crate::{
    engine::{Asked, Question, Subject, Who},
    security::Pass,
    telemetry::Wire,
    text,
};

/// Where the value of a descriptor entry comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EntrySource {
    /// The client's address, folded: IPv6 by its /64.
    Address,
    /// A header of the original request.
    Header(HeaderName),
    /// The original path, without its query, from this header or one of the usual ones.
    Path(Option<HeaderName>),
    /// The original method, likewise.
    Method(Option<HeaderName>),
    /// The original host, likewise.
    Host(Option<HeaderName>),
    /// Always this.
    Value(String),
}

impl FromStr for EntrySource {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let header = |name: &str| HeaderName::from_str(name).map_err(|_| format!("\"{name}\" is no name of a header"));
        let named = |name: &str| if name.is_empty() { Ok(None) } else { header(name).map(Some) };
        match word.split_once(':').unwrap_or((word, "")) {
            ("address", "") => Ok(Self::Address),
            ("path", name) => Ok(Self::Path(named(name)?)),
            ("method", name) => Ok(Self::Method(named(name)?)),
            ("host", name) => Ok(Self::Host(named(name)?)),
            ("header", name) => Ok(Self::Header(header(name)?)),
            ("value", value) if !value.is_empty() => Ok(Self::Value(value.to_owned())),
            _ => Err(format!(
                "\"{word}\" is no source; use address, header:NAME, path, method, host (each also with the name of the \
                 header it is in, such as path:x-original-uri) or value:TEXT"
            )),
        }
    }
}

/// Reads `NAME:SOURCE`, such as `user:header:x-api-key`.
pub fn parse_entry(word: &str) -> Result<(String, EntrySource), String> {
    match word.split_once(':') {
        Some((name, source)) if !name.is_empty() => Ok((name.to_owned(), source.parse()?)),
        _ => Err(format!("\"{word}\" is no entry; use NAME:SOURCE, such as user:header:x-api-key")),
    }
}

/// What the query says.
#[derive(Debug, Default)]
struct Wanted {
    domain: Option<String>,
    entries: Vec<(String, EntrySource)>,
    cost: Option<u64>,
    deny_status: Option<StatusCode>,
}

impl Http {
    /// Answers a proxy.
    pub(super) async fn auth(
        &self,
        head: &http::request::Parts,
        peer: SocketAddr,
        pass: &Pass,
    ) -> Result<Reply, Problem> {
        let wanted = Wanted::read(head.uri.query().unwrap_or_default())?;
        let config = &self.0.auth;
        let domain = self.auth_domain(wanted.domain.as_deref())?;
        if !pass.covers(&domain) {
            return Err(Problem::forbidden("the token is not for this domain"));
        }
        let deny = wanted.deny_status.or_else(|| config.deny_status.and_then(deny_status));
        // A client can bring this about. Proxies such as nginx take any other status for a failure, and may let that pass.
        let contradiction = |detail: String| match deny {
            Some(status) => Problem::new(status, "The request contradicts itself", detail),
            None => Problem::bad_request(detail),
        };
        let original = |named: &Option<HeaderName>, usual: &[HeaderName]| {
            original(&head.headers, named.as_ref(), usual).map_err(contradiction)
        };
        let sources = if wanted.entries.is_empty() { &config.entries } else { &wanted.entries };
        let address = || config.address.key(Some(peer.ip()), &head.headers).unwrap_or_default();
        let mut values: Vec<(&str, Cow<'_, str>)> = Vec::with_capacity(sources.len());
        for (name, source) in sources {
            let value: Cow<'_, str> = match source {
                EntrySource::Address => address().into(),
                EntrySource::Header(name) => field(&head.headers, name),
                EntrySource::Path(named) => without_query(original(named, &ORIGINAL_URI)?),
                EntrySource::Method(named) => original(named, &ORIGINAL_METHOD)?,
                EntrySource::Host(named) => match original(named, &ORIGINAL_HOST)? {
                    Cow::Borrowed("") if named.is_none() => field(&head.headers, &HOST),
                    found => found,
                },
                EntrySource::Value(value) => value.as_str().into(),
            };
            // A header that is not there is no entry; the rules may have a policy for those without one.
            if !value.is_empty() {
                values.push((name, value));
            }
        }
        let key = if sources.is_empty() { address() } else { String::new() };
        let entries: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, &**value)).collect();
        let who = match sources.is_empty() {
            true => Who::Key(&key),
            false if entries.is_empty() => Who::Descriptor(&[(NOBODY, NOBODY)]),
            false => Who::Descriptor(&entries),
        };
        let subjects = [Subject { who, cost: wanted.cost, limit: None }];
        let question =
            Question { domain: &domain, subjects: &subjects, verb: Asked::Take { max_wait: Default::default() } };
        let answer = self.0.engine.ask(&question).await?;
        Ok(render::allowed_or(deny, &answer, &self.0.fields))
    }

    /// Lets a proxy ask that presents the secret, where one is required.
    pub(super) fn admit_proxy(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if self.0.auth.secret.admits(headers.get(AUTH_SECRET).map(HeaderValue::as_bytes)) {
            return Ok(());
        }
        self.0.engine.telemetry().refused_tokens.get_or_create(&Wire::Http.label()).inc();
        let detail =
            "/v1/auth needs the secret of --auth-secret-file in the header X-Tollgate-Secret; let the proxy set it";
        Err(Problem::new(StatusCode::FORBIDDEN, "The proxy's secret is needed", detail))
    }

    fn auth_domain(&self, asked: Option<&str>) -> Result<String, Problem> {
        if let Some(domain) = asked.or(self.0.auth.domain.as_deref()) {
            return Ok(domain.to_owned());
        }
        let book = self.0.engine.rulebook();
        match book.only_domain() {
            Some(domain) => Ok(domain.to_owned()),
            None => Err(Problem::bad_request("no domain is named, and there are several; say ?domain=…")),
        }
    }
}

impl Wanted {
    fn read(query: &str) -> Result<Self, Problem> {
        let mut wanted = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value).ok_or_else(|| {
                Problem::bad_request("the query has a % without two hexadecimal digits, or is not UTF-8")
            })?;
            let wrong = |what: String| Problem::bad_request(format!("the query says {name}={value}: {what}"));
            // Which of two would hold is a guess, and half of the guesses are somebody else's limit.
            let is_said = match name {
                "domain" => wanted.domain.is_some(),
                "cost" => wanted.cost.is_some(),
                "deny_status" => wanted.deny_status.is_some(),
                _ => false,
            };
            if is_said {
                return Err(wrong("it is there twice; keep one".to_owned()));
            }
            match name {
                "domain" => wanted.domain = Some(value.into_owned()),
                "entry" => wanted.entries.push(parse_entry(&value).map_err(wrong)?),
                "cost" => wanted.cost = Some(value.parse().map_err(|_| wrong("use a whole number".to_owned()))?),
                "deny_status" => {
                    let status = value.parse().ok().and_then(deny_status);
                    wanted.deny_status = Some(status.ok_or_else(|| wrong("use 401, 403, 429 or 503".to_owned()))?);
                }
                _ => return Err(wrong("use domain, entry, cost and deny_status".to_owned())),
            }
        }
        Ok(wanted)
    }
}

/// A status that proxies take for a "no".
pub fn deny_status(status: u16) -> Option<StatusCode> {
    [401, 403, 429, 503].contains(&status).then(|| StatusCode::from_u16(status).ok()).flatten()
}

fn field<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Cow<'a, str> {
    headers.get(name).map_or(Cow::Borrowed(""), |value| text::of_bytes(value.as_bytes()))
}

/// What a proxy says of the original request. Proxies have different headers for it and set only their own: a client may
/// add another one, so two that differ are refused rather than one of them believed.
fn original<'a>(
    headers: &'a HeaderMap,
    named: Option<&HeaderName>,
    usual: &[HeaderName],
) -> Result<Cow<'a, str>, String> {
    if let Some(name) = named {
        return Ok(field(headers, name));
    }
    let mut found = usual.iter().map(|name| (name, field(headers, name))).filter(|(_, value)| !value.is_empty());
    let Some((name, value)) = found.next() else { return Ok(Cow::Borrowed("")) };
    match found.find(|(_, other)| *other != value) {
        None => Ok(value),
        Some((other, _)) => Err(format!(
            "{name} and {other} say different things; let the entry name the one that the proxy sets, as in path:{name}"
        )),
    }
}

fn without_query(uri: Cow<'_, str>) -> Cow<'_, str> {
    let path = |uri: &str| uri.find(['?', '#']).unwrap_or(uri.len());
    match uri {
        Cow::Borrowed(uri) => Cow::Borrowed(&uri[..path(uri)]),
        Cow::Owned(mut uri) => {
            uri.truncate(path(&uri));
            Cow::Owned(uri)
        }
    }
}

/// Percent-encoding undone.
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

/// Whether a method may ask: proxies send the original one, or GET.
pub(super) fn is_asking(method: &Method) -> bool {
    !matches!(*method, Method::CONNECT | Method::TRACE)
}

/// The header in which a proxy presents the secret of `/v1/auth`. A page cannot make a browser send it to another site.
pub const AUTH_SECRET: HeaderName = HeaderName::from_static("x-tollgate-secret");

const ORIGINAL_URI: [HeaderName; 3] = [
    HeaderName::from_static("x-original-uri"),
    HeaderName::from_static("x-forwarded-uri"),
    HeaderName::from_static("x-original-url"),
];
const ORIGINAL_METHOD: [HeaderName; 2] =
    [HeaderName::from_static("x-original-method"), HeaderName::from_static("x-forwarded-method")];
const ORIGINAL_HOST: [HeaderName; 2] =
    [HeaderName::from_static("x-original-host"), HeaderName::from_static("x-forwarded-host")];

/// What a request is called of which nothing is known; no rule file names it, so a policy for everything applies.
const NOBODY: &str = "-";

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
