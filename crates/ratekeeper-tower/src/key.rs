//! Key extractors: from a request to the key it is limited by.
//!
//! | key | from |
//! |---|---|
//! | [`ClientAddress::of_peer`] | the connection |
//! | [`ClientAddress::behind`] | `X-Forwarded-For` or `Forwarded`, by the number of trusted proxies |
//! | [`header`] | one header, such as an API key |
//! | `path_template` | the route, `/users/{id}` rather than `/users/42` (feature `axum`) |
//! | [`shared`] | one key for all requests |
//! | [`both`] | two of these together |
//! | any closure | the request's head |
//!
//! Keys are stored unchanged. Hash secrets first, in a closure.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Once,
};

use http::{HeaderName, request::Parts};

use ratekeeper_http::ClientAddress;

/// Extracts the key of a request; `None` if it has none.
pub trait KeyExtractor: Send + Sync + 'static {
    /// The key, at most [`MAX_KEY_BYTES`](ratekeeper_core::bounds::MAX_KEY_BYTES) long.
    fn key(&self, request: &Parts) -> Option<String>;
}

impl<F> KeyExtractor for F
where
    F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
{
    fn key(&self, request: &Parts) -> Option<String> {
        self(request)
    }
}

/// The client's address; IPv6 by subnet.
impl KeyExtractor for ClientAddress {
    fn key(&self, request: &Parts) -> Option<String> {
        let peer = peer(request);
        let key = ClientAddress::key(self, peer, &request.headers);
        if key.is_none() && peer.is_none() {
            report_unknown_peer();
        }
        key
    }
}

/// Logs, once per process, that the server does not provide the connection's address, so that no request has a key. The
/// response does not mention it, because the client cannot change it.
#[cold]
fn report_unknown_peer() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::error!(
            "requests come without the address of their connection, so ClientAddress finds no key; with axum serve \
             `router.into_make_service_with_connect_info::<SocketAddr>()` and turn on the feature `axum` (`tonic` for \
             tonic), with hyper put a `PeerAddress` into the request's extensions (logged once)"
        );
    });
}

/// The peer address of the connection, as an extension of the request. For servers on bare hyper; axum
/// (`into_make_service_with_connect_info`) and tonic have other types for it, supported with the features `axum` and
/// `tonic`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeerAddress(pub SocketAddr);

/// The peer address of the connection, if the server provides it.
pub fn peer(request: &Parts) -> Option<IpAddr> {
    let extensions = &request.extensions;
    let peer = extensions.get::<PeerAddress>().map(|PeerAddress(address)| *address);
    #[cfg(feature = "axum")]
    let peer = peer.or_else(|| {
        let axum::extract::ConnectInfo(address) = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>()?;
        Some(*address)
    });
    #[cfg(feature = "tonic")]
    let peer = peer
        .or_else(|| extensions.get::<tonic::transport::server::TcpConnectInfo>().and_then(|info| info.remote_addr()));
    peer.map(|address| address.ip())
}

/// The value of one header field. There is no key if it is absent, empty, not text, or repeated.
pub fn header(name: HeaderName) -> impl KeyExtractor {
    move |request: &Parts| {
        let mut values = request.headers.get_all(&name).iter();
        let (value, None) = (values.next()?, values.next()) else { return None };
        value.to_str().ok().filter(|text| !text.is_empty()).map(str::to_owned)
    }
}

/// The template of the route that axum matched, such as `/users/{id}`. For layers inside a `Router`; without a match there is
/// no key.
#[cfg(feature = "axum")]
pub fn path_template() -> impl KeyExtractor {
    |request: &Parts| request.extensions.get::<axum::extract::MatchedPath>().map(|path| path.as_str().to_owned())
}

/// One key for all requests.
pub fn shared(key: impl Into<String>) -> impl KeyExtractor {
    let key = key.into();
    move |_: &Parts| Some(key.clone())
}

/// Two keys combined, such as a route and an address. Prefixed by a length, so that different pairs never collide.
pub fn both(first: impl KeyExtractor, second: impl KeyExtractor) -> impl KeyExtractor {
    move |request: &Parts| {
        let (first, second) = (first.key(request)?, second.key(request)?);
        Some(format!("{}:{first}{second}", first.len()))
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_header_field_is_a_key_if_it_occurs_once() {
        let key = header(HeaderName::from_static("x-api-key"));
        assert_eq!(key.key(&parts(&[("x-api-key", "abc")])).as_deref(), Some("abc"));
        assert_eq!(key.key(&parts(&[])), None);
        assert_eq!(key.key(&parts(&[("x-api-key", "")])), None);
        assert_eq!(key.key(&parts(&[("x-api-key", "abc"), ("x-api-key", "abd")])), None);
    }

    #[test]
    fn pairs_of_keys_do_not_collide() {
        let pair = |a: &str, b: &str| both(shared(a), shared(b)).key(&parts(&[])).unwrap();
        assert_eq!(pair("ab", "c"), "2:abc");
        assert_ne!(pair("ab", "c"), pair("a", "bc"));
        assert_eq!(both(shared("a"), header(HeaderName::from_static("x"))).key(&parts(&[])), None);
    }

    #[test]
    fn the_peer_address_is_an_extension_of_the_request() {
        let mut request = parts(&[]);
        assert_eq!(ClientAddress::of_peer().key(peer(&request), &request.headers), None);
        request.extensions.insert(PeerAddress("[2001:db8::7]:4711".parse().unwrap()));
        assert_eq!(KeyExtractor::key(&ClientAddress::of_peer(), &request).as_deref(), Some("2001:db8::/64"));
    }
}
