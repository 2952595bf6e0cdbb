//! Host and port of a server.

use std::{fmt, net::Ipv6Addr, sync::Arc};

/// The network address of one server. Cheap to clone: it is the key of several tables.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HostPort {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: Arc<str>,
    /// The TCP port.
    pub port: u16,
}

impl HostPort {
    /// This host and port.
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Reported in errors if no address is known.
    pub(crate) fn unknown() -> Self {
        Self::new("unknown", 0)
    }

    /// Reads `host`, `host:port`, `[::1]` or `[::1]:port`.
    pub(crate) fn parse(text: &str, default_port: u16) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']')?;
                host.parse::<Ipv6Addr>().ok()?;
                (host, after)
            }
            None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => digits.parse().ok().filter(|port| *port != 0)?,
            None if port.is_empty() => default_port,
            None => return None,
        };
        is_host(host).then(|| Self::new(host, port))
    }

    /// Reads the address of a node as cluster nodes write it: `host:port`, IPv6 without brackets. An empty host means the
    /// host of the `sender`.
    pub fn from_redirect(text: &str, sender: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        match host.trim_start_matches('[').trim_end_matches(']') {
            "" => Some(Self { host: sender.host.clone(), port }),
            host => is_host(host).then(|| Self::new(host, port)),
        }
    }
}

/// Names are checked by the resolver; here only characters are refused that would make a message ambiguous.
fn is_host(host: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "@/?#[]\"".contains(c);
    !host.is_empty() && host.len() <= LONGEST_NAME && !host.chars().any(odd)
}

/// The limit of DNS.
const LONGEST_NAME: usize = 253;

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}
