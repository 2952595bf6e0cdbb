//! Refusals as gRPC statuses: a trailers-only response, which has its status in the header fields.

use std::fmt::Write;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE, request::Parts};
use ratekeeper_core::Verdict;

use super::Refusal;

/// The content type of a gRPC or gRPC-Web request.
pub(super) fn content_type(request: &Parts) -> Option<&HeaderValue> {
    let value = request.headers.get(CONTENT_TYPE)?;
    value.as_bytes().starts_with(b"application/grpc").then_some(value)
}

pub(super) fn response(refusal: &Refusal<'_>, content_type: &HeaderValue) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type.clone());
    headers.insert(GRPC_STATUS, HeaderValue::from_static(code(refusal)));
    // Percent-encoding leaves printable ASCII only.
    if let Ok(message) = HeaderValue::try_from(percent_encoded(&refusal.detail())) {
        headers.insert(GRPC_MESSAGE, message);
    }
    if let Refusal::Limited { decision, estimated_wait, .. } = refusal {
        let pushback = match decision.verdict {
            Verdict::Deny { retry_after } => {
                HeaderValue::from(estimated_wait.unwrap_or(retry_after).as_micros().div_ceil(1_000))
            }
            _ => HeaderValue::from_static("-1"),
        };
        headers.insert(GRPC_RETRY_PUSHBACK_MS, pushback);
    }
    response
}

fn code(refusal: &Refusal<'_>) -> &'static str {
    match refusal.status() {
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
/// Milliseconds after which the client may retry, -1 for never. gRPC libraries obey it.
const GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
