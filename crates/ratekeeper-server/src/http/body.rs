//! JSON bodies of HTTP requests, and the verb of each path.
//!
//! The subjects of a request (`key`, `descriptor`, `keys`, `descriptors`) are in [`subjects`].
//!
//! Unknown fields are errors: a misspelt `cost` must not become a request that costs 1.

mod entries;
mod subjects;

use std::{borrow::Cow, fmt};

use ratekeeper_core::{
    LeaseId, OnExpiry, Release, RequestId, Span, Take, Terms, Timestamp, Verb,
    bounds::{MAX_LIFETIME, MAX_TIME, MAX_WAIT},
};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::Problem;
use crate::{
    engine::INLINE_DOMAIN,
    inline_rules::{self, MAX_RULES_BYTES},
    request::InlineRules,
};
use entries::Entries;
use serde_json::value::RawValue;
use subjects::{Items, PolicyKey};

/// The body of every `POST`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Body<'a> {
    #[serde(borrow, default)]
    domain: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    descriptor: Option<Entries<'a>>,
    #[serde(borrow, default)]
    descriptors: Option<Items<Entries<'a>>>,
    #[serde(borrow, default)]
    keys: Option<Items<PolicyKey<'a>>>,
    #[serde(borrow, default)]
    rules: Option<&'a RawValue>,
    #[serde(default)]
    cost: Option<u64>,
    #[serde(default)]
    cost_each: Option<Items<u64>>,
    #[serde(default)]
    max_wait_ms: Option<f64>,
    #[serde(default)]
    reserved: Option<u64>,
    #[serde(default)]
    actual: Option<u64>,
    #[serde(default)]
    at_ms: Option<f64>,
    #[serde(default)]
    lease: Option<u64>,
    #[serde(default)]
    for_ms: Option<f64>,
    #[serde(borrow, default)]
    request_id: Option<Cow<'a, str>>,
    #[serde(default)]
    lifetime_ms: Option<f64>,
    #[serde(borrow, default)]
    on_expiry: Option<Cow<'a, str>>,
    #[serde(default)]
    at_least: Option<u64>,
}

/// A path that carries out one verb.
#[derive(Debug)]
pub(super) struct Endpoint {
    path: &'static str,
    /// Fields of the body in addition to the domain and the subject.
    fields: &'static [&'static str],
    verb: fn(&Body<'_>) -> Result<Verb, Problem>,
}

