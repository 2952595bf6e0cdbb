//! Address of a server: `http://127.0.0.1:8080`, `https://limits.internal`.

use std::{fmt, str::FromStr};

use hyper::Uri;

/// Scheme, host and port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Endpoint {
    pub(super) secure: bool,
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let example = || "use an address such as http://127.0.0.1:8080 or https://limits.internal:8080".to_owned();
        let whole = if word.contains("://") { word.to_owned() } else { format!("http://{word}") };
        let uri: Uri = whole.parse().map_err(|_| example())?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(example()),
        };
        let authority = uri.authority().ok_or_else(example)?;
        if authority.as_str().contains('@') {
            return Err("an address must not contain secrets; use --token-file".to_owned());
        }
        if uri.path() != "/" || uri.query().is_some() {
            return Err(format!("nothing may follow the host and port; {}", example()));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        // Text after a colon is a port or an error; it is never ignored.
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str().len() > authority.host().len() => return Err(example()),
            None if secure => 443,
            None => 80,
        };
        if host.is_empty() {
            return Err(example());
        }
        Ok(Self { secure, host, port })
    }
}

impl Endpoint {
    /// `host:port`, as a request names it.
    pub(super) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_and_port_are_optional() {
        for (word, written) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("localhost:8080", "http://localhost:8080"),
            ("https://limits.internal", "https://limits.internal:443"),
            ("http://limits.internal", "http://limits.internal:80"),
            ("https://[::1]:8443", "https://[::1]:8443"),
        ] {
            assert_eq!(word.parse::<Endpoint>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn malformed_endpoints_are_refused_with_an_example() {
        for word in
            ["", "http://", "ftp://x:1", "http://x:99999", "http://x:", "http://x:y", "http:// x:1", "https://[::1"]
        {
            let written = word.parse::<Endpoint>().unwrap_err();
            assert!(written.contains("http://127.0.0.1:8080"), "{word}: {written}");
        }
        let written = "http://name:word@x:1".parse::<Endpoint>().unwrap_err();
        assert!(written.contains("--token-file") && !written.contains("word@"), "{written}");
        assert!("http://x:1/v1/check".parse::<Endpoint>().unwrap_err().contains("nothing may follow"));
    }
}
