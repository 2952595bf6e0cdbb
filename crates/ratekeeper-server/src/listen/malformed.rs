//! Malformed HTTP/1 requests that hyper accepts: no Host field, several, an invalid one, or bare line feeds.
//!
//! Proxies disagree about each of these, so a proxy and this server could interpret one request differently (RFC 9112,
//! sections 2.2 and 3.2). The response is 400, and on HTTP/1 the connection is closed.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, Version,
    header::{CONNECTION, HOST, HeaderValue},
    http::uri::Authority,
};

use ratekeeper_http::ProblemDetails;

/// What is wrong with a request, if anything.
pub(super) fn fault<B>(request: &Request<B>, has_bare_lf: bool) -> Option<&'static str> {
    if has_bare_lf {
        return Some("a line of the header block ends with a bare line feed; end every line with CR LF");
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => Some("there are several Host fields; send one"),
        (None, _) if request.version() == Version::HTTP_11 => Some("there is no Host field; HTTP/1.1 needs one"),
        (Some(host), None) if !is_host(host) => Some("the Host field is no host with an optional port"),
        _ => None,
    }
}

/// An empty field is valid: the request target may have no authority.
fn is_host(host: &HeaderValue) -> bool {
    let host = host.as_bytes();
    host.is_empty() || (Authority::try_from(host).is_ok() && !host.contains(&b'@'))
}

/// The response to a malformed request.
pub(super) fn response(version: Version, fault: &'static str) -> Response<Full<Bytes>> {
    let mut response = ProblemDetails::bad_request(fault).into_response().map(Full::new);
    if version <= Version::HTTP_11 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
