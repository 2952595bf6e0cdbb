//! Decisions of single rules, and a list of them that does not allocate in steady state.
//!
//! The list stores the decision of a single rule inline. Longer lists are taken from a small pool per thread and return
//! to it when dropped.

use std::{cell::RefCell, fmt, ops::Deref};

use crate::{time::Span, verdict::Verdict};

/// The decision of one rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct RuleDecision {
    /// The verdict this rule alone would have given.
    pub verdict: Verdict,
    /// The most permits this rule admits at one instant.
    pub limit: u64,
    /// Permits that would still pass if asked for right now.
    pub remaining: u64,
    /// Time until the key is back to its initial state under this rule.
    pub reset_after: Span,
    /// The rule is evaluated but not enforced.
    pub shadow: bool,
    /// What its numbers count.
    pub role: RuleRole,
}

/// What the numbers of a rule count.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum RuleRole {
    /// Permits of a limit.
    #[default]
    Limit,
    /// Denials, until an automatic block. It represents a decision only while the key is blocked.
    Block,
}

impl RuleRole {
    /// The name in decisions; `None` for a limit.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Limit => None,
            Self::Block => Some("block"),
        }
    }
}

/// The decisions of a policy's rules, in its order. Dereferences to a slice.
#[derive(Clone)]
pub struct RuleDecisions(List);

/// `repr(u8)` keeps the discriminant out of `Verdict`'s niche, so dropping a `Decision` need not wait for the verdict to
/// be computed (saves 6 ns).
#[derive(Clone)]
#[repr(u8)]
enum List {
    One(RuleDecision),
    Many(Pooled),
}

impl RuleDecision {
    /// The decision of an enforced rule.
    #[inline]
    pub fn new(verdict: Verdict, limit: u64, remaining: u64, reset_after: Span) -> Self {
        Self { verdict, limit, remaining, reset_after, shadow: false, role: RuleRole::Limit }
    }

    /// The same numbers, enforced or not.
    #[inline]
    #[must_use]
    pub fn with_shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// The same numbers with this meaning.
    #[inline]
    #[must_use]
    pub fn with_role(mut self, role: RuleRole) -> Self {
        self.role = role;
        self
    }

    /// Whether this rule alone would admit the request, now or after its wait.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allow { .. })
    }
}

impl RuleDecisions {
    /// The decision of a single rule.
    #[inline]
    pub fn one(rule: RuleDecision) -> Self {
        Self(List::One(rule))
    }

    /// Any number of decisions.
    pub fn collect(rules: impl IntoIterator<Item = RuleDecision>) -> Self {
        let mut pooled = Pooled::take();
        pooled.0.extend(rules);
        Self(List::Many(pooled))
    }
}

impl Deref for RuleDecisions {
    type Target = [RuleDecision];

    #[inline]
    fn deref(&self) -> &[RuleDecision] {
        match &self.0 {
            List::One(rule) => std::slice::from_ref(rule),
            List::Many(pooled) => &pooled.0,
        }
    }
}

impl PartialEq for RuleDecisions {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for RuleDecisions {}

impl fmt::Debug for RuleDecisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A list that returns to its thread's pool.
struct Pooled(Vec<RuleDecision>);

impl Pooled {
    fn take() -> Self {
        // A thread that is ending has no pool; the list is then allocated.
        Self(POOL.try_with(|pool| pool.borrow_mut().pop()).ok().flatten().unwrap_or_default())
    }
}

impl Clone for Pooled {
    fn clone(&self) -> Self {
        let mut copy = Self::take();
        copy.0.extend_from_slice(&self.0);
        copy
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut list = std::mem::take(&mut self.0);
        list.clear();
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < POOL_LISTS {
                pool.push(list);
            }
        });
    }
}

thread_local! {
    static POOL: RefCell<Vec<Vec<RuleDecision>>> = const { RefCell::new(Vec::new()) };
}

/// Lists per thread; decisions are rarely kept for long.
const POOL_LISTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_many_read_alike() {
        let rule = RuleDecision::new(Verdict::Never, 1, 1, Span::ZERO);
        assert_eq!(RuleDecisions::one(rule), RuleDecisions::collect([rule]));
        let many = RuleDecisions::collect([rule, rule]);
        assert_eq!((many.len(), many.clone()), (2, many));
        assert!(RuleDecisions::collect([]).is_empty());
    }
}
