//! Reading `X-Forwarded-For` and `Forwarded`, from the right.
//!
//! The right end was written by a proxy we trust, so it is well-formed; the left may be anybody's. Reading from the right,
//! an unfinished quote or a stray comma further left cannot swallow what the proxy wrote.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The last entry of a comma-separated list, and what stands before its comma.
pub(super) fn last_entry(list: &[u8], quotes: bool) -> (&[u8], Option<&[u8]>) {
    let mut quoted = false;
    for (place, byte) in list.iter().enumerate().rev() {
        match byte {
            b'"' if quotes => quoted = !quoted,
            b',' if !quoted => return (list[place + 1..].trim_ascii(), Some(&list[..place])),
            _ => {}
        }
    }
    (list.trim_ascii(), None)
}

/// The node that a `Forwarded` element says it is `for`.
pub(super) fn node_of(element: &[u8]) -> Option<&[u8]> {
    let pairs = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let mut nodes = pairs.filter_map(|pair| {
        let (name, value) = pair.split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"for=").then_some(value)
    });
    let node = nodes.next()?;
    // Two answers are none.
    if nodes.next().is_some() {
        return None;
    }
    match node {
        [b'"', inner @ .., b'"'] => Some(inner),
        plain => Some(plain),
    }
}

/// The address of a node: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`. A hidden or unknown
/// one has none.
pub(super) fn address(node: &[u8]) -> Option<IpAddr> {
    // The longest form there is: a bracketed IPv6 address with a mapped IPv4 tail and a port.
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
