//! Error responses of the HTTP and admin ports, as `application/problem+json`.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    StatusCode,
    header::{ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
pub use ratekeeper_http::ProblemDetails as Problem;

use super::HttpResponse;
use ratekeeper_core::StoreError;

use crate::{listen::OutOfBudget, request::RequestError};

/// 413: the body exceeds the bound.
pub(crate) fn too_large(max_bytes: usize) -> Problem {
    let detail = format!("the body is larger than {max_bytes} bytes, which is the most");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "The request is too large", detail)
}

/// 404.
pub(crate) fn not_found(path: &str) -> Problem {
    let shown: String = path.chars().take(80).flat_map(char::escape_default).collect();
    let detail = format!("there is no resource at {shown}; /v1/openapi.json lists the paths");
    Problem::new(StatusCode::NOT_FOUND, "Not found", detail)
}

/// 405, with `Allow`.
pub(crate) fn method_not_allowed(allowed: &'static str) -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", format!("use {allowed} here"))
        .with_header(ALLOW, HeaderValue::from_static(allowed))
}

/// 401: no token, or an unknown one.
pub(crate) fn unauthorized() -> Problem {
    let detail = "send a token that this server knows: Authorization: Bearer …";
    Problem::new(StatusCode::UNAUTHORIZED, "A token is required", detail)
        .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

/// 403: the token is known and has no access to this.
pub(crate) fn forbidden(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "The token does not give access to this", detail)
}

/// 503: the store cannot decide, and the rules fail closed. The detail does not name the store.
pub(crate) fn no_decision() -> Problem {
    Problem::reduced_capacity("the store cannot decide at the moment; retry soon")
        .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
}

/// 503: the connection holds too much memory for a longer body.
pub(crate) fn no_room(detail: &OutOfBudget) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "The connection's budget is used up", detail.to_string())
        .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
}

/// The problem as a response of this server.
pub(crate) fn reply(problem: Problem) -> HttpResponse {
    problem.into_response().map(Full::<Bytes>::new)
}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Self {
        if let RequestError::Store(StoreError::UnknownId) = error {
            return Self::new(StatusCode::NOT_FOUND, "The id is not known", error.to_string());
        }
        if error.is_client_error() {
            return Self::bad_request(error.to_string());
        }
        // The response does not reveal the store's address; the log has it. An outage is logged once, when it begins,
        // so each affected call logs at debug level only.
        tracing::debug!(%error, "the store could not decide");
        no_decision()
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper_core::Span;
    use ratekeeper_testkit::LogLines;

    use super::*;
    use crate::request::RequestError;

    /// An outage is logged once, by the store; the calls that fail in it are not.
    #[test]
    fn a_call_that_fails_because_of_the_store_is_not_logged() {
        let log = LogLines::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(lines, || {
            let error = StoreError::TimedOut { address: "127.0.0.1:6379".to_owned(), waited: Span::SECOND };
            assert_eq!(Problem::from(RequestError::from(error)).status(), 503);
            tracing::info!("another event");
        });
        let lines = log.all();
        assert!(lines.len() == 1 && lines[0].contains("another event"), "{lines:?}");
    }
}
