//! Parser of `X-Forwarded-For` and `Forwarded` (RFC 7239), from right to left.
//!
//! A trusted proxy wrote the right end, so it is well-formed; the left may be forged. Parsing from the right, an open
//! quote or a stray comma in the forged part cannot hide what the proxy wrote.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The last entry of a comma-separated list, and the part before its comma. Commas inside quotes do not separate if
/// `quotes` is set.
pub(super) fn last_entry(list: &[u8], quotes: bool) -> (&[u8], Option<&[u8]>) {
    let mut quoted = false;
    for (index, byte) in list.iter().enumerate().rev() {
        match byte {
            b'"' if quotes => quoted = !quoted,
            b',' if !quoted => return (list[index + 1..].trim_ascii(), Some(&list[..index])),
            _ => {}
        }
    }
    (list.trim_ascii(), None)
}

/// The `for` parameter of a `Forwarded` element; `None` if it is missing or occurs twice.
pub(super) fn for_node(element: &[u8]) -> Option<&[u8]> {
    let pairs = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let mut nodes = pairs.filter_map(|pair| {
        let (name, value) = pair.split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"for=").then_some(value)
    });
    let node = nodes.next()?;
    if nodes.next().is_some() {
        return None;
    }
    match node {
        [b'"', inner @ .., b'"'] => Some(inner),
        plain => Some(plain),
    }
}

/// The address of a node: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`. An obfuscated or
/// unknown node has none.
pub(super) fn node_address(node: &[u8]) -> Option<IpAddr> {
    // The longest form: a bracketed IPv6 address with a mapped IPv4 tail and a port.
    const MAX_BYTES: usize = 53;
    let text = std::str::from_utf8(node).ok().filter(|text| text.len() <= MAX_BYTES)?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    text.parse::<SocketAddr>().ok().map(|address| address.ip())
}
