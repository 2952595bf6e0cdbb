//! Who is asking, when proxies stand in between.
//!
//! Each proxy adds the address it was called from to the right of a header, and anybody may have written anything to
//! the left. So trust is a number: how many proxies of one's own a request passes. That many hops are walked back from
//! the connection itself, and nothing further left is ever believed.
//!
//! ```text
//! X-Forwarded-For: 6.6.6.6, 203.0.113.7, 10.0.0.2      connection from 10.0.0.1
//!                  made up  client       proxy 2        proxy 1                   trusting 2 hops
//! ```
//!
//! Then addresses are folded into what one subscriber holds: an IPv4 address dressed up as IPv6 is the IPv4 address it is,
//! and an IPv6 address stands for its /64, since whoever has one address there has all of them.

mod forwarded;

use std::{
    fmt::Write,
    net::{IpAddr, Ipv6Addr},
};

use http::{HeaderMap, HeaderName};

/// How the client's address is found, and how much of it counts.
#[derive(Clone, Debug)]
pub struct ClientAddress {
    hops: usize,
    header: HeaderName,
    ipv6_prefix: u8,
}

impl ClientAddress {
    /// The address the connection comes from. Headers are not looked at.
    pub fn of_peer() -> Self {
        Self { hops: 0, header: X_FORWARDED_FOR, ipv6_prefix: DEFAULT_IPV6_PREFIX }
    }

    /// The address `X-Forwarded-For` tells, with this many proxies of one's own in front; 32 at most are walked.
    pub fn behind(proxies: usize) -> Self {
        Self { hops: proxies.min(MAX_HOPS), ..Self::of_peer() }
    }

    /// Reads this header instead: `Forwarded` in the form of RFC 7239, any other as a list of addresses. Name the one
    /// that the proxies write; one they pass on untouched says whatever the client likes.
    #[must_use]
    pub fn header(mut self, header: HeaderName) -> Self {
        self.header = header;
        self
    }

    /// How many bits of an IPv6 address count: 64 unless said, 128 at most.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_prefix = bits.min(128);
        self
    }

    /// The client's address, whole. Where a hop's entry is missing or unreadable, the last address that a trusted proxy
    /// vouched for: a chain cut short never makes a stranger of somebody known.
    pub fn find(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        let peer = peer.map(|address| address.to_canonical());
        if self.hops == 0 {
            return peer;
        }
        let mut found = peer;
        let mut hops = self.hops;
        // Later lines and later entries are nearer to us.
        for value in headers.get_all(&self.header).iter().rev() {
            let mut rest = value.as_bytes();
            while hops > 0 {
                let (entry, before) = forwarded::last_entry(rest, self.is_rfc7239());
                let node = if self.is_rfc7239() { forwarded::node_of(entry) } else { Some(entry) };
                let Some(address) = node.and_then(forwarded::address) else { return found };
                found = Some(address.to_canonical());
                hops -= 1;
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

/// The header most proxies write.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What a subscriber is usually given.
const DEFAULT_IPV6_PREFIX: u8 = 64;

/// The most entries walked, however many proxies are claimed: the work per request has a bound.
const MAX_HOPS: usize = 32;

#[cfg(test)]
#[path = "address/tests.rs"]
mod tests;
