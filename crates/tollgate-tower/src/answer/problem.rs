//! A refusal as `application/problem+json` (RFC 9457).

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use super::Refused;

/// What went wrong, for programs and people.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// The problem type, a URI; `about:blank` says no more than the status.
    pub kind: &'static str,
    /// The same for every problem of this type.
    pub title: &'static str,
    /// About this one.
    pub detail: String,
    /// Names of the rules that refused.
    pub violated: Vec<String>,
}

impl Problem {
    /// The problem with a refused request.
    pub fn of(refused: &Refused<'_>) -> Self {
        let status = refused.status();
        let (kind, title) = match status {
            StatusCode::TOO_MANY_REQUESTS => (QUOTA_EXCEEDED, "Quota exceeded"),
            StatusCode::SERVICE_UNAVAILABLE => (REDUCED_CAPACITY, "Temporarily reduced capacity"),
            _ => ("about:blank", "Bad Request"),
        };
        let violated = refused.violated().into_iter().map(str::to_owned).collect();
        Self { status, kind, title, detail: refused.detail(), violated }
    }

    /// The JSON text.
    pub fn to_json(&self) -> String {
        let mut json = String::with_capacity(256);
        json.push_str(r#"{"type":"#);
        push_string(&mut json, self.kind);
        json.push_str(r#","title":"#);
        push_string(&mut json, self.title);
        json.push_str(r#","status":"#);
        json.push_str(self.status.as_str());
        json.push_str(r#","detail":"#);
        push_string(&mut json, &self.detail);
        if !self.violated.is_empty() {
            json.push_str(r#","violated-policies":["#);
            for (index, name) in self.violated.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                push_string(&mut json, name);
            }
            json.push(']');
        }
        json.push('}');
        json
    }

    /// The whole answer.
    pub fn answer(&self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.to_json()));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

fn push_string(json: &mut String, text: &str) {
    json.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            control if control < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(control))),
            letter => json.push(letter),
        }
    }
    json.push('"');
}

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_valid_json() {
        let detail = "quote \" backslash \\ newline \n bell \u{7} ünï 🚦";
        let problem = Problem {
            status: StatusCode::TOO_MANY_REQUESTS,
            kind: QUOTA_EXCEEDED,
            title: "Quota exceeded",
            detail: detail.to_owned(),
            violated: vec!["a\"b".to_owned(), "c".to_owned()],
        };
        let json: serde_json::Value = serde_json::from_str(&problem.to_json()).unwrap();
        assert_eq!(json["detail"], detail);
        assert_eq!(json["status"], 429);
        assert_eq!(json["violated-policies"], serde_json::json!(["a\"b", "c"]));
    }
}
