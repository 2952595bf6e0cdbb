//! Take history: from requests to verbs, with the takes that a later `settle` may refer to.
//!
//! A settle refers to the most recent admitted take of its key that is not settled yet: two takes are settled last one first.
//!
//! Bound: the latest million takes. Older ones stay charged and cannot be settled.

use std::{
    collections::{HashMap, VecDeque},
    rc::Rc,
};

use ratekeeper_core::{Decision, LeaseId, Timestamp, Verb, Verdict};

use super::requests::RequestLine;
use crate::report::RequestProblem;

/// Admitted takes, oldest first.
#[derive(Debug, Default)]
pub(crate) struct TakeHistory {
    /// The latest unsettled take of each key.
    latest: HashMap<Rc<str>, u64>,
    takes: VecDeque<AdmittedTake>,
    /// The number of takes dropped so far, which is the index of the oldest one kept.
    dropped: u64,
    key_bytes: usize,
    remember: bool,
}

#[derive(Debug)]
struct AdmittedTake {
    /// `None` once it is settled.
    key: Option<Rc<str>>,
    cost: u64,
    /// The time for which its permits were charged: the request plus its wait.
    charged_at: Timestamp,
    /// The previous unsettled take of the key.
    previous: Option<u64>,
}

impl TakeHistory {
    /// Nothing is kept if `remember` is false: a file without an `op` column has no `settle`.
    pub(crate) fn new(remember: bool) -> Self {
        Self { remember, ..Self::default() }
    }

    /// The cost and the verb of a request.
    #[inline]
    pub(crate) fn verb(&mut self, request: &RequestLine<'_>) -> Result<(u64, Verb), RequestProblem> {
        let &RequestLine { key, cost, verb, number, .. } = request;
        let verb = match verb {
            Verb::Take(take) => Verb::Take(take.with_lease(LeaseId(number))),
            Verb::Settle { actual, .. } => match self.settle(key) {
                Some((reserved, went)) => return Ok((reserved, Verb::Settle { actual, at: Some(went) })),
                None => return Err(RequestProblem::NothingToSettle { key: key.to_owned() }),
            },
            other => other,
        };
        Ok((cost, verb))
    }

    /// Adds the take if it was admitted.
    #[inline]
    pub(crate) fn add(&mut self, request: &RequestLine<'_>, decision: &Decision) {
        if self.remember
            && matches!(request.verb, Verb::Take(_))
            && request.cost > 0
            && let Verdict::Allow { wait } = decision.verdict
        {
            self.push(request, request.at + wait);
        }
    }

    fn push(&mut self, request: &RequestLine<'_>, charged_at: Timestamp) {
        let number = self.dropped + self.takes.len() as u64;
        let (key, previous) = match self.latest.get_key_value(request.key) {
            Some((key, &previous)) => (Rc::clone(key), Some(previous)),
            None => {
                self.key_bytes += request.key.len();
                (Rc::from(request.key), None)
            }
        };
        self.latest.insert(Rc::clone(&key), number);
        self.takes.push_back(AdmittedTake { key: Some(key), cost: request.cost, charged_at, previous });
        while self.takes.len() > MAX_TAKES || self.key_bytes > MAX_KEY_BYTES_TOTAL {
            self.drop_oldest();
        }
    }

    /// Marks the latest unsettled take of the key as settled; returns its cost and time.
    fn settle(&mut self, key: &str) -> Option<(u64, Timestamp)> {
        let number = *self.latest.get(key)?;
        let taken = self.takes.get_mut(usize::try_from(number.checked_sub(self.dropped)?).ok()?)?;
        taken.key = None;
        let found = (taken.cost, taken.charged_at);
        match taken.previous.filter(|&previous| previous >= self.dropped) {
            Some(previous) => {
                if let Some(latest) = self.latest.get_mut(key) {
                    *latest = previous;
                }
            }
            None => self.remove_key(key),
        }
        Some(found)
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.takes.pop_front() else { return };
        if let Some(key) = oldest.key
            && self.latest.get(&key) == Some(&self.dropped)
        {
            self.remove_key(&key);
        }
        self.dropped += 1;
    }

    fn remove_key(&mut self, key: &str) {
        if self.latest.remove(key).is_some() {
            self.key_bytes -= key.len();
        }
    }
}

/// Takes that can be settled.
const MAX_TAKES: usize = 1_000_000;
/// Bytes of all keys with unsettled takes.
const MAX_KEY_BYTES_TOTAL: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use ratekeeper_core::{Take, Terms};

    use super::*;

    fn take(takes: &mut TakeHistory, key: &str, cost: u64, at: u64) {
        let request = RequestLine {
            at: Timestamp::from_micros(at),
            key,
            cost,
            verb: Verb::Take(Take::now()),
            terms: Terms::NONE,
            number: 1,
        };
        takes.push(&request, Timestamp::from_micros(at));
    }

    #[test]
    fn the_latest_unsettled_take_is_settled_first() {
        let mut takes = TakeHistory::new(true);
        take(&mut takes, "a", 1, 10);
        take(&mut takes, "b", 2, 20);
        take(&mut takes, "a", 3, 30);
        assert_eq!(takes.settle("a"), Some((3, Timestamp::from_micros(30))));
        assert_eq!(takes.settle("a"), Some((1, Timestamp::from_micros(10))));
        assert_eq!(takes.settle("a"), None);
        assert_eq!(takes.settle("b"), Some((2, Timestamp::from_micros(20))));
        assert_eq!(takes.key_bytes, 0);
    }

    #[test]
    fn the_oldest_takes_are_dropped_first() {
        let mut takes = TakeHistory::new(true);
        take(&mut takes, "old", 1, 0);
        take(&mut takes, "both", 2, 1);
        for number in 0..MAX_TAKES as u64 - 2 {
            take(&mut takes, "crowd", 1, number);
        }
        take(&mut takes, "both", 3, 9);
        assert_eq!(takes.settle("old"), None);
        take(&mut takes, "both", 4, 10);
        assert_eq!(takes.settle("both"), Some((4, Timestamp::from_micros(10))));
        assert_eq!(takes.settle("both"), Some((3, Timestamp::from_micros(9))));
        assert_eq!(takes.settle("both"), None, "its first take was dropped");
        assert_eq!(takes.takes.len(), MAX_TAKES);
    }
}
