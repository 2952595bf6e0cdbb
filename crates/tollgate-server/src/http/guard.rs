//! Browser guard: refuses cross-site requests and unknown host names on the HTTP ports.
//!
//! A page of any site can make the browser of its visitor send requests to this machine, also to a port on loopback. Two
//! checks keep such a page from using a limit, on the data port and on the admin port alike:
//!
//! - **Host.** A page whose own name resolves to 127.0.0.1 (DNS rebinding) is of the same origin for the browser. So a port
//!   on loopback answers only to the names of this machine, and to those of `--allowed-hosts`. Other ports are reached by
//!   names unknown here and check them only where `--allowed-hosts` names some; an IP address then passes, because
//!   rebinding needs a name.
//! - **Site.** A request whose browser reports another site (`Sec-Fetch-Site`), whose `Origin` is not this server, or whose
//!   content type is one that an HTML form can send, changes nothing.
//!
//! Programs send neither `Sec-Fetch-Site` nor `Origin` and are not affected. `application/x-www-form-urlencoded` is what
//! `curl -d` sends, and passes on the data port: a form escapes braces and quotes, so its body is never JSON, and a script that
//! chooses its body is sent with `Origin`.

use std::net::{IpAddr, SocketAddr};

use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN},
    http::{request::Parts, uri::Authority},
};

use super::Problem;
use crate::text::Escaped;

/// The names of `--allowed-hosts`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AllowedHosts {
    names: Vec<String>,
    any: bool,
}

impl AllowedHosts {
    /// Host names or addresses without a port; `*` allows every name.
    pub fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Result<Self, String> {
        let mut allowed = Self::default();
        for name in names {
            let name = name.as_ref().trim();
            if name == "*" {
                allowed.any = true;
                continue;
            }
            let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
            let is_name =
                !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
            if !is_name && bare.parse::<IpAddr>().is_err() {
                return Err(format!(
                    "\"{}\" is no host name; use names or addresses without a port, such as limits.internal, or * for all",
                    Escaped(name)
                ));
            }
            allowed.names.push(bare.to_ascii_lowercase());
        }
        Ok(allowed)
    }

    fn names(&self, name: &str) -> bool {
        self.names.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
}

/// What one port checks.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    allowed: AllowedHosts,
    hosts: Hosts,
}

/// Which hosts a port answers to, apart from the allowed names.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Hosts {
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
            () if allowed.any => Hosts::Any,
            () if ip.is_loopback() => Hosts::Loopback(ip),
            () if allowed.names.is_empty() => Hosts::Any,
            () => Hosts::Addresses,
        };
        Self { allowed, hosts }
    }

    /// Refuses a host name that this port does not answer to. HTTP/2 has the name in `:authority`, HTTP/1 in `Host` or in the
    /// target; each of them counts.
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
                    Escaped(host_of(unknown)).first(SHOWN)
                ),
            )),
        }
    }

    fn is_known(&self, name: &str) -> bool {
        if name.eq_ignore_ascii_case("localhost") || self.allowed.names(name) {
            return true;
        }
        let Ok(address) = name.parse::<IpAddr>().map(|address| address.to_canonical()) else { return false };
        match self.hosts {
            Hosts::Any | Hosts::Addresses => true,
            Hosts::Loopback(bound) => address.is_loopback() || address == bound,
        }
    }

    /// Refuses what a browser sends on behalf of a page of another site.
    pub(crate) fn check_site(&self, head: &Parts) -> Result<(), Problem> {
        let refused = |name: &HeaderName, value: &str| {
            let value = Escaped(value).first(SHOWN);
            Err(Problem::new(
                StatusCode::FORBIDDEN,
                "The request comes from another site",
                format!(
                    "a browser sent this for a page of another site ({name}: {value}); pages of other sites may not use this port. \
                     For a web application in front of this server, name its host in --allowed-hosts"
                ),
            ))
        };
        for value in head.headers.get_all(SEC_FETCH_SITE) {
            let site = value.to_str().unwrap_or("?");
            if !["same-origin", "none"].contains(&site) {
                return refused(&SEC_FETCH_SITE, site);
            }
        }
        for value in head.headers.get_all(ORIGIN) {
            let origin = value.to_str().unwrap_or("?");
            if !self.is_own_origin(origin, head) {
                return refused(&ORIGIN, origin);
            }
        }
        Ok(())
    }

    /// Whether an origin has the authority that the request names, or an allowed host. The scheme may differ: TLS may end
    /// at a proxy.
    fn is_own_origin(&self, origin: &str, head: &Parts) -> bool {
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(|authority| {
            self.allowed.names(host_of(authority))
                || authorities(head).any(|asked| asked.eq_ignore_ascii_case(authority))
        })
    }
}