impl<'a> Body<'a> {
    /// Parses the body.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Problem> {
        let invalid = |error: &dyn fmt::Display| {
            let example = r#"{"domain":"api","key":"user:42"}"#;
            Problem::bad_request(format!("the body is not valid: {error}; send JSON such as {example}"))
        };
        let Object(body) = serde_json::from_slice(bytes).map_err(|error| invalid(&error))?;
        if body.domain.is_none() && body.rules.is_none() {
            return Err(invalid(&"missing field `domain`"));
        }
        if let Some(rules) = body.rules.filter(|rules| rules.get().len() > MAX_RULES_BYTES) {
            let found = rules.get().len();
            return Err(Problem::bad_request(format!("rules are {found} bytes long; {MAX_RULES_BYTES} is the most")));
        }
        Ok(body)
    }

    /// The domain of the rules. Rules that come with the request need none.
    pub(super) fn domain(&self) -> &str {
        self.domain.as_deref().unwrap_or(INLINE_DOMAIN)
    }

    /// The rules that come with the request.
    fn inline_rules(&self) -> Option<InlineRules<'_>> {
        self.rules.map(|rules| InlineRules { text: rules.get(), read: inline_rules::of_json })
    }

    /// The verb; a field that belongs to another verb is an error.
    pub(super) fn verb(&self, endpoint: &Endpoint) -> Result<Verb, Problem> {
        let fields = [
            ("cost", self.cost.is_some() || self.cost_each.is_some()),
            ("max_wait_ms", self.max_wait_ms.is_some()),
            ("reserved", self.reserved.is_some()),
            ("actual", self.actual.is_some()),
            ("at_ms", self.at_ms.is_some()),
            ("lease", self.lease.is_some()),
            ("for_ms", self.for_ms.is_some()),
            ("request_id", self.request_id.is_some()),
            ("lifetime_ms", self.lifetime_ms.is_some()),
            ("on_expiry", self.on_expiry.is_some()),
            ("at_least", self.at_least.is_some()),
        ];
        let unexpected = fields.into_iter().find(|(field, is_given)| *is_given && !endpoint.fields.contains(field));
        if let Some((unexpected, _)) = unexpected {
            return Err(Problem::bad_request(format!("{} has no {unexpected}; leave it out", endpoint.name())));
        }
        (endpoint.verb)(self)
    }

    fn take(&self) -> Result<Verb, Problem> {
        let max_wait = self.max_wait_ms.map(|wait| micros("max_wait_ms", wait, MAX_WAIT)).transpose()?;
        Ok(Verb::Take(Take::up_to(max_wait.unwrap_or_default())))
    }

    /// The terms of a take. `header` is the id of the header `Idempotency-Key`, which that of the body overrides.
    pub(super) fn terms(&self, endpoint: &Endpoint, header: Option<&[u8]>) -> Result<Terms, Problem> {
        if !endpoint.fields.contains(&"at_least") {
            return Ok(Terms::NONE);
        }
        let mut terms = Terms::NONE;
        if let Some(id) = self.request_id.as_ref().map(|id| id.as_bytes()).or(header) {
            terms = terms.with_id(request_id(id)?);
        }
        if let Some(lifetime) = self.lifetime_ms {
            terms = terms.lifetime(micros("lifetime_ms", lifetime, MAX_LIFETIME)?);
        }
        match self.on_expiry.as_deref() {
            None | Some("keep") => {}
            Some("refund") => terms = terms.on_expiry(OnExpiry::Refund),
            Some(other) => {
                let other = other.escape_debug();
                return Err(Problem::bad_request(format!("on_expiry is \"{other}\"; write keep or refund")));
            }
        }
        if let Some(least) = self.at_least {
            terms = terms.at_least(least);
        }
        if terms.id.is_none() && endpoint.needs_id() {
            return Err(Problem::bad_request("reserve needs a request_id, by which it is committed or cancelled"));
        }
        if terms.id.is_none() && (self.lifetime_ms.is_some() || self.on_expiry.is_some()) {
            return Err(Problem::bad_request("lifetime_ms and on_expiry are for a request with a request_id; add one"));
        }
        Ok(terms)
    }

    /// The id of the request that a commit or a cancel finishes.
    fn finished_id(&self, name: &str) -> Result<RequestId, Problem> {
        match &self.request_id {
            Some(id) => request_id(id.as_bytes()),
            None => Err(Problem::bad_request(format!("{name} needs the request_id under which permits were charged"))),
        }
    }

    fn commit(&self) -> Result<Verb, Problem> {
        let id = self.finished_id("commit")?;
        let needed = "commit needs actual, the real cost; to return all of it, send cancel";
        let actual = self.actual.ok_or_else(|| Problem::bad_request(needed))?;
        Ok(Verb::Commit { id, actual })
    }

    fn cancel(&self) -> Result<Verb, Problem> {
        Ok(Verb::Cancel { id: self.finished_id("cancel")? })
    }

    fn refund(&self) -> Result<Verb, Problem> {
        match (&self.request_id, self.cost.is_some() || self.at_ms.is_some()) {
            (Some(_), false) => self.cancel(),
            (Some(_), true) => Err(Problem::bad_request(
                "a refund by request_id returns all that was charged; leave out cost and at_ms",
            )),
            (None, _) => Ok(Verb::Refund { at: self.at()? }),
        }
    }

    fn settle(&self) -> Result<Verb, Problem> {
        if self.request_id.is_some() && self.reserved.is_none() && self.at_ms.is_none() {
            return self.commit();
        }
        if self.request_id.is_some() {
            let detail = "a settle by request_id knows what was charged; leave out reserved and at_ms";
            return Err(Problem::bad_request(detail));
        }
        let (Some(_), Some(actual)) = (self.reserved, self.actual) else {
            return Err(Problem::bad_request(
                "settle needs reserved (the cost that was charged) and actual (the real cost)",
            ));
        };
        Ok(Verb::Settle { actual, at: self.at()? })
    }

    fn block(&self) -> Result<Verb, Problem> {
        match self.for_ms {
            Some(span) => Ok(Verb::Block { span: micros("for_ms", span, MAX_WAIT)? }),
            None => Err(Problem::bad_request("block needs for_ms, the time in milliseconds; 0 lifts a block")),
        }
    }

    fn heartbeat(&self) -> Result<Verb, Problem> {
        match self.lease {
            Some(lease) => Ok(Verb::Heartbeat(LeaseId(lease))),
            None => Err(Problem::bad_request("heartbeat needs the lease that check returned")),
        }
    }

    fn at(&self) -> Result<Option<Timestamp>, Problem> {
        let since_epoch = self.at_ms.map(|at| micros("at_ms", at, MAX_TIME.since(Timestamp::EPOCH))).transpose()?;
        Ok(since_epoch.map(|span| Timestamp::EPOCH + span))
    }
}

