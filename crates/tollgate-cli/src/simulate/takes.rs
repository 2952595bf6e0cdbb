//! From requests to verbs, and the takes that a later `settle` may refer to.
//!
//! A settle corrects the key's most recent admitted take that is not settled yet: two takes are settled last one first.
//! The latest million takes are remembered; an older one counts as charged for good, as after a crash.

use std::{
    collections::{HashMap, VecDeque},
    rc::Rc,
};

use tollgate_core::{Decision, LeaseId, Micros, Release, Take, Verb, Verdict};

use super::{cells::Op, requests::Request};
use crate::report::RequestProblem;

/// Admitted takes, in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Takes {
    /// The latest unsettled take of each key.
    latest: HashMap<Rc<str>, u64>,
    line: VecDeque<Admitted>,
    /// How many have been forgotten: the number of the first in line.
    forgotten: u64,
    key_bytes: usize,
    remember: bool,
}

#[derive(Debug)]
struct Admitted {
    /// `None` once it is settled.
    key: Option<Rc<str>>,
    cost: u64,
    /// When it went, its wait included.
    went: Micros,
    /// The key's unsettled take before this one.
    before: Option<u64>,
}

impl Takes {
    /// With `remember` false nothing is kept: the file has no column that could say `settle`.
    pub(crate) fn new(remember: bool) -> Self {
        Self { remember, ..Self::default() }
    }

    /// What a request asks of the limiter.
    #[inline]
    pub(crate) fn verb(&mut self, request: &Request<'_>) -> Result<Verb, RequestProblem> {
        let &Request { key, cost, max_wait, .. } = request;
        Ok(match request.op {
            Op::Take => Verb::Take(Take { lease: LeaseId(request.number), ..Take::up_to(cost, max_wait) }),
            Op::Peek => Verb::Peek,
            Op::Refund => Verb::Refund { cost, at: None },
            Op::Settle => match self.settled(key) {
                Some((reserved, went)) => Verb::Settle { reserved, actual: cost, at: Some(went) },
                None => return Err(RequestProblem::NothingToSettle { key: key.to_owned() }),
            },
            Op::Penalize => Verb::Penalize { cost },
            Op::Reset => Verb::Reset,
            Op::Release => Verb::Release(Release::Oldest(cost)),
        })
    }

    /// Remembers a take that was let through.
    #[inline]
    pub(crate) fn note(&mut self, request: &Request<'_>, decision: &Decision) {
        if self.remember
            && request.op == Op::Take
            && request.cost > 0
            && let Verdict::Allow { wait } = decision.verdict
        {
            self.remember(request, request.at + wait);
        }
    }

    fn remember(&mut self, request: &Request<'_>, went: Micros) {
        let number = self.forgotten + self.line.len() as u64;
        let (key, before) = match self.latest.get_key_value(request.key) {
            Some((key, &before)) => (Rc::clone(key), Some(before)),
            None => {
                self.key_bytes += request.key.len();
                (Rc::from(request.key), None)
            }
        };
        self.latest.insert(Rc::clone(&key), number);
        self.line.push_back(Admitted { key: Some(key), cost: request.cost, went, before });
        while self.line.len() > MOST_TAKES || self.key_bytes > MOST_KEY_BYTES {
            self.forget_oldest();
        }
    }

    /// The cost and moment of the take to be settled, which from now on counts as settled.
    fn settled(&mut self, key: &str) -> Option<(u64, Micros)> {
        let number = *self.latest.get(key)?;
        let taken = self.line.get_mut(usize::try_from(number.checked_sub(self.forgotten)?).ok()?)?;
        taken.key = None;
        let found = (taken.cost, taken.went);
        match taken.before.filter(|&before| before >= self.forgotten) {
            Some(before) => {
                if let Some(latest) = self.latest.get_mut(key) {
                    *latest = before;
                }
            }
            None => self.let_go_of(key),
        }
        Some(found)
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.line.pop_front() else { return };
        if let Some(key) = oldest.key
            && self.latest.get(&key) == Some(&self.forgotten)
        {
            self.let_go_of(&key);
        }
        self.forgotten += 1;
    }

    fn let_go_of(&mut self, key: &str) {
        if self.latest.remove(key).is_some() {
            self.key_bytes -= key.len();
        }
    }
}

/// How many takes are remembered.
const MOST_TAKES: usize = 1_000_000;
/// How long the keys waiting for a settle may be together; reached only where most are far longer than usual.
const MOST_KEY_BYTES: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn take(takes: &mut Takes, key: &str, cost: u64, at: u64) {
        let request = Request { at: Micros(at), key, cost, max_wait: Micros::ZERO, op: Op::Take, number: 1 };
        takes.remember(&request, Micros(at));
    }

    #[test]
    fn the_latest_unsettled_take_is_settled_first() {
        let mut takes = Takes::new(true);
        take(&mut takes, "a", 1, 10);
        take(&mut takes, "b", 2, 20);
        take(&mut takes, "a", 3, 30);
        assert_eq!(takes.settled("a"), Some((3, Micros(30))));
        assert_eq!(takes.settled("a"), Some((1, Micros(10))));
        assert_eq!(takes.settled("a"), None);
        assert_eq!(takes.settled("b"), Some((2, Micros(20))));
        assert_eq!(takes.key_bytes, 0);
    }

    #[test]
    fn the_oldest_takes_are_forgotten_first() {
        let mut takes = Takes::new(true);
        take(&mut takes, "old", 1, 0);
        take(&mut takes, "both", 2, 1);
        for number in 0..MOST_TAKES as u64 - 2 {
            take(&mut takes, "crowd", 1, number);
        }
        take(&mut takes, "both", 3, 9);
        assert_eq!(takes.settled("old"), None);
        take(&mut takes, "both", 4, 10);
        assert_eq!(takes.settled("both"), Some((4, Micros(10))));
        assert_eq!(takes.settled("both"), Some((3, Micros(9))));
        assert_eq!(takes.settled("both"), None, "its first take has been forgotten");
        assert_eq!(takes.line.len(), MOST_TAKES);
    }
}
