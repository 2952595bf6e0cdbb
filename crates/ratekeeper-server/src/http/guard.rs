//! Browser guard: refuses cross-site requests and unknown host names on the HTTP ports.
//!
//! A page of any site can make the browser of its visitor send requests to this machine, also to a port on loopback.
//! Two checks keep such a page from using a limit, on the data port and on the admin port alike:
//!
//! - **Host.** A page whose host name resolves to 127.0.0.1 (DNS rebinding) is same-origin for the browser. A port on
//!   loopback therefore accepts only the names of this machine and those of `--allowed-hosts`. Other ports are reached
//!   by names unknown here, and check them only if `--allowed-hosts` names some. An IP address then passes, because
//!   rebinding needs a name.
//! - **Site.** A request changes nothing if its browser reports another site (`Sec-Fetch-Site`), if its `Origin` is
//!   not this server, or if its content type is one that an HTML form can send.
//!
//! Programs send neither `Sec-Fetch-Site` nor `Origin` and are not affected. `application/x-www-form-urlencoded` is
//! what `curl -d` sends, and passes on the data port: a form escapes braces and quotes, so its body is never JSON, and
//! a script that chooses its body is sent with `Origin`.

mod host;
mod site;

use std::net::{IpAddr, SocketAddr};

use crate::config::AllowedHosts;

/// The checks of one port.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    allowed: AllowedHosts,
    hosts: Hosts,
}

/// Hosts that a port accepts, apart from the allowed names.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Hosts {
    /// Every host.
    #[default]
    Any,
    /// `localhost`, loopback addresses and the address it is bound to.
    Loopback(IpAddr),
    /// `localhost` and every IP address.
    Addresses,
}

impl Guard {
    /// The checks of a port that is bound to this address.
    pub fn new(bound: SocketAddr, allowed: AllowedHosts) -> Self {
        let ip = bound.ip().to_canonical();
        let hosts = match () {
            () if allowed.is_any() => Hosts::Any,
            () if ip.is_loopback() => Hosts::Loopback(ip),
            () if allowed.is_empty() => Hosts::Any,
            () => Hosts::Addresses,
        };
        Self { allowed, hosts }
    }
}

/// Characters of a header value that an error message shows.
const SHOWN_CHARS: usize = 80;

#[cfg(test)]
mod testing {
    use hyper::{Request, http::request::Parts};

    use super::*;

    /// The head of a request with these header fields.
    pub(super) fn head(fields: &[(&str, &str)]) -> Parts {
        let request =
            fields.iter().fold(Request::post("/v1/check"), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    /// The guard of a port that is bound to this address.
    pub(super) fn guard(bound: &str, allowed: &[&str]) -> Guard {
        Guard::new(bound.parse().unwrap(), AllowedHosts::new(allowed).unwrap())
    }
}