impl Endpoint {
    /// The endpoint at this path.
    pub(super) fn of_path(path: &str) -> Option<&'static Self> {
        ENDPOINTS.iter().find(|endpoint| endpoint.path == path)
    }

    /// Whether a request is finished later, by its id.
    fn needs_id(&self) -> bool {
        self.path == "/v1/reserve"
    }

    /// The last part of the path.
    fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

/// The paths of all verbs, the most used first.
const ENDPOINTS: [Endpoint; 12] = [
    Endpoint {
        path: "/v1/check",
        fields: &["cost", "max_wait_ms", "request_id", "lifetime_ms", "at_least"],
        verb: |body| body.take(),
    },
    Endpoint { path: "/v1/peek", fields: &[], verb: |_| Ok(Verb::Peek) },
    Endpoint { path: "/v1/refund", fields: &["cost", "at_ms", "request_id"], verb: |body| body.refund() },
    Endpoint { path: "/v1/settle", fields: &["reserved", "actual", "at_ms", "request_id"], verb: |body| body.settle() },
    Endpoint {
        path: "/v1/reserve",
        fields: &["cost", "max_wait_ms", "request_id", "lifetime_ms", "on_expiry", "at_least"],
        verb: |body| body.take(),
    },
    Endpoint { path: "/v1/commit", fields: &["request_id", "actual"], verb: |body| body.commit() },
    Endpoint { path: "/v1/cancel", fields: &["request_id"], verb: |body| body.cancel() },
    Endpoint {
        path: "/v1/release",
        fields: &["cost", "lease"],
        verb: |body| Ok(Verb::Release(body.lease.map_or(Release::Oldest, |lease| Release::Lease(LeaseId(lease))))),
    },
    Endpoint { path: "/v1/heartbeat", fields: &["lease"], verb: |body| body.heartbeat() },
    Endpoint { path: "/v1/penalize", fields: &["cost"], verb: |_| Ok(Verb::Penalize) },
    Endpoint { path: "/v1/block", fields: &["for_ms"], verb: |body| body.block() },
    Endpoint { path: "/v1/reset", fields: &[], verb: |_| Ok(Verb::Reset) },
];

fn request_id(text: &[u8]) -> Result<RequestId, Problem> {
    RequestId::new(text).map_err(|error| Problem::bad_request(format!("request_id: {error}")))
}

/// Milliseconds with decimals, as whole microseconds. A double is exact enough: at current times, adjacent values are
/// a quarter of a microsecond apart.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the range is checked before, and bounds are below 2^53"
)]
fn micros(field: &str, millis: f64, most: Span) -> Result<Span, Problem> {
    let micros = (millis * 1_000.0).round();
    if !(0.0..=most.as_micros() as f64).contains(&micros) {
        // `{:?}` uses an exponent: without one, some numbers have hundreds of digits.
        let (found, most) = (format_args!("{millis:?}"), most.as_micros() / 1_000);
        return Err(Problem::bad_request(format!("{field} is {found}; use milliseconds, 0 to {most}")));
    }
    Ok(Span::from_micros(micros as u64))
}

/// A body that is a JSON object. By default serde accepts an array of the values as well.
struct Object<'a>(Body<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Object<'de>, M::Error> {
                Body::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}
