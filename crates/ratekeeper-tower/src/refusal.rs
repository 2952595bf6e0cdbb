//! Refusals and their responses.
//!
//! | reason | HTTP | gRPC |
//! |---|---|---|
//! | over the limit | 429 | RESOURCE_EXHAUSTED |
//! | costs more than can ever pass | 400 | INVALID_ARGUMENT |
//! | no key, or one too long | 400 | INVALID_ARGUMENT |
//! | no decision, or a rule fails closed without its store | 503 | UNAVAILABLE |
//!
//! By default the body is `application/problem+json`; a request with a content type of gRPC gets a gRPC status.

mod grpc;

use bytes::Bytes;
use http::{Response, StatusCode, request::Parts};
use ratekeeper_core::{Decision, Source, Span, StoreError, Verdict};

use ratekeeper_http::{ProblemDetails, RateLimitFields, headers::retry_after_seconds_with};

/// Why a request is refused.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Refusal<'a> {
    /// It is over a limit.
    Limited {
        /// The decision: deny or never.
        decision: &'a Decision,
        /// The header fields of the policy, which have the names of its rules.
        fields: &'a RateLimitFields,
        /// Under a concurrency rule: when a permit becomes free, by the hold times of earlier responses of this layer. It
        /// is the value of `Retry-After`; the certain time is in the decision. `None` for other rules, and until a response
        /// has ended.
        estimated_wait: Option<Span>,
    },
    /// It has no key.
    NoKey,
    /// Its key is too long.
    KeyTooLong {
        /// The length of the key in bytes.
        found: usize,
    },
    /// The store could not decide.
    Undecided(&'a StoreError),
}

impl Refusal<'_> {
    /// The HTTP status.
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
            Self::Limited { decision, fields, .. } => fields.violated(decision).collect(),
            _ => Vec::new(),
        }
    }

    /// The detail of the response. It contains no keys and no addresses of stores.
    pub fn detail(&self) -> String {
        let rules = self.violated().iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let (noun, verb) = if self.violated().len() == 1 { ("rule", "refuses") } else { ("rules", "refuse") };
        match self {
            Self::Limited { decision, estimated_wait, .. } => {
                match (decision.verdict, retry_after_seconds_with(decision, *estimated_wait)) {
                    (Verdict::Never, _) => {
                        format!(
                            "{noun} {rules}: the request asks for more than {} at once; ask for less",
                            decision.limit()
                        )
                    }
                    (_, Some(seconds)) if rules.is_empty() => format!("retry in {seconds} s"),
                    (_, seconds) => format!("{noun} {rules} {verb}; retry in {} s", seconds.unwrap_or(1)),
                }
            }
            Self::NoKey => "the request has no key: it does not identify its sender".to_owned(),
            Self::KeyTooLong { found } => {
                let max = ratekeeper_core::bounds::MAX_KEY_BYTES;
                format!("the key has {found} bytes; {max} is the most")
            }
            Self::Undecided(_) => "the store cannot decide at the moment; try again later".to_owned(),
        }
    }

    /// The default response: a gRPC status for gRPC, a problem otherwise. The layer adds the `RateLimit` fields.
    pub fn response(&self, request: &Parts) -> Response<Bytes> {
        match grpc::content_type(request) {
            Some(content_type) => grpc::response(self, content_type),
            None => ProblemDetails::from(self).into_response(),
        }
    }
}

impl From<&Refusal<'_>> for ProblemDetails {
    fn from(refusal: &Refusal<'_>) -> Self {
        let detail = refusal.detail();
        let problem = match refusal.status() {
            StatusCode::TOO_MANY_REQUESTS => Self::quota_exceeded(detail),
            StatusCode::SERVICE_UNAVAILABLE => Self::reduced_capacity(detail),
            _ => Self::bad_request(detail),
        };
        problem.with_violated(refusal.violated())
    }
}
