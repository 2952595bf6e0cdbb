//! Checks of several keys: all of them are charged, or none.
//!
//! One atomic step in memory, and in Redis if the keys are on one node. Keys on several nodes of a cluster are charged one
//! after the other; if one of them is denied, the others are refunded, and the source of the decision is
//! [`Source::InTurn`](ratekeeper_core::Source::InTurn).

use std::ops::Range;

use ratekeeper_core::{Ask, Decision, Immediate, Store, StoreError, Take, Verb, bounds::MAX_KEYS};
use smallvec::SmallVec;

use crate::{error::RequestError, limiter::Limiter, policies::PolicySlot, request::Request};

/// The decision about several keys: combined, and the part of each.
#[derive(Clone, Debug)]
#[must_use = "a decision that is not read limits nothing"]
#[non_exhaustive]
pub struct JointDecision {
    /// The decision about the request. Its rules are those of all keys, in the order of the request.
    pub combined: Decision,
    /// Where the rules of each key end.
    ends: SmallVec<[usize; 4]>,
}

impl JointDecision {
    pub(crate) fn new(combined: Decision, ends: SmallVec<[usize; 4]>) -> Self {
        Self { combined, ends }
    }

    /// Whether the request may proceed: all keys were charged. Otherwise none was.
    pub fn is_allowed(&self) -> bool {
        self.combined.is_allowed()
    }

    /// The part of the key at this position in the request. Its verdict is that of the key alone, so a key that was not
    /// the reason for a denial is allowed here, and was not charged either.
    pub fn key(&self, index: usize) -> Option<Decision> {
        self.combined.part(self.rules_of(index)?)
    }

    /// The parts of all keys, in the order of the request.
    pub fn keys(&self) -> impl Iterator<Item = Decision> {
        (0..self.ends.len()).filter_map(|index| self.key(index))
    }

    fn rules_of(&self, index: usize) -> Option<Range<usize>> {
        let start = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        Some(start..*self.ends.get(index)?)
    }
}

/// The keys of one request, with their policies.
type Keys<'l, 'a, S> = SmallVec<[(&'l PolicySlot<S>, Request<'a>); 4]>;
type JointAsks<'l, S> = SmallVec<[Ask<'l, <S as Store>::Policy>; 4]>;

/// Several keys
impl<S: Store> Limiter<S> {
    /// Takes the permits of several keys if all rules of all of them admit the request now. If one of them denies it, none is
    /// charged.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ratekeeper::{Limiter, Quota, Request, Rule};
    ///
    /// let limiter = Limiter::builder()
    ///     .policy("per-address", [Rule::sliding_log("address", Quota::per_minute(20))])
    ///     .policy("per-account", [Rule::sliding_log("account", Quota::per_minute(5))])
    ///     .build()?;
    /// let login = [
    ///     Request::new("203.0.113.7").policy("per-address"),
    ///     Request::new("ann").policy("per-account").cost(3),
    /// ];
    /// assert!(limiter.check_all(login).await?.is_allowed());
    /// let denied = limiter.check_all(login).await?;
    /// assert!(!denied.is_allowed());
    /// let parts: Vec<_> = denied.keys().map(|key| (key.is_allowed(), key.remaining())).collect();
    /// assert_eq!(parts, [(true, 19), (false, 2)]); // the address was charged once
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Requests have different policies or different keys. 64 are the most.
    pub async fn check_all<'a, R: Into<Request<'a>>>(
        &self,
        requests: impl IntoIterator<Item = R>,
    ) -> Result<JointDecision, RequestError> {
        let keys = self.keys(requests)?;
        let verb = self.take_all(&keys);
        let asks: JointAsks<'_, S> = keys.iter().map(|(slot, request)| ask(slot, request)).collect();
        let decided = self.shared.store.decide(&asks, verb).await;
        self.conclude_all(&keys, &verb, decided)
    }

    fn keys<'a, R: Into<Request<'a>>>(
        &self,
        requests: impl IntoIterator<Item = R>,
    ) -> Result<Keys<'_, 'a, S>, RequestError> {
        let mut keys = Keys::new();
        for request in requests {
            let request = request.into();
            if keys.len() == MAX_KEYS {
                return Err(RequestError::KeyCount { found: MAX_KEYS + 1, max: MAX_KEYS });
            }
            keys.push((&**self.slot_of(&request)?, request));
        }
        if keys.is_empty() { Err(RequestError::KeyCount { found: 0, max: MAX_KEYS }) } else { Ok(keys) }
    }

    /// A take, with a lease id if a rule of one of the policies limits concurrency.
    fn take_all(&self, keys: &Keys<'_, '_, S>) -> Verb {
        let slot = keys.iter().map(|(slot, _)| *slot).find(|slot| slot.has_leases());
        Verb::Take(slot.map_or(Take::now(), |slot| self.take(slot, Take::now())))
    }

    fn conclude_all(
        &self,
        keys: &Keys<'_, '_, S>,
        verb: &Verb,
        decided: Result<Decision, StoreError>,
    ) -> Result<JointDecision, RequestError> {
        let mut end = 0;
        let ends = keys.iter().map(|(slot, _)| {
            end += slot.rule_count();
            end
        });
        let decided = decided.map(|combined| JointDecision::new(combined, ends.collect()));
        if let Some(observer) = &self.shared.observer {
            // The part of each key, as if it had been asked about alone.
            for (index, (slot, request)) in keys.iter().enumerate() {
                let part = match &decided {
                    Ok(joint) => Ok(joint.key(index).unwrap_or_else(|| joint.combined.clone())),
                    Err(error) => Err(error),
                };
                let asked = (request.key, request.cost);
                observer.decided(&self.shared.store, &slot.name, asked, verb, part.as_ref().map_err(|error| *error));
            }
        }
        Ok(decided?)
    }
}

/// Several keys, without a runtime: for stores that answer at once
impl<S: Immediate> Limiter<S> {
    /// [`check_all`](Self::check_all) without a future.
    pub fn check_all_now<'a, R: Into<Request<'a>>>(
        &self,
        requests: impl IntoIterator<Item = R>,
    ) -> Result<JointDecision, RequestError> {
        let keys = self.keys(requests)?;
        let verb = self.take_all(&keys);
        let asks: JointAsks<'_, S> = keys.iter().map(|(slot, request)| ask(slot, request)).collect();
        let decided = self.shared.store.decide_now(&asks, &verb);
        self.conclude_all(&keys, &verb, decided)
    }
}

fn ask<'l, S: Store>(slot: &'l PolicySlot<S>, request: &Request<'l>) -> Ask<'l, S::Policy> {
    Ask::new(&slot.handle, request.key).cost(request.cost)
}
