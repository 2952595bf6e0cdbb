//! Configuration of `/v1/auth`: where the descriptor of a proxied request comes from.

use std::str::FromStr;

use hyper::{StatusCode, header::HeaderName};
use ratekeeper_http::ClientAddress;

use crate::security::RequiredSecret;

/// Settings of `/v1/auth`, and defaults for parameters that the proxy's query omits.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// The domain, if the proxy names none.
    pub domain: Option<String>,
    /// The entries of the descriptor, if the proxy names none. Empty: the client's address is the key.
    pub entries: Vec<(String, EntrySource)>,
    /// Where the client's address is found.
    pub address: ClientAddress,
    /// The status of a denial, if the proxy names none. `None`: 429, and 503 while the store cannot decide.
    pub deny_status: Option<u16>,
    /// The secret that a proxy has to send in `X-Ratekeeper-Secret`, if one is required.
    pub secret: RequiredSecret,
}

/// Where the value of a descriptor entry comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EntrySource {
    /// The client's address, folded: IPv6 by its /64.
    Address,
    /// A header of the original request.
    Header(HeaderName),
    /// The path of the original request without its query, from this header or one of the usual ones.
    Path(Option<HeaderName>),
    /// The original method, likewise.
    Method(Option<HeaderName>),
    /// The original host, likewise.
    Host(Option<HeaderName>),
    /// A constant.
    Value(String),
}

impl FromStr for EntrySource {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let header = |name: &str| HeaderName::from_str(name).map_err(|_| format!("\"{name}\" is no name of a header"));
        let named = |name: &str| if name.is_empty() { Ok(None) } else { header(name).map(Some) };
        match word.split_once(':').unwrap_or((word, "")) {
            ("address", "") => Ok(Self::Address),
            ("path", name) => Ok(Self::Path(named(name)?)),
            ("method", name) => Ok(Self::Method(named(name)?)),
            ("host", name) => Ok(Self::Host(named(name)?)),
            ("header", name) => Ok(Self::Header(header(name)?)),
            ("value", value) if !value.is_empty() => Ok(Self::Value(value.to_owned())),
            _ => Err(format!(
                "\"{word}\" is no source; use address, header:NAME, path, method, host (each also with the name of the \
                 header it is in, such as path:x-original-uri) or value:TEXT"
            )),
        }
    }
}

/// Reads `NAME:SOURCE`, such as `user:header:x-api-key`.
pub fn parse_entry(word: &str) -> Result<(String, EntrySource), String> {
    match word.split_once(':') {
        Some((name, source)) if !name.is_empty() => Ok((name.to_owned(), source.parse()?)),
        _ => Err(format!("\"{word}\" is no entry; use NAME:SOURCE, such as user:header:x-api-key")),
    }
}

impl Default for AuthConfig {
    fn default() -> Self {
        // The caller is a proxy: its own entry in the forwarding header is the only trusted one.
        Self {
            domain: None,
            entries: Vec::new(),
            address: ClientAddress::behind(1),
            deny_status: None,
            secret: RequiredSecret::default(),
        }
    }
}

/// A status that proxies treat as a denial.
pub fn deny_status(status: u16) -> Option<StatusCode> {
    [401, 403, 429, 503].contains(&status).then(|| StatusCode::from_u16(status).ok()).flatten()
}
