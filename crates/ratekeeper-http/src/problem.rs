//! Errors as `application/problem+json` (RFC 9457).
//!
//! Two problem types are those of draft-ietf-httpapi-ratelimit-headers-11: a request over its limit and a service without a
//! decision. All others have no `type`, which the RFC reads as `about:blank`: the status says what kind of error it is.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use crate::json::{push, push_field, push_string};

/// An error response: a status, a title per kind of error, and a detail about this one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProblemDetails {
    status: StatusCode,
    kind: Option<&'static str>,
    title: &'static str,
    detail: String,
    violated: Vec<String>,
    /// Boxed, because few problems have one and every `Result<_, ProblemDetails>` would reserve the space.
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

impl ProblemDetails {
    /// A problem without a type. The title is the same for all problems of its kind.
    pub fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, kind: None, title, detail: detail.into(), violated: Vec::new(), header: None }
    }

    /// 400: the request is malformed, incomplete or contradicts itself.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Bad Request", detail)
    }

    /// 429: the request is over its limit.
    pub fn quota_exceeded(detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "Quota exceeded", detail);
        Self { kind: Some(QUOTA_EXCEEDED), ..problem }
    }

    /// 503: there is no decision, or a rule fails closed without its store.
    pub fn reduced_capacity(detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "Temporarily reduced capacity", detail);
        Self { kind: Some(REDUCED_CAPACITY), ..problem }
    }

    /// Replaces the status, for peers that expect another one: nginx's `auth_request` passes on 403 only.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Names the rules that refuse the request, as `violated-policies`.
    #[must_use]
    pub fn with_violated<N: Into<String>>(mut self, rules: impl IntoIterator<Item = N>) -> Self {
        self.violated = rules.into_iter().map(Into::into).collect();
        self
    }

    /// Sets a header field of the response, such as `Allow`. A second call replaces the first.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some(Box::new((name, value)));
        self
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The title, the same for all problems of this kind.
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// What was found, and the remedy.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The body.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(256);
        json.push(b'{');
        if let Some(kind) = self.kind {
            push(&mut json, b"\"type\":");
            push_string(&mut json, kind);
            json.push(b',');
        }
        push(&mut json, b"\"title\":");
        push_string(&mut json, self.title);
        push_field(&mut json, b",\"status\":", self.status.as_u16().into());
        push(&mut json, b",\"detail\":");
        push_string(&mut json, &self.detail);
        if !self.violated.is_empty() {
            push(&mut json, b",\"violated-policies\":[");
            for (index, name) in self.violated.iter().enumerate() {
                if index > 0 {
                    json.push(b',');
                }
                push_string(&mut json, name);
            }
            json.push(b']');
        }
        json.push(b'}');
        json
    }

    /// The response.
    pub fn into_response(self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.to_json()));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
        if let Some((name, value)) = self.header.map(|header| *header) {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// The media type of RFC 9457.
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

#[cfg(test)]
mod tests {
    use http::header::RETRY_AFTER;
    use serde_json::{Value, json};

    use super::*;

    fn body(problem: &ProblemDetails) -> Value {
        serde_json::from_slice(&problem.to_json()).unwrap()
    }

    #[test]
    fn any_text_is_valid_json() {
        let detail = "quote \" backslash \\ newline \n bell \u{7} ünï 🚦";
        let problem = ProblemDetails::quota_exceeded(detail).with_violated(["a\"b", "c"]);
        let expected = json!({
            "type": QUOTA_EXCEEDED, "title": "Quota exceeded", "status": 429, "detail": detail,
            "violated-policies": ["a\"b", "c"],
        });
        assert_eq!(body(&problem), expected);
    }

    #[test]
    fn a_problem_without_a_type_leaves_it_out() {
        let expected = json!({ "title": "Bad Request", "status": 400, "detail": "no key" });
        assert_eq!(body(&ProblemDetails::bad_request("no key")), expected);
    }

    #[test]
    fn the_response_has_status_media_type_and_header() {
        let problem =
            ProblemDetails::reduced_capacity("try later").with_header(RETRY_AFTER, HeaderValue::from_static("1"));
        let response = problem.with_status(StatusCode::FORBIDDEN).into_response();
        assert_eq!(response.status(), 403);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(serde_json::from_slice::<Value>(response.body()).unwrap()["status"], 403);
    }
}
