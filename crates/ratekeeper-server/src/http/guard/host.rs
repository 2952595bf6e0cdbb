//! Host check: the host names that a port accepts.

use std::net::IpAddr;

use hyper::{
    StatusCode,
    header::HOST,
    http::{request::Parts, uri::Authority},
};

use super::{Guard, Hosts, SHOWN_CHARS};
use crate::{http::Problem, lossy_text::Escaped};

impl Guard {
    /// Refuses a host name that this port does not accept. HTTP/2 has the name in `:authority`, HTTP/1 in `Host` or in
    /// the target; each of them is checked.
    pub(crate) fn check_host(&self, head: &Parts) -> Result<(), Problem> {
        if self.hosts == Hosts::Any {
            return Ok(());
        }
        match authorities(head).find(|authority| !self.is_known(host_of(authority))) {
            None => Ok(()),
            Some(unknown) => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "The host name is not allowed",
                format!(
                    "this port does not answer to the host name \"{}\"; use localhost or an address of this machine, or add the name \
                     to --allowed-hosts",
                    Escaped(host_of(unknown)).first(SHOWN_CHARS)
                ),
            )),
        }
    }

    fn is_known(&self, name: &str) -> bool {
        if name.eq_ignore_ascii_case("localhost") || self.allowed.contains(name) {
            return true;
        }
        let Ok(address) = name.parse::<IpAddr>().map(|address| address.to_canonical()) else { return false };
        match self.hosts {
            Hosts::Any | Hosts::Addresses => true,
            Hosts::Loopback(bound) => address.is_loopback() || address == bound,
        }
    }
}

/// Every authority that a request names.
pub(super) fn authorities(head: &Parts) -> impl Iterator<Item = &str> {
    let named = head.headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or("?"));
    named.chain(head.uri.authority().map(Authority::as_str))
}

/// An authority without its port, an IPv6 address without its brackets.
pub(super) fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(name, _)| name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{guard, head};

    /// The accepted hosts of a port depend on its bound address and the allowed names.
    #[test]
    fn hosts_are_known_by_the_bound_address_and_the_allowed_names() {
        for (bound, allowed, known, unknown) in [
            (
                "127.0.0.1:80",
                &[][..],
                &["localhost", "LOCALHOST:80", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "[::ffff:127.0.0.1]"][..],
                &[
                    "evil.example",
                    "evil.example:80",
                    "localhost.evil.example",
                    "127.0.0.1.evil.example",
                    "10.0.0.1",
                    "",
                    "?",
                ][..],
            ),
            ("[::1]:80", &[], &["[::1]", "localhost"], &["evil.example", "[::2]", "[", "]"]),
            ("127.0.0.1:80", &["ratekeeper"], &["ratekeeper:8080", "Ratekeeper", "localhost"], &["evil.example"]),
            ("127.0.0.1:80", &["*"], &["evil.example", ""], &[]),
            ("0.0.0.0:80", &[], &["evil.example"], &[]),
            (
                "0.0.0.0:80",
                &["limits.internal"],
                &["limits.internal", "10.0.0.1:80", "[fe80::1]", "localhost"],
                &["evil.example"],
            ),
            ("10.0.0.1:80", &["[fe80::1]"], &["[fe80::1]:80"], &["evil.example"]),
        ] {
            let guard = guard(bound, allowed);
            for name in known {
                assert!(guard.check_host(&head(&[("host", name)])).is_ok(), "{bound} {allowed:?} {name}");
            }
            for name in unknown {
                assert!(guard.check_host(&head(&[("host", name)])).is_err(), "{bound} {allowed:?} {name}");
            }
        }
        let two = head(&[("host", "localhost"), ("host", "evil.example")]);
        assert!(guard("127.0.0.1:80", &[]).check_host(&two).is_err(), "each of several counts");
        assert!(
            guard("127.0.0.1:80", &[]).check_host(&head(&[])).is_ok(),
            "HTTP/1.0 has none, and no browser speaks it"
        );
    }
}
