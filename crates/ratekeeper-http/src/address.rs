//! The client's address behind proxies, and the key it is limited by.
//!
//! Each proxy appends the address of its peer at the right of `X-Forwarded-For`; entries further left may be forged by the
//! client. Trust is therefore a number: how many proxies of the operator a request passes. That many entries are
//! read from the right, and none beyond them.
//!
//! ```text
//! X-Forwarded-For: 6.6.6.6, 203.0.113.7, 10.0.0.2      connection from 10.0.0.1
//!                  forged   client       proxy 2        proxy 1                   2 trusted proxies
//! ```
//!
//! A key covers what one subscriber holds. An IPv4-mapped IPv6 address is its IPv4 address. An IPv6 address is
//! reduced to its /64, because a subscriber can use every address in it.

mod forwarded;

use std::{
    fmt::Write,
    net::{IpAddr, Ipv6Addr},
};

use http::{HeaderMap, HeaderName};

/// How the client's address is found, and how many of its bits form the key.
#[derive(Clone, Debug)]
pub struct ClientAddress {
    proxies: usize,
    header: HeaderName,
    ipv6_prefix: u8,
}

impl ClientAddress {
    /// The peer address of the connection. Header fields are ignored.
    pub fn of_peer() -> Self {
        Self { proxies: 0, header: X_FORWARDED_FOR, ipv6_prefix: DEFAULT_IPV6_PREFIX }
    }

    /// The address in `X-Forwarded-For` behind this many trusted proxies, at most 32.
    pub fn behind(proxies: usize) -> Self {
        Self { proxies: proxies.min(MAX_PROXIES), ..Self::of_peer() }
    }

    /// Reads this header field instead: `Forwarded` as in RFC 7239, any other one as a list of addresses. It must be one
    /// that the proxies set; one that they pass on unchanged is under the client's control.
    #[must_use]
    pub fn header(mut self, header: HeaderName) -> Self {
        self.header = header;
        self
    }

    /// How many bits of an IPv6 address form the key: 64 by default, at most 128.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_prefix = bits.min(128);
        self
    }

    /// The client's full address. If an entry is missing or not an address, the result is the last address that a trusted
    /// proxy reported, so a truncated list yields a proxy and never a forged client.
    pub fn find(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        let mut found = peer.map(|address| address.to_canonical());
        let mut proxies = self.proxies;
        if proxies == 0 {
            return found;
        }
        // Later lines and later entries were appended by nearer proxies.
        for value in headers.get_all(&self.header).iter().rev() {
            let mut rest = value.as_bytes();
            while proxies > 0 {
                let (entry, before) = forwarded::last_entry(rest, self.is_rfc7239());
                let node = if self.is_rfc7239() { forwarded::for_node(entry) } else { Some(entry) };
                let Some(address) = node.and_then(forwarded::node_address) else { return found };
                found = Some(address.to_canonical());
                proxies -= 1;
                let Some(before) = before else { break };
                rest = before;
            }
        }
        found
    }

    /// The client's address as a key: `192.0.2.1`, `2001:db8:0:1::/64`.
    pub fn key(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<String> {
        self.find(peer, headers).map(|address| self.key_of(address))
    }

    /// An address as a key.
    pub fn key_of(&self, address: IpAddr) -> String {
        let mut key = String::new();
        // Writing to a string cannot fail.
        let _ = match address.to_canonical() {
            IpAddr::V4(address) => write!(key, "{address}"),
            IpAddr::V6(address) if self.ipv6_prefix == 128 => write!(key, "{address}"),
            IpAddr::V6(address) => write!(key, "{}/{}", network(address, self.ipv6_prefix), self.ipv6_prefix),
        };
        key
    }

    fn is_rfc7239(&self) -> bool {
        self.header == http::header::FORWARDED
    }
}

impl Default for ClientAddress {
    fn default() -> Self {
        Self::of_peer()
    }
}

fn network(address: Ipv6Addr, prefix: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    Ipv6Addr::from_bits(address.to_bits() & mask)
}

/// The header field most proxies set.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The usual prefix delegated to a subscriber.
const DEFAULT_IPV6_PREFIX: u8 = 64;

/// Bounds the work per request, whatever number of proxies is configured.
const MAX_PROXIES: usize = 32;

#[cfg(test)]
mod tests;
