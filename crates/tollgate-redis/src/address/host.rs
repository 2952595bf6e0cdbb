//! A host and a port: the name under which a server is known.

use std::{fmt, net::Ipv6Addr, sync::Arc};

/// One server's place. Cheap to clone; it is the key of many a table.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct HostPort {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub(crate) host: Arc<str>,
    /// The TCP port.
    pub(crate) port: u16,
}

impl HostPort {
    pub(crate) fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
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

    /// Reads what a cluster says of a node, `host:port`. IPv6 comes without brackets there, and no host at all means the
    /// host of whoever says so.
    pub(crate) fn from_redirect(text: &str, teller: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        match host.trim_start_matches('[').trim_end_matches(']') {
            "" => Some(Self { host: teller.host.clone(), port }),
            host => is_host(host).then(|| Self::new(host, port)),
        }
    }
}

/// Names are left to the resolver; only what would be confusing in a message is turned away.
fn is_host(host: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "@/?#[]\"".contains(c);
    !host.is_empty() && host.len() <= LONGEST_NAME && !host.chars().any(odd)
}

/// What DNS allows.
const LONGEST_NAME: usize = 253;

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}
