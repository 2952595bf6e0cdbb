//! The one trait a store fulfils, and what it says when it cannot.
//!
//! A store remembers, and owns the clock that counts. Everything a limiter does is one atomic step of it. A refusal is
//! an answer, never an error; [`StoreError`] means that nothing could be decided.

use std::{error::Error, future::Future};

use crate::{
    algorithm::LeaseId,
    change::Carry,
    decision::{Decision, Verdict},
    policy::Policy,
    time::Micros,
    verb::{Take, Verb},
};

/// Remembers keys and decides about them, one atomic step at a time.
pub trait Store: Send + Sync {
    /// What a store keeps of a policy it has been told about, so that a decision need not tell it again.
    type Policy: Clone + Send + Sync + 'static;

    /// Tells the store about a policy. One with the same domain and name is replaced; keys counted under the old one
    /// are carried over as `carry` says when they are next met. What was returned for the old one stands for the new.
    fn install(&self, policy: Policy, carry: Carry) -> Result<Self::Policy, StoreError>;

    /// Tells the store about one of several policies of the same domain and name that stand beside each other: numbers
    /// that come with each request. A key is decided about under the one that is asked for; when that is another than
    /// the last time, its state is carried over as [`Carry::Moment`] says. A name is for policies like this or for
    /// [replacing](Self::install) ones, not for both.
    fn install_beside(&self, policy: Policy) -> Result<Self::Policy, StoreError>;

    /// Decides one verb for one key, or one take for several, each charged its part: all of them, or none.
    fn decide(
        &self,
        asks: &[Ask<'_, Self::Policy>],
        verb: Verb,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// The store's clock, as well as it is known here.
    fn now(&self) -> Micros;

    /// Carries out a verb without waiting for the outcome, from a place that cannot wait: something being dropped. It
    /// may be lost with the process; permits then count as spent, and leases end by themselves.
    fn tell(&self, ask: Ask<'_, Self::Policy>, verb: Verb);

    /// Undoes a take that way.
    fn cancel(&self, ask: Ask<'_, Self::Policy>, cost: u64, at: Micros, lease: Option<LeaseId>) {
        self.tell(ask, Verb::Undo { cost, at, lease });
    }
}

/// A store that can answer at once, without a runtime.
pub trait Immediate: Store {
    /// The same as [`Store::decide`], now.
    fn decide_now(&self, asks: &[Ask<'_, Self::Policy>], verb: &Verb) -> Result<Decision, StoreError>;

    /// One take, and only the verdict on it. A store may spare itself the numbers.
    fn verdict_now(&self, ask: &Ask<'_, Self::Policy>, take: &Take) -> Result<Verdict, StoreError> {
        self.decide_now(std::slice::from_ref(ask), &Verb::Take(*take)).map(|decision| decision.verdict)
    }
}

/// One key, and the policy it is asked about under.
#[derive(Debug)]
pub struct Ask<'a, P> {
    /// What [`Store::install`] returned.
    pub policy: &'a P,
    /// Who is limited.
    pub key: &'a str,
    /// How many times the cost of a take this key is charged. 0 looks at it only, 1 is usual; where several keys are
    /// decided together, each may bear another part. Verbs other than a take go by their own numbers.
    pub times: u64,
}

impl<'a, P> Ask<'a, P> {
    /// This key, charged what the take says.
    #[inline(always)]
    pub const fn new(policy: &'a P, key: &'a str) -> Self {
        Self { policy, key, times: 1 }
    }

    /// The same key, charged so many times that.
    #[must_use]
    pub const fn times(mut self, times: u64) -> Self {
        self.times = times;
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
        waited: Micros,
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
