//! HTTP/1 heads that are refused although hyper reads them: no Host, several, one that is none, or bare line feeds.
//!
//! Proxies disagree about each of these, so that a request may mean one thing to them and another here (RFC 9112, sections 2.2 and 3.2). The
//! answer is 400, and on HTTP/1 the connection ends with it.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, Version,
    header::{CONNECTION, HOST, HeaderValue},
    http::uri::Authority,
};

use crate::http::Problem;

/// What is wrong with a head, if anything is.
pub(super) fn fault<B>(request: &Request<B>, has_bare_lf: bool) -> Option<&'static str> {
    if has_bare_lf {
        return Some("a line of the head ends with a bare line feed; end every line with CR LF");
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => Some("there are several Host fields; send one"),
        (None, _) if request.version() == Version::HTTP_11 => Some("there is no Host field; HTTP/1.1 needs one"),
        (Some(host), None) if !is_host(host) => Some("the Host field is no host with an optional port"),
        _ => None,
    }
}

/// The field may be empty, where the target of the request has no authority.
fn is_host(host: &HeaderValue) -> bool {
    let host = host.as_bytes();
    host.is_empty() || (Authority::try_from(host).is_ok() && !host.contains(&b'@'))
}

/// The answer to it.
pub(super) fn answer(version: Version, fault: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Problem::bad_request(fault).reply();
    if version <= Version::HTTP_11 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}
