//! One answer per rule, without touching the heap.
//!
//! Most policies have one rule, whose answer stands in the decision itself. Where there are more, their list comes out
//! of a small pool that each thread keeps and goes back there, so that a busy limiter allocates nothing.

use std::{cell::RefCell, fmt, ops::Deref};

use crate::decision::RuleDecision;

/// The answers of a policy's rules, in its order. Reads like a slice.
#[derive(Clone)]
pub struct RulesTold(Told);

/// Which of them it is stands in a place of its own. Hidden in the verdict, as a compiler would have it, it could not be
/// known before the verdict is, and whoever drops a decision has to know it.
#[derive(Clone)]
#[repr(u8)]
enum Told {
    One(RuleDecision),
    Many(Pooled),
}

impl RulesTold {
    /// One rule's answer.
    #[inline]
    pub fn one(rule: RuleDecision) -> Self {
        Self(Told::One(rule))
    }

    /// Any number of answers.
    pub fn collect(rules: impl IntoIterator<Item = RuleDecision>) -> Self {
        let mut pooled = Pooled::take();
        pooled.0.extend(rules);
        Self(Told::Many(pooled))
    }
}

impl Deref for RulesTold {
    type Target = [RuleDecision];

    #[inline]
    fn deref(&self) -> &[RuleDecision] {
        match &self.0 {
            Told::One(rule) => std::slice::from_ref(rule),
            Told::Many(pooled) => &pooled.0,
        }
    }
}

impl PartialEq for RulesTold {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for RulesTold {}

impl fmt::Debug for RulesTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A list that goes back to its thread's pool.
struct Pooled(Vec<RuleDecision>);

impl Pooled {
    fn take() -> Self {
        // A thread that is ending has no pool any more; then the list is simply new.
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

/// Lists a thread keeps; decisions are rarely held on to.
const POOL_LISTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decision::Verdict, time::Micros};

    #[test]
    fn one_and_many_read_alike() {
        let rule =
            RuleDecision { verdict: Verdict::Never, limit: 1, remaining: 1, reset_after: Micros::ZERO, shadow: false };
        assert_eq!(RulesTold::one(rule), RulesTold::collect([rule]));
        let many = RulesTold::collect([rule, rule]);
        assert_eq!((many.len(), many.clone()), (2, many));
        assert!(RulesTold::collect([]).is_empty());
    }
}
