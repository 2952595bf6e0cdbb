//! What a request hears that does not get in.
//!
//! | why | HTTP | gRPC |
//! |---|---|---|
//! | over the limit | 429 | RESOURCE_EXHAUSTED |
//! | asks for more than can ever pass | 400 | INVALID_ARGUMENT |
//! | does not say who it is | 400 | INVALID_ARGUMENT |
//! | nothing could be decided, or the rule is closed while its store is away | 503 | UNAVAILABLE |
//!
//! Unless told otherwise, HTTP gets an `application/problem+json` body (RFC 9457, with the draft's problem types), and a
//! request whose content type is gRPC's gets a gRPC status.

mod grpc;
mod problem;

use bytes::Bytes;
use http::{Response, StatusCode, request::Parts};
use tollgate_core::{Decision, Source, StoreError, Verdict};

use crate::headers::{RateLimitFields, retry_after_seconds};

pub use problem::Problem;

/// Why a request does not get in.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Refused<'a> {
    /// A limit says no.
    Limited {
        /// What was decided: deny or never.
        decision: &'a Decision,
        /// The fields of its policy, which know the rules' names.
        fields: &'a RateLimitFields,
    },
    /// The request does not say who it is.
    NoKey,
    /// What it says is too long to be a key.
    KeyTooLong {
        /// How long it is, in bytes.
        found: usize,
    },
    /// Nothing could be decided.
    Undecided(&'a StoreError),
}

impl Refused<'_> {
    /// The HTTP status for it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Limited { decision, .. } if decision.verdict == Verdict::Never => StatusCode::BAD_REQUEST,
            Self::Limited { decision, .. } if decision.source == Source::Closed => StatusCode::SERVICE_UNAVAILABLE,
            Self::Limited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::NoKey | Self::KeyTooLong { .. } => StatusCode::BAD_REQUEST,
            Self::Undecided(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The names of the rules that refuse.
    pub fn violated(&self) -> Vec<&str> {
        match self {
            Self::Limited { decision, fields } => fields.violated(decision).collect(),
            _ => Vec::new(),
        }
    }

    /// A sentence for people. Keys and addresses of stores are not in it.
    pub fn detail(&self) -> String {
        let rules = self.violated().iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let (noun, verb) = if self.violated().len() == 1 { ("rule", "refuses") } else { ("rules", "refuse") };
        match self {
            Self::Limited { decision, .. } => match (decision.verdict, retry_after_seconds(decision)) {
                (Verdict::Never, _) => {
                    format!("{noun} {rules}: the request asks for more than {} at once; ask for less", decision.limit())
                }
                (_, Some(seconds)) if rules.is_empty() => format!("come back in {seconds} s"),
                (_, seconds) => format!("{noun} {rules} {verb}; come back in {} s", seconds.unwrap_or(1)),
            },
            Self::NoKey => "the request does not say who is asking".to_owned(),
            Self::KeyTooLong { found } => {
                let max = tollgate_core::bounds::MAX_KEY_BYTES;
                format!("who is asking is said in {found} bytes; {max} is the most")
            }
            Self::Undecided(_) => "the limit could not be looked up; try again later".to_owned(),
        }
    }

    /// The answer to this request: a gRPC status for gRPC, a problem for everybody else. Without the `RateLimit` fields,
    /// which the layer adds to every answer.
    pub fn answer(&self, request: &Parts) -> Response<Bytes> {
        match grpc::content_type(request) {
            Some(content_type) => grpc::answer(self, content_type),
            None => Problem::of(self).answer(),
        }
    }
}
