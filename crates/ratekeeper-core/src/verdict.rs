//! Verdicts: the outcome of a request, and when a denied one would pass.

use std::{fmt, time::Duration};

use crate::time::Span;

/// Allow, deny, or never.
///
/// Exhaustive on purpose: there is no fourth outcome of a request, and a caller has to handle each of these three.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Admitted, to go after `wait` (0 unless the request reserved or is shaped).
    Allow {
        /// The wait before it goes.
        wait: Span,
    },
    /// Denied. The same request passes after `retry_after`, unless others come first.
    Deny {
        /// The time until then.
        retry_after: Span,
    },
    /// The cost exceeds the limit itself; waiting cannot help.
    Never,
}

/// When a request would pass. An allowed request, a denial with a time and "never" are three cases.
///
/// Exhaustive on purpose, as [`Verdict`] is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum RetryAfter {
    /// It has passed; there is nothing to retry.
    Now,
    /// After this time, unless others come first.
    After(Duration),
    /// Never: waiting cannot help.
    Never,
}

impl RetryAfter {
    /// The time to wait, zero for [`Now`](Self::Now); `None` for [`Never`](Self::Never).
    pub fn finite(self) -> Option<Duration> {
        match self {
            Self::Now => Some(Duration::ZERO),
            Self::After(time) => Some(time),
            Self::Never => None,
        }
    }
}

impl Verdict {
    /// The word for it on every wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow { .. } => "allow",
            Self::Deny { .. } => "deny",
            Self::Never => "never",
        }
    }

    /// The wait of an allowed request; zero for any other.
    #[inline]
    pub fn wait(self) -> Span {
        match self {
            Self::Allow { wait } => wait,
            _ => Span::ZERO,
        }
    }

    /// When the same request would pass.
    pub fn retry_after(self) -> RetryAfter {
        match self {
            Self::Allow { .. } => RetryAfter::Now,
            Self::Deny { retry_after } => RetryAfter::After(retry_after.into()),
            Self::Never => RetryAfter::Never,
        }
    }

    /// The time after which the same request would pass, in exact microseconds: zero if it has passed, `None` for
    /// [`Never`](Self::Never). For wires with one nullable field.
    pub fn retry_after_span(self) -> Option<Span> {
        match self {
            Self::Allow { .. } => Some(Span::ZERO),
            Self::Deny { retry_after } => Some(retry_after),
            Self::Never => None,
        }
    }
}

/// `allowed`, `allowed after 2s`, `denied, retry after 3s` or `never allowed`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow { wait: Span::ZERO } => f.write_str("allowed"),
            Self::Allow { wait } => write!(f, "allowed after {wait}"),
            Self::Deny { retry_after } => write!(f, "denied, retry after {retry_after}"),
            Self::Never => f.write_str("never allowed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_request_is_not_mistaken_for_never() {
        let allowed = Verdict::Allow { wait: Span::SECOND }.retry_after();
        assert_eq!((allowed, allowed.finite()), (RetryAfter::Now, Some(Duration::ZERO)));
        let denied = Verdict::Deny { retry_after: Span::SECOND }.retry_after();
        assert_eq!(
            (denied, denied.finite()),
            (RetryAfter::After(Duration::from_secs(1)), Some(Duration::from_secs(1)))
        );
        assert_eq!((Verdict::Never.retry_after(), RetryAfter::Never.finite()), (RetryAfter::Never, None));
        let spans = [Verdict::Deny { retry_after: Span::MINUTE }, Verdict::Never].map(Verdict::retry_after_span);
        assert_eq!(spans, [Some(Span::MINUTE), None]);
    }
}
