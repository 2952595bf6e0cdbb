//! Parsers of argument values that several commands have. Each error has a remedy.

use std::net::SocketAddr;

/// Parses a whole number.
pub(crate) fn whole(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| "write a whole number in digits, 0 or more".to_owned())
}

/// Parses a prefix of key names.
pub(crate) fn prefix(word: &str) -> Result<String, String> {
    if word.is_empty() {
        return Err("empty, so keys would have no name before the colon; use a name such as ratekeeper".to_owned());
    }
    Ok(word.to_owned())
}

/// A listen address, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenAddress(pub(crate) Option<SocketAddr>);

/// Parses an address, a port on 127.0.0.1, or `off`.
pub(crate) fn listen_address(word: &str) -> Result<ListenAddress, String> {
    if word == "off" {
        return Ok(ListenAddress(None));
    }
    if let Ok(port) = word.parse::<u16>() {
        return Ok(ListenAddress(Some(SocketAddr::from(([127, 0, 0, 1], port)))));
    }
    let address = word.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = address.as_deref().unwrap_or(word).parse();
    address.map(|address| ListenAddress(Some(address))).map_err(|_| {
        "use an address such as 127.0.0.1:8080 or [::]:8080, a port on 127.0.0.1 such as 8080, or off".to_owned()
    })
}

/// The id of a request, within its bound.
pub(crate) fn request_id(text: &str) -> Result<String, String> {
    ratekeeper_core::RequestId::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}
