//! Allowed hosts: names that the HTTP and admin ports accept in addition to those of the machine.

use std::net::IpAddr;

use crate::lossy_text::Escaped;

/// The names of `--allowed-hosts`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AllowedHosts {
    names: Vec<String>,
    /// `*` was given.
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

    /// Whether this name is one of them.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.names.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }

    /// Whether every name is allowed.
    pub(crate) fn is_any(&self) -> bool {
        self.any
    }

    /// Whether no name is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_host_name_is_an_error() {
        for name in ["", "http://limits", "limits:80", "a b", "*.example", "[::1", "ä.example"] {
            assert!(AllowedHosts::new([name]).unwrap_err().contains("is no host name"), "{name}");
        }
    }
}
