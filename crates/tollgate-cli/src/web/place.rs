//! Where a server is: `http://127.0.0.1:8080`, `https://limits.internal`.

use std::{fmt, str::FromStr};

use hyper::Uri;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    pub(super) secure: bool,
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
}

impl FromStr for Place {
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
            return Err("an address holds no secrets; use --token-file".to_owned());
        }
        if uri.path() != "/" || uri.query().is_some() {
            return Err(format!("nothing may follow the host and port; {}", example()));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        // What follows a colon is a port, or a mistake; it is not left away.
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

impl Place {
    /// `host:port`, as a request names it.
    pub(super) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_people_write_them() {
        for (word, told) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("localhost:8080", "http://localhost:8080"),
            ("https://limits.internal", "https://limits.internal:443"),
            ("http://limits.internal", "http://limits.internal:80"),
            ("https://[::1]:8443", "https://[::1]:8443"),
        ] {
            assert_eq!(word.parse::<Place>().unwrap().to_string(), told);
        }
    }

    #[test]
    fn what_is_no_place_is_told_with_one_that_is() {
        for word in
            ["", "http://", "ftp://x:1", "http://x:99999", "http://x:", "http://x:y", "http:// x:1", "https://[::1"]
        {
            let told = word.parse::<Place>().unwrap_err();
            assert!(told.contains("http://127.0.0.1:8080"), "{word}: {told}");
        }
        let told = "http://name:word@x:1".parse::<Place>().unwrap_err();
        assert!(told.contains("--token-file") && !told.contains("word@"), "{told}");
        assert!("http://x:1/v1/check".parse::<Place>().unwrap_err().contains("nothing may follow"));
    }
}
