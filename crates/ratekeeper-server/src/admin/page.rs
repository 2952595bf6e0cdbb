//! Dashboard: static files of the admin page, compiled into the program.
//!
//! The files hold no state of the server and need no token. The page fetches `/api/state`, which requires the token.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Response,
    header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};

use crate::http::HttpResponse;

/// The file at this path, if it is one of the dashboard.
pub(super) fn part(path: &str) -> Option<HttpResponse> {
    let (_, kind, text) = PARTS.iter().find(|(known, ..)| *known == path)?;
    let mut reply = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SELF_ONLY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Revalidate: another version of the server may serve other files.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Some(reply)
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

const PARTS: [(&str, &str, &str); 8] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/page/main.js", SCRIPT, include_str!("page/main.js")),
    ("/page/chart.js", SCRIPT, include_str!("page/chart.js")),
    ("/page/live.js", SCRIPT, include_str!("page/live.js")),
    ("/page/talk.js", SCRIPT, include_str!("page/talk.js")),
    ("/page/view.js", SCRIPT, include_str!("page/view.js")),
    ("/page/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// Content security policy: only files of this server. Inline scripts and styles are forbidden, so that a key shown on
/// the page cannot inject code.
const SELF_ONLY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                   frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
