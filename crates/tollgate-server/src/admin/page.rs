//! The dashboard: a page and its parts, all of them from here. It knows nothing until it has asked `/api/state`, so it is
//! shown to anybody; what it asks takes the token.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Response,
    header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};

use crate::http::Reply;

/// The part of the page at this path.
pub(super) fn part(path: &str) -> Option<Reply> {
    let (_, kind, text) = PARTS.iter().find(|(known, ..)| *known == path)?;
    let mut reply = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(OWN));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // A newer server has a newer page.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Some(reply)
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

const PARTS: [(&str, &str, &str); 7] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/page/main.js", SCRIPT, include_str!("page/main.js")),
    ("/page/chart.js", SCRIPT, include_str!("page/chart.js")),
    ("/page/talk.js", SCRIPT, include_str!("page/talk.js")),
    ("/page/view.js", SCRIPT, include_str!("page/view.js")),
    ("/page/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// Files of this server and nothing else; no script and no style that stands in a page, where a user's words could be one.
const OWN: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                   frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
