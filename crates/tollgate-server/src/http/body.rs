//! What a body may say. Unknown fields are errors: a misspelt `cost` must not become a request that costs 1.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};
use tollgate_core::{
    LeaseId, Micros,
    bounds::{MAX_TIME, MAX_WAIT},
};

use super::Problem;
use crate::engine::{Asked, MAX_ENTRIES, Subject, Who};

/// The body of every `POST`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Body<'a> {
    #[serde(borrow)]
    pub(super) domain: Cow<'a, str>,
    #[serde(borrow, default)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    descriptor: Option<Entries<'a>>,
    #[serde(default)]
    cost: Option<u64>,
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
}

/// What the path asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Op {
    Check,
    Peek,
    Refund,
    Settle,
    Release,
    Heartbeat,
    Penalize,
    Reset,
}

impl<'a> Body<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Problem> {
        serde_json::from_slice(bytes).map(|Object(body)| body).map_err(|error| {
            let example = r#"{"domain":"api","key":"user:42"}"#;
            Problem::bad_request(format!("the body is not what was expected: {error}; send JSON such as {example}"))
        })
    }

    /// The entries of the descriptor, borrowed.
    pub(super) fn entries(&self) -> Vec<(&str, &str)> {
        let entries = self.descriptor.iter().flat_map(|entries| &entries.0);
        entries.map(|(key, value)| (&**key, &**value)).collect()
    }

    /// Who is meant. `entries` is what [`entries`](Self::entries) returned.
    pub(super) fn subject<'s>(&'s self, entries: &'s [(&'s str, &'s str)]) -> Result<Subject<'s>, Problem> {
        let who = match (&self.key, &self.descriptor) {
            (Some(key), None) => Who::Key(key),
            (None, Some(_)) if entries.is_empty() => {
                let message = "the descriptor is empty; give it an entry, such as \"user\": \"42\"";
                return Err(Problem::bad_request(message));
            }
            (None, Some(_)) => Who::Descriptor(entries),
            (Some(_), Some(_)) => {
                return Err(Problem::bad_request("key and descriptor both say whom to limit; keep one"));
            }
            (None, None) => {
                return Err(Problem::bad_request("nobody is named; give a key, or a descriptor of entries"));
            }
        };
        Ok(Subject { who, cost: self.cost, limit: None })
    }

    /// What is asked; fields that belong to another question are refused.
    pub(super) fn asked(&self, op: Op) -> Result<Asked, Problem> {
        let mut given: Vec<&str> = Vec::new();
        let mut note = |field, is_there: bool| given.extend(is_there.then_some(field));
        note("cost", self.cost.is_some());
        note("max_wait_ms", self.max_wait_ms.is_some());
        note("reserved", self.reserved.is_some());
        note("actual", self.actual.is_some());
        note("at_ms", self.at_ms.is_some());
        note("lease", self.lease.is_some());
        if let Some(foreign) = given.into_iter().find(|field| !op.fields().contains(field)) {
            return Err(Problem::bad_request(format!("{} has no {foreign}; leave it out", op.name())));
        }
        Ok(match op {
            Op::Check => {
                let max_wait = self.max_wait_ms.map(|wait| micros("max_wait_ms", wait, MAX_WAIT)).transpose()?;
                Asked::Take { max_wait: max_wait.unwrap_or_default() }
            }
            Op::Peek => Asked::Peek,
            Op::Refund => Asked::Refund { at: self.at()? },
            Op::Settle => {
                let (Some(reserved), Some(actual)) = (self.reserved, self.actual) else {
                    return Err(Problem::bad_request(
                        "settle needs reserved (what was charged) and actual (what it came to)",
                    ));
                };
                Asked::Settle { reserved, actual, at: self.at()? }
            }
            Op::Release => Asked::Release { lease: self.lease.map(LeaseId) },
            Op::Heartbeat => match self.lease {
                Some(lease) => Asked::Heartbeat { lease: LeaseId(lease) },
                None => return Err(Problem::bad_request("heartbeat needs the lease that check returned")),
            },
            Op::Penalize => Asked::Penalize,
            Op::Reset => Asked::Reset,
        })
    }

    fn at(&self) -> Result<Option<Micros>, Problem> {
        self.at_ms.map(|at| micros("at_ms", at, MAX_TIME)).transpose()
    }
}

impl Op {
    pub(super) fn of_path(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/check" => Self::Check,
            "/v1/peek" => Self::Peek,
            "/v1/refund" => Self::Refund,
            "/v1/settle" => Self::Settle,
            "/v1/release" => Self::Release,
            "/v1/heartbeat" => Self::Heartbeat,
            "/v1/penalize" => Self::Penalize,
            "/v1/reset" => Self::Reset,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Peek => "peek",
            Self::Refund => "refund",
            Self::Settle => "settle",
            Self::Release => "release",
            Self::Heartbeat => "heartbeat",
            Self::Penalize => "penalize",
            Self::Reset => "reset",
        }
    }

    /// Fields beside the domain and who is meant.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Check => &["cost", "max_wait_ms"],
            Self::Peek | Self::Reset => &[],
            Self::Refund => &["cost", "at_ms"],
            Self::Settle => &["reserved", "actual", "at_ms"],
            Self::Release => &["cost", "lease"],
            Self::Heartbeat => &["lease"],
            Self::Penalize => &["cost"],
        }
    }
}

/// Milliseconds, perhaps with decimals, as whole microseconds. Doubles are exact enough: times of our day have eleven
/// bits to spare below a microsecond.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the range is checked before, and bounds are below 2^53"
)]
fn micros(field: &str, millis: f64, most: Micros) -> Result<Micros, Problem> {
    let micros = (millis * 1_000.0).round();
    if !(0.0..=most.0 as f64).contains(&micros) {
        // As it was sent: without an exponent, some numbers have hundreds of digits.
        let (found, most) = (format_args!("{millis:?}"), most.0 / 1_000);
        return Err(Problem::bad_request(format!("{field} is {found}; use milliseconds, 0 to {most}")));
    }
    Ok(Micros(micros as u64))
}

/// A body with names before its values. Left to itself, serde takes a list of the values as well.
struct Object<'a>(Body<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Named;
        impl<'de> Visitor<'de> for Named {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Object<'de>, M::Error> {
                Body::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Named)
    }
}

/// A JSON object of texts, in the order it was written: descriptors are matched in order.
#[derive(Debug)]
pub(super) struct Entries<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts, such as {\"user\":\"42\"}")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries<'de>, M::Error> {
                let mut entries: Vec<(Cow<'de, str>, Cow<'de, str>)> = Vec::new();
                while let Some((Text(key), Text(value))) = map.next_entry()? {
                    // Each is compared with all before it, so there must not be thousands.
                    if entries.len() == MAX_ENTRIES {
                        return Err(M::Error::custom(format_args!(
                            "a descriptor of more than {MAX_ENTRIES} entries; {MAX_ENTRIES} is the most"
                        )));
                    }
                    if entries.iter().any(|(other, _)| *other == key) {
                        return Err(M::Error::custom(format!(
                            "descriptor entry \"{}\" is there twice",
                            key.escape_debug()
                        )));
                    }
                    entries.push((key, value));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// A text, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
