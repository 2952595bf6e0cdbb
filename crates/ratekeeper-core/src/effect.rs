//! Effects of policies: most limit their requests by rules; some refuse or exempt them unconditionally.
//!
//! A policy that denies or exempts has no rules and no state, so no store is asked about its keys.

/// What a policy does with its requests.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Its rules decide.
    #[default]
    Limit,
    /// Every request is refused, as [`Verdict::Never`](crate::Verdict::Never): waiting does not help. A take of 0 passes.
    Deny,
    /// Every request is admitted and none is counted.
    Unlimited,
}

impl Effect {
    /// The name in rule files; `None` for a policy with rules.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Limit => None,
            Self::Deny => Some("deny"),
            Self::Unlimited => Some("unlimited"),
        }
    }
}
