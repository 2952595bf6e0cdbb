//! Site check: refuses requests that a browser sends for a page of another site.

use hyper::{
    StatusCode,
    header::{HeaderName, ORIGIN},
    http::request::Parts,
};

use super::{
    Guard, SHOWN_CHARS,
    host::{authorities, host_of},
};
use crate::{http::Problem, lossy_text::Escaped};

impl Guard {
    /// Refuses a request that a browser sends for a page of another site.
    pub(crate) fn check_site(&self, head: &Parts) -> Result<(), Problem> {
        let refused = |name: &HeaderName, value: &str| {
            let value = Escaped(value).first(SHOWN_CHARS);
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

    /// Whether an origin has the authority that the request names, or an allowed host. The scheme may differ: TLS may
    /// end at a proxy.
    fn is_own_origin(&self, origin: &str, head: &Parts) -> bool {
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(|authority| {
            self.allowed.contains(host_of(authority))
                || authorities(head).any(|asked| asked.eq_ignore_ascii_case(authority))
        })
    }
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

#[cfg(test)]
mod tests {
    use super::super::testing::{guard, head};

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
}