/// Refuses the content types of an HTML form whose body could be JSON.
pub(crate) fn refuse_forms(headers: &HeaderMap) -> Result<(), Problem> {
    match media_type(headers) {
        Some(kind) if kind.eq_ignore_ascii_case("text/plain") || kind.eq_ignore_ascii_case("multipart/form-data") => {
            Err(only_json())
        }
        _ => Ok(()),
    }
}

/// Refuses all but JSON, which no page can send to another site unasked.
pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let is_json = media_type(headers).is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    if is_json { Ok(()) } else { Err(only_json()) }
}

/// The media type without its parameters; an unreadable one is an empty text.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(kind.split(';').next().unwrap_or_default().trim())
}

fn only_json() -> Problem {
    let detail = "send JSON with its content type: Content-Type: application/json";
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Only JSON is accepted here", detail)
}

/// Every authority that a request names.
fn authorities(head: &Parts) -> impl Iterator<Item = &str> {
    let named = head.headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or("?"));
    named.chain(head.uri.authority().map(Authority::as_str))
}

/// An authority without its port, an IPv6 address without its brackets.
fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(name, _)| name),
    }
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Characters of a name that are shown in a refusal.
const SHOWN: usize = 80;

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn head(fields: &[(&str, &str)]) -> Parts {
        let request =
            fields.iter().fold(Request::post("/v1/check"), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn guard(bound: &str, allowed: &[&str]) -> Guard {
        Guard::new(bound.parse().unwrap(), AllowedHosts::new(allowed).unwrap())
    }

    /// Which hosts a port answers to, by the address it is bound to and the names allowed.
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
            ("127.0.0.1:80", &["tollgate"], &["tollgate:8080", "Tollgate", "localhost"], &["evil.example"]),
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

    #[test]
    fn a_page_of_another_site_is_known_by_what_its_browser_reports() {
        let guard = guard("127.0.0.1:80", &["app.example"]);
        for (fields, passes) in [
            (&[][..], true),
            (&[("sec-fetch-site", "none")][..], true),
            (&[("sec-fetch-site", "same-origin"), ("origin", "http://localhost:80")], true),
            (&[("sec-fetch-site", "same-origin"), ("origin", "https://LOCALHOST:80")], true),
            (&[("sec-fetch-site", "same-origin"), ("origin", "https://app.example")], true),
            (&[("sec-fetch-site", "cross-site"), ("origin", "https://app.example")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "")], false),
            (&[("origin", "null")], false),
            (&[("origin", "http://localhost:3000")], false),
            (&[("origin", "http://localhost")], false),
            (&[("origin", "localhost:80")], false),
            (&[("origin", "chrome-extension://localhost:80")], false),
        ] {
            let fields: Vec<_> = [("host", "localhost:80")].into_iter().chain(fields.iter().copied()).collect();
            assert_eq!(guard.check_site(&head(&fields)).is_ok(), passes, "{fields:?}");
        }
    }

    #[test]
    fn what_is_no_host_name_is_refused_when_the_server_starts() {
        for name in ["", "http://limits", "limits:80", "a b", "*.example", "[::1", "ä.example"] {
            assert!(AllowedHosts::new([name]).unwrap_err().contains("is no host name"), "{name}");
        }
    }
}
