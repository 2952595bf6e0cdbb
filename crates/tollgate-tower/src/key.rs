//! Who is asking: from a request to the key its limit is counted under.
//!
//! | key | from |
//! |---|---|
//! | [`ClientAddress::of_peer`] | the connection |
//! | [`ClientAddress::behind`] | `X-Forwarded-For` or `Forwarded`, by the number of trusted proxies |
//! | [`header`] | one header, such as an API key |
//! | `path_template` | the route, `/users/{id}` rather than `/users/42` (feature `axum`) |
//! | [`shared`] | one key for everybody |
//! | [`both`] | two of these together |
//! | any closure | whatever it makes of the request's head |
//!
//! A key goes into the store as it is. A secret should be hashed first, by a closure.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Once,
};

use http::{HeaderName, request::Parts};

use crate::address::ClientAddress;

/// Finds the key of a request; `None` if the request does not say.
pub trait KeyFrom: Send + Sync + 'static {
    /// The key, at most [`MAX_KEY_BYTES`](tollgate_core::bounds::MAX_KEY_BYTES) long.
    fn key(&self, request: &Parts) -> Option<String>;
}

impl<F> KeyFrom for F
where
    F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
{
    fn key(&self, request: &Parts) -> Option<String> {
        self(request)
    }
}

/// The client's address, of which an IPv6 one counts by its subnet.
impl KeyFrom for ClientAddress {
    fn key(&self, request: &Parts) -> Option<String> {
        let peer = peer(request);
        let key = ClientAddress::key(self, peer, &request.headers);
        if key.is_none() && peer.is_none() {
            report_unknown_peer();
        }
        key
    }
}

/// The server does not pass the connection's address on, so no request has a key. The client can do nothing about it and
/// is not told more than that; the operator finds the reason in the log, once per process.
#[cold]
fn report_unknown_peer() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::error!(
            "requests come without the address of their connection, so ClientAddress finds no key; with axum serve \
             `router.into_make_service_with_connect_info::<SocketAddr>()` and turn on the feature `axum` (`tonic` for \
             tonic), with hyper put a `PeerAddress` into the request's extensions (said once)"
        );
    });
}

/// Where the connection comes from, put among a request's extensions by whoever accepted it. Servers by axum
/// (`into_make_service_with_connect_info`) and tonic say so in types of their own, which are known with the features `axum`
/// and `tonic`; this one is for servers on bare hyper.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeerAddress(pub SocketAddr);

/// Where the connection comes from, if its server has told.
pub fn peer(request: &Parts) -> Option<IpAddr> {
    let extensions = &request.extensions;
    let told = extensions.get::<PeerAddress>().map(|PeerAddress(address)| *address);
    #[cfg(feature = "axum")]
    let told = told.or_else(|| {
        let axum::extract::ConnectInfo(address) = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>()?;
        Some(*address)
    });
    #[cfg(feature = "tonic")]
    let told = told
        .or_else(|| extensions.get::<tonic::transport::server::TcpConnectInfo>().and_then(|info| info.remote_addr()));
    told.map(|address| address.ip())
}

/// The value of one header. Absent, empty, not text, or there several times, it says nothing.
pub fn header(name: HeaderName) -> impl KeyFrom {
    move |request: &Parts| {
        let mut values = request.headers.get_all(&name).iter();
        let (value, None) = (values.next()?, values.next()) else { return None };
        value.to_str().ok().filter(|text| !text.is_empty()).map(str::to_owned)
    }
}

/// The template of the route that axum matched, such as `/users/{id}`. For layers inside a `Router`; a request that matched
/// no route says nothing.
#[cfg(feature = "axum")]
pub fn path_template() -> impl KeyFrom {
    |request: &Parts| request.extensions.get::<axum::extract::MatchedPath>().map(|path| path.as_str().to_owned())
}

/// One key for everybody.
pub fn shared(key: impl Into<String>) -> impl KeyFrom {
    let key = key.into();
    move |_: &Parts| Some(key.clone())
}

/// Two keys together, such as a route and an address. Told apart by length, so that no pair can pass for another.
pub fn both(first: impl KeyFrom, second: impl KeyFrom) -> impl KeyFrom {
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
    fn a_header_speaks_once_or_not_at_all() {
        let key = header(HeaderName::from_static("x-api-key"));
        assert_eq!(key.key(&parts(&[("x-api-key", "abc")])).as_deref(), Some("abc"));
        assert_eq!(key.key(&parts(&[])), None);
        assert_eq!(key.key(&parts(&[("x-api-key", "")])), None);
        assert_eq!(key.key(&parts(&[("x-api-key", "abc"), ("x-api-key", "abd")])), None);
    }

    #[test]
    fn no_pair_of_keys_passes_for_another() {
        let pair = |a: &str, b: &str| both(shared(a), shared(b)).key(&parts(&[])).unwrap();
        assert_eq!(pair("ab", "c"), "2:abc");
        assert_ne!(pair("ab", "c"), pair("a", "bc"));
        assert_eq!(both(shared("a"), header(HeaderName::from_static("x"))).key(&parts(&[])), None);
    }

    #[test]
    fn a_peer_is_known_if_somebody_told() {
        let mut request = parts(&[]);
        assert_eq!(ClientAddress::of_peer().key(peer(&request), &request.headers), None);
        request.extensions.insert(PeerAddress("[2001:db8::7]:4711".parse().unwrap()));
        assert_eq!(KeyFrom::key(&ClientAddress::of_peer(), &request).as_deref(), Some("2001:db8::/64"));
    }
}
