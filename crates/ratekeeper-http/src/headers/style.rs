//! Styles of rate limit header fields.

use std::{fmt, str::FromStr};

/// Which header fields a response has. Every style writes `Retry-After` on a denial.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// `RateLimit` and `RateLimit-Policy` as of drafts 08 to 11: every rule.
    #[default]
    Ietf,
    /// `RateLimit-Limit`, `-Remaining` and `-Reset` as of drafts 00 to 06: the rule that decided.
    Ietf06,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset` (seconds from now): the rule that decided.
    XRateLimit,
    /// [`Ietf`](Self::Ietf) and [`XRateLimit`](Self::XRateLimit) together, for migration.
    IetfAndX,
    /// Only `Retry-After`.
    None,
}

/// Unknown name of a header style.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("header style is {found:?}; use ietf, ietf-06, x-ratelimit, ietf+x-ratelimit or none")]
pub struct UnknownHeaderStyle {
    found: String,
}

impl HeaderStyle {
    /// Every style.
    pub const ALL: [Self; 5] = [Self::Ietf, Self::Ietf06, Self::XRateLimit, Self::IetfAndX, Self::None];

    /// Its name in flags and configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ietf => "ietf",
            Self::Ietf06 => "ietf-06",
            Self::XRateLimit => "x-ratelimit",
            Self::IetfAndX => "ietf+x-ratelimit",
            Self::None => "none",
        }
    }

    pub(super) fn is_ietf(self) -> bool {
        matches!(self, Self::Ietf | Self::IetfAndX)
    }

    pub(super) fn is_ietf_06(self) -> bool {
        self == Self::Ietf06
    }

    pub(super) fn is_x(self) -> bool {
        matches!(self, Self::XRateLimit | Self::IetfAndX)
    }
}

impl fmt::Display for HeaderStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for HeaderStyle {
    type Err = UnknownHeaderStyle;

    fn from_str(name: &str) -> Result<Self, UnknownHeaderStyle> {
        let known = Self::ALL.into_iter().find(|style| style.name() == name);
        known.ok_or_else(|| UnknownHeaderStyle { found: name.chars().take(40).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_round_trip() {
        for style in HeaderStyle::ALL {
            assert_eq!(style.to_string().parse(), Ok(style));
        }
    }

    #[test]
    fn the_error_lists_the_styles() {
        let error = "rfc".parse::<HeaderStyle>().unwrap_err().to_string();
        assert_eq!(error, r#"header style is "rfc"; use ietf, ietf-06, x-ratelimit, ietf+x-ratelimit or none"#);
    }
}
