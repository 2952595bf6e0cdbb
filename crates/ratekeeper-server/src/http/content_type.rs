//! Content types of requests that change state: those that an HTML form can send are refused.
//!
//! A page can make a browser send a form to another site without a preflight, so a form's content type must not carry
//! JSON. Part of the [browser guard](super::guard).

use hyper::{HeaderMap, StatusCode, header::CONTENT_TYPE};

use super::Problem;

/// Refuses the content types of an HTML form whose body could be JSON.
pub(crate) fn refuse_forms(headers: &HeaderMap) -> Result<(), Problem> {
    match media_type(headers) {
        Some(kind) if kind.eq_ignore_ascii_case("text/plain") || kind.eq_ignore_ascii_case("multipart/form-data") => {
            Err(only_json())
        }
        _ => Ok(()),
    }
}

/// Refuses all content types but JSON, which a page cannot send to another site without a preflight.
pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let is_json = media_type(headers).is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    if is_json { Ok(()) } else { Err(only_json()) }
}

/// The media type without its parameters; empty if it is unreadable.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(kind.split(';').next().unwrap_or_default().trim())
}

fn only_json() -> Problem {
    let detail = "send JSON with its content type: Content-Type: application/json";
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Only JSON is accepted", detail)
}
