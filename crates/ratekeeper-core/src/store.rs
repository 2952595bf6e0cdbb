//! The store interface: state of keys, a clock, and atomic decisions.
//!
//! Every operation of a limiter is one atomic step of its store. A denial is a decision, not an error; [`StoreError`]
//! means that nothing could be decided.

use std::{error::Error, future::Future};

use crate::{
    algorithm::LeaseId,
    decision::Decision,
    health::HealthStatus,
    migrate::OnQuotaChange,
    policy::{KeyState, Policy},
    terms::Terms,
    time::{Span, Timestamp},
    verb::{Take, Verb},
    verdict::Verdict,
};

/// Keeps the state of keys and decides requests, one atomic step at a time.
pub trait Store: Send + Sync {
    /// Handle of an installed policy.
    type Policy: Clone + Send + Sync + 'static;

    /// Installs a policy. One with the same domain and name is replaced, and its keys are migrated as `on_change` says at
    /// their next request. Handles of the old policy refer to the new one from then on.
    fn install(&self, policy: Policy, on_change: OnQuotaChange) -> Result<Self::Policy, StoreError>;

    /// Decides one verb for one key, or one take for several keys: all of them are charged, or none.
    fn decide(
        &self,
        asks: &[Ask<'_, Self::Policy>],
        verb: Verb,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// The same under further terms: an id, a reservation, a least cost. Only takes have terms; other verbs ignore them.
    fn decide_with(
        &self,
        asks: &[Ask<'_, Self::Policy>],
        verb: Verb,
        terms: Terms,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Decides a take of one key without waiting, if the store can: it keeps its state in this process, or an allotment or a
    /// remembered denial answers. `None` if [`decide`](Self::decide) has to be asked; then nothing was charged.
    #[inline]
    fn decide_here(&self, _ask: &Ask<'_, Self::Policy>, _take: &Take) -> Option<Decision> {
        None
    }

    /// Returns what this process holds in advance. For the end of a process; the store can be used afterwards.
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// The stored state of a key, for explanations; changes nothing. `None` if the store cannot show it.
    fn inspect(
        &self,
        _ask: &Ask<'_, Self::Policy>,
    ) -> impl Future<Output = Result<Option<InspectedKey>, StoreError>> + Send {
        std::future::ready(Ok(None))
    }

    /// The store's time, as far as it is known in this process.
    fn now(&self) -> Timestamp;

    /// Carries out a verb without waiting for the result, for callers that cannot wait, such as `Drop`. It may be lost if
    /// the process ends; permits then count as spent, and leases expire.
    fn submit(&self, ask: Ask<'_, Self::Policy>, verb: Verb);

    /// Whether the store's servers can decide, as far as it is known in this process. A store without servers is always up.
    fn health(&self) -> HealthStatus {
        HealthStatus::Up
    }

    /// Cancels a take of the ask's cost that way.
    fn cancel(&self, ask: Ask<'_, Self::Policy>, at: Timestamp, lease: Option<LeaseId>) {
        self.submit(ask, Verb::Undo { at, lease });
    }
}

/// The state of a key at a moment, under the current rules of its policy. See [`Store::inspect`].
#[derive(Clone, Debug)]
pub struct InspectedKey {
    /// The store's time.
    pub at: Timestamp,
    /// The state at that time; that of a new key if none is stored.
    pub state: KeyState,
    /// Permits that processes hold in advance, which the state does not contain.
    pub held: u64,
}

/// A store that keeps several variants of one policy at a time, for limits that arrive with each request (as in
/// `CL.THROTTLE`).
///
/// All variants of a policy share one state per key. A key that is asked about under another variant than the last time
/// keeps the time at which it is fully replenished ([`OnQuotaChange::KeepResetTime`]).
pub trait InlineLimits: Store {
    /// Registers one variant of the policy with this domain and name. It replaces no other variant. A name is used either
    /// for variants or for [replaceable policies](Store::install), not for both.
    fn install_variant(&self, policy: Policy) -> Result<Self::Policy, StoreError>;
}

/// A store that decides without waiting, so that callers need no runtime.
pub trait Immediate: Store {
    /// The same as [`Store::decide`], without a future.
    fn decide_now(&self, asks: &[Ask<'_, Self::Policy>], verb: &Verb) -> Result<Decision, StoreError>;

    /// The same as [`Store::decide_with`], without a future.
    fn decide_now_with(
        &self,
        asks: &[Ask<'_, Self::Policy>],
        verb: &Verb,
        terms: &Terms,
    ) -> Result<Decision, StoreError>;

    /// The decision on one take, with the caller's type of error: converting the result afterwards would copy the decision.
    fn take_now<E: From<StoreError>>(&self, ask: &Ask<'_, Self::Policy>, take: &Take) -> Result<Decision, E> {
        Ok(self.decide_now(std::slice::from_ref(ask), &Verb::Take(*take))?)
    }

    /// The verdict on one take. A store may skip computing the other numbers.
    fn verdict_now(&self, ask: &Ask<'_, Self::Policy>, take: &Take) -> Result<Verdict, StoreError> {
        self.decide_now(std::slice::from_ref(ask), &Verb::Take(*take)).map(|decision| decision.verdict)
    }
}

/// One key of a request: its policy and its cost.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ask<'a, P> {
    /// What [`Store::install`] returned.
    pub policy: &'a P,
    /// Who is limited.
    pub key: &'a str,
    /// Permits that the verb is about: to take, to return, to charge, or (to settle) already charged. 0 looks only. Keys
    /// of one request may have different costs. Verbs about the whole key, such as a reset, ignore it.
    pub cost: u64,
}

impl<'a, P> Ask<'a, P> {
    /// This key, with a cost of 1.
    #[inline(always)]
    pub const fn new(policy: &'a P, key: &'a str) -> Self {
        Self { policy, key, cost: 1 }
    }

    /// The same key, with this cost.
    #[must_use]
    #[inline(always)]
    pub const fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }
}

impl<P> Clone for Ask<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Ask<'_, P> {}

/// A store could not decide.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No connection.
    #[error("no connection to the store at {address}")]
    Unreachable {
        /// Where, without credentials.
        address: String,
        /// Why.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// No answer in time. Whether the step was taken is unknown.
    #[error("the store at {address} was silent for {waited}")]
    TimedOut {
        /// Where, without credentials.
        address: String,
        /// How long we waited.
        waited: Span,
    },
    /// The store answered with an error that asking again will not mend.
    #[error("the store at {address} refused: {reason}")]
    Refused {
        /// Where, without credentials.
        address: String,
        /// In its words.
        reason: String,
    },
    /// Something else lies where the key's state should be.
    #[error(
        "what lies under \"{key}\" is not a state this version can read: {found}; delete it, or let the store replace it"
    )]
    NotOurs {
        /// The key's name in the store.
        key: String,
        /// What was found.
        found: String,
    },
    /// The key cannot be used.
    #[error("the key is {found} bytes long; {max} is the most")]
    KeyTooLong {
        /// How long it is.
        found: usize,
        /// How long it may be.
        max: usize,
    },
    /// More policies than the store can tell apart.
    #[error("the store already holds {max} policies and versions of them; remove policies that are not needed")]
    TooManyPolicies {
        /// How many it can hold.
        max: usize,
    },
    /// A key was named twice in one request; it could only be charged once, so which is meant is not clear.
    #[error("the key \"{key}\" is named twice in one request; name it once, with the whole cost")]
    SameKeyTwice {
        /// The key.
        key: String,
    },
    /// A commit or a cancel of an id that is not known.
    #[error(
        "no request with this id is known for the key: it was never charged, or its lifetime has ended; nothing was changed"
    )]
    UnknownId,
    /// Too many reservations of this process are to be refunded when they expire.
    #[error(
        "{max} open reservations of this process are to be refunded when they expire; finish some, or keep them charged"
    )]
    TooManyReservations {
        /// How many it can have.
        max: usize,
    },
    /// Only a take can be decided for several keys at once.
    #[error("{verb} is for one key, and {found} were given; ask for each in turn")]
    OneKeyOnly {
        /// What was asked.
        verb: &'static str,
        /// For how many keys.
        found: usize,
    },
}

impl StoreError {
    /// True when asking again soon may succeed. Drives the rule's answer to a failing store.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TimedOut { .. })
    }
}
