//! A refusal as a gRPC status: an answer of headers only, which gRPC clients read as a call that has failed.

use std::fmt::Write;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE, request::Parts};
use tollgate_core::Verdict;

use super::Refused;

/// The request's content type if it is one of gRPC's, gRPC-Web included.
pub(super) fn content_type(request: &Parts) -> Option<&HeaderValue> {
    let value = request.headers.get(CONTENT_TYPE)?;
    value.as_bytes().starts_with(b"application/grpc").then_some(value)
}

pub(super) fn answer(refused: &Refused<'_>, content_type: &HeaderValue) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type.clone());
    headers.insert(GRPC_STATUS, HeaderValue::from_static(code(refused)));
    // Percent-encoding leaves printable ASCII only.
    if let Ok(message) = HeaderValue::try_from(percent_encoded(&refused.detail())) {
        headers.insert(GRPC_MESSAGE, message);
    }
    if let Refused::Limited { decision, .. } = refused {
        let pushback = match decision.verdict {
            Verdict::Deny { retry_after } => HeaderValue::from(retry_after.get().div_ceil(1_000)),
            _ => HeaderValue::from_static("-1"),
        };
        headers.insert(GRPC_RETRY_PUSHBACK_MS, pushback);
    }
    response
}

fn code(refused: &Refused<'_>) -> &'static str {
    match refused.status() {
        StatusCode::TOO_MANY_REQUESTS => "8",    // RESOURCE_EXHAUSTED
        StatusCode::SERVICE_UNAVAILABLE => "14", // UNAVAILABLE
        _ => "3",                                // INVALID_ARGUMENT
    }
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | ..=0x1f | 0x7f.. => drop(write!(encoded, "%{byte:02X}")),
            plain => encoded.push(char::from(plain)),
        }
    }
    encoded
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// When a client that retries may do so: milliseconds, or -1 for never. Clients that know it obey by themselves.
const GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
