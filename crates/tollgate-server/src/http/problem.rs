//! Errors for machines and people: RFC 9457, `application/problem+json`.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde::Serialize;

use super::Reply;
use crate::{engine::AskError, listen::NoRoom};

/// What went wrong with a request, or why it is refused.
#[derive(Debug, Serialize)]
pub struct Problem {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated: Vec<String>,
    #[serde(skip)]
    /// In a box, since most have none and every result would carry the room for it.
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

impl Problem {
    /// A problem of this status.
    pub fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { kind: None, title, status: status.as_u16(), detail, violated: Vec::new(), header: None }
    }

    /// A request that makes no sense.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "The request cannot be understood", detail)
    }

    /// More than anybody may send.
    pub fn too_large(most: usize) -> Self {
        let detail = format!("the body is larger than {most} bytes, which is the most");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "The request is too large", detail)
    }

    /// Nothing is here.
    pub fn not_found(path: &str) -> Self {
        let shown: String = path.chars().take(80).flat_map(char::escape_default).collect();
        let detail = format!("there is nothing at {shown}; /v1/openapi.json tells what there is");
        Self::new(StatusCode::NOT_FOUND, "There is nothing here", detail)
    }

    /// Another method would do.
    pub fn method(allowed: &'static str) -> Self {
        let detail = format!("use {allowed} here");
        let mut problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "The method is not known here", detail);
        problem.header = Some(Box::new((ALLOW, HeaderValue::from_static(allowed))));
        problem
    }

    /// Whoever asks should say who they are.
    pub fn unauthorized() -> Self {
        let detail = "send a token that this server knows: Authorization: Bearer …";
        let mut problem = Self::new(StatusCode::UNAUTHORIZED, "A token is needed", detail);
        problem.header = Some(Box::new((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))));
        problem
    }

    /// Whoever asks is known, and may not.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "The token is not for this", detail)
    }

    /// Over the limit.
    pub fn quota_exceeded(status: StatusCode, detail: String, violated: Vec<String>) -> Self {
        let kind = Some("https://iana.org/assignments/http-problem-types#quota-exceeded");
        Self { kind, violated, ..Self::new(status, "The request is over a limit", detail) }
    }

    /// The store cannot be asked, and the rules say to refuse then.
    pub fn no_decision(status: StatusCode) -> Self {
        let kind = Some("https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
        let detail = "the store cannot decide at the moment; ask again soon";
        let header = Some(Box::new((RETRY_AFTER, HeaderValue::from_static("1"))));
        Self { kind, header, ..Self::new(status, "There is no decision", detail) }
    }

    /// The connection holds too much for a longer body.
    pub(crate) fn no_room(detail: &NoRoom) -> Self {
        let header = Some(Box::new((RETRY_AFTER, HeaderValue::from_static("1"))));
        Self { header, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "There is no room", detail.to_string()) }
    }

    /// As a response.
    pub(crate) fn reply(self) -> Reply {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut reply = Response::new(Full::new(Bytes::from(body)));
        *reply.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        reply.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
        if let Some((name, value)) = self.header.map(|header| *header) {
            reply.headers_mut().insert(name, value);
        }
        reply
    }

    pub(crate) fn status(&self) -> u16 {
        self.status
    }
}

impl From<AskError> for Problem {
    fn from(error: AskError) -> Self {
        if error.is_callers_fault() {
            return Self::bad_request(error.to_string());
        }
        // The store's address is nobody's business on the data port; the log has it. An outage is told there once, as
        // it begins; a line for each call it concerns would drown that.
        tracing::debug!(%error, "the store could not decide");
        Self::no_decision(StatusCode::SERVICE_UNAVAILABLE)
    }
}

/// The media type of RFC 9457.
pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
