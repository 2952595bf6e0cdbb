//! The algorithm interface, the clock guard that all algorithms share, and the list of algorithms.
//!
//! A take has two steps, so that several rules are decided together: [`Algorithm::weigh`] computes when a cost would be
//! admitted and changes nothing; [`Algorithm::charge`] then charges every rule for the latest of these times.
//!
//! The caller supplies the time. All numbers are integers below 2^53 (see [`bounds`](crate::bounds)), so the Lua twin of
//! each file, which computes in doubles, has the same results.
//!
//! This module is machinery for authors of stores, as [`store_api`](crate::store_api) is.

mod auto_block;
mod bucket;
mod counter;
mod leases;
mod log;
mod rate;
mod state;
mod stepwise;
mod window;

pub use auto_block::AutoBlock;
pub use bucket::Bucket;
pub(crate) use bucket::Poured;
pub use counter::{Counter, CounterState};
pub use leases::{Lease, LeaseState, Leases};
pub use log::{Log, LogState};
pub(crate) use rate::DrainRate;
pub use rate::lowest_terms;
pub use state::{Meter, State};
pub use stepwise::Stepwise;
pub use window::{Schedule, Window};

use crate::{
    bounds::MAX_TIME,
    held::Held,
    time::{Span, Timestamp},
};

/// One algorithm with its precomputed numbers.
pub trait Algorithm {
    /// The state per key. The default is the initial state.
    type State: Default;

    /// The most permits that are admitted at one instant. A larger cost never passes; callers check that first.
    fn limit(&self) -> u64;

    /// Moves the state back if the clock has stepped back beyond the tolerance, and returns by how much. Called before
    /// any other method. The caller stores the result even if nothing else changes; otherwise a key that is denied on
    /// every request would stay denied until the clock has caught up.
    fn follow(&self, state: &mut Self::State, now: Timestamp) -> Span;

    /// When `cost` permits would be admitted if no other request came.
    fn weigh(&self, state: &Self::State, cost: u64, now: Timestamp) -> Weighed;

    /// Charges permits for the time that [`weigh`](Self::weigh) returned, or a later one.
    fn charge(&self, state: &mut Self::State, charge: Charge, now: Timestamp);

    /// Fast path of a take without a wait while the clock runs forward: the same result as weigh, charge and look. `None`
    /// if the general path is needed; the state is unchanged then.
    #[inline]
    fn try_quickly(&self, _state: &mut Self::State, _cost: u64, _now: Timestamp) -> Option<Tried> {
        None
    }

    /// Charges permits now, whether or not the limit admits them.
    fn penalize(&self, state: &mut Self::State, charge: Charge, now: Timestamp);

    /// Returns permits, unless a later reservation depends on them.
    fn give_back(&self, state: &mut Self::State, back: GiveBack, now: Timestamp);

    /// Remaining permits and reset time of the key.
    fn look(&self, state: &Self::State, now: Timestamp) -> Look;

    /// The time of the latest reservation, as far as the state shows; `now` or earlier if there is none.
    fn line_ends(&self, state: &Self::State, now: Timestamp) -> Timestamp;

    /// Whether permits reserved for `at` are the latest reservation, for a policy with this rule only.
    fn is_last_in_line(&self, state: &Self::State, _cost: u64, at: Timestamp, now: Timestamp) -> bool {
        at >= self.line_ends(state, now)
    }

    /// The longest wait whose reservation stays within the bounds.
    fn horizon(&self) -> Span;

    /// Charges permits that were used at a time in the past, whether or not the limit admits them.
    fn charge_past(&self, state: &mut Self::State, cost: u64, used_at: Timestamp, _now: Timestamp) {
        self.penalize(state, Charge { cost, at: used_at, lease: LeaseId(0) }, used_at);
    }

    /// When the key is back in its initial state if `held` more permits are used until then; a bound.
    fn reset_with_held(&self, state: &Self::State, held: Held, now: Timestamp) -> Timestamp;

    /// When allotments granted now have to end at the latest; `None` if none may be granted.
    fn allotment_end(&self, _state: &Self::State, _now: Timestamp) -> Option<Timestamp> {
        Some(MAX_TIME)
    }

    /// The longest time between two calls of a process that holds an allotment. Shorter than the time in which the limit
    /// could be used up and refill.
    fn turn(&self) -> Span;
}

/// When a cost is admitted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Weighed {
    /// The first time at which the cost is admitted; `now` if that is immediately.
    pub free_at: Timestamp,
    /// The time at which the admitted request proceeds: the same, unless the rule is shaped.
    pub go_at: Timestamp,
}

/// The result of a take without a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tried {
    /// Time until it would pass; 0 if it has passed and was charged.
    pub retry_after: Span,
    /// Permits that would be admitted now.
    pub remaining: u64,
    /// Time until the key is back in its initial state.
    pub reset_after: Span,
}

impl Weighed {
    pub(crate) fn at(time: Timestamp) -> Self {
        Self { free_at: time, go_at: time }
    }
}

/// Permits to charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Charge {
    /// How many.
    pub cost: u64,
    /// The time they are charged for.
    pub at: Timestamp,
    /// The lease, for concurrency rules.
    pub lease: LeaseId,
}

/// Identifies a lease; chosen by the caller.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LeaseId(pub u64);

/// Permits to return.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GiveBack {
    /// How many.
    pub cost: u64,
    /// The time they were charged for, if the caller knows it; otherwise the latest ones not in the future.
    pub at: Option<Timestamp>,
    /// Their lease, if the caller knows it; two leases may have the same time.
    pub lease: Option<LeaseId>,
    /// No reservation depends on them: none is outstanding, or theirs is the latest.
    pub last_in_line: bool,
}

/// Summary of a key under one rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Look {
    /// Permits that would be admitted now.
    pub remaining: u64,
    /// When the key is back in its initial state; `now` or earlier if it is already.
    pub reset_at: Timestamp,
}

/// Conversion of a used amount when the limit changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scale {
    /// Unchanged.
    Same,
    /// The same share of the limit, rounded up.
    Ratio { old: u64, new: u64 },
}

impl Scale {
    pub(crate) fn apply(self, permits: u64) -> u64 {
        match self {
            Self::Same => permits,
            Self::Ratio { old, new } => {
                let scaled = (u128::from(permits) * u128::from(new)).div_ceil(u128::from(old));
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
        }
    }
}

/// The clock guard: by how much a stored time moves back after the clock has stepped back.
///
/// A clock may step back, and a store may continue with the clock of another machine. After a step within the
/// tolerance nothing drains until the clock has caught up. After a larger step the state moves back to the tolerance
/// ahead of `now`, keeps what is used, and drains from there. So a step back admits nothing early, also for waiters
/// that sleep by another clock, and delays no key by more than the tolerance.
#[inline]
pub(crate) fn stepped_back(last: Timestamp, now: Timestamp, tolerance: Span) -> Span {
    last.since(now) - tolerance
}

/// Any algorithm, so that a policy can hold a mix of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AnyAlgorithm {
    /// Token bucket (continuous), GCRA, leaky bucket.
    Bucket(Bucket),
    /// Token bucket that refills in lumps.
    Stepwise(Stepwise),
    /// Fixed window.
    Window(Window),
    /// Sliding log.
    Log(Log),
    /// Sliding counter.
    Counter(Counter),
    /// Concurrency.
    Leases(Leases),
    /// Automatic block.
    AutoBlock(AutoBlock),
}

/// Passes each call to the algorithm with its kind of state. A state of another kind counts as the initial state;
/// [`migrate`](crate::migrate) converts states before that happens.
macro_rules! dispatch {
    ($self:ident, $state:ident, $algorithm:ident, $view:ident => $call:expr) => {
        match $self {
            AnyAlgorithm::Bucket($algorithm) => {
                let $view = $state.$view().meter();
                $call
            }
            AnyAlgorithm::Stepwise($algorithm) => {
                let $view = $state.$view().meter();
                $call
            }
            AnyAlgorithm::Window($algorithm) => {
                let $view = $state.$view().meter();
                $call
            }
            AnyAlgorithm::Log($algorithm) => {
                let $view = $state.$view().log();
                $call
            }
            AnyAlgorithm::Counter($algorithm) => {
                let $view = $state.$view().counter();
                $call
            }
            AnyAlgorithm::Leases($algorithm) => {
                let $view = $state.$view().leases();
                $call
            }
            AnyAlgorithm::AutoBlock($algorithm) => {
                let $view = $state.$view().meter();
                $call
            }
        }
    };
}

impl Algorithm for AnyAlgorithm {
    type State = State;

    fn limit(&self) -> u64 {
        match self {
            Self::Bucket(it) => it.limit(),
            Self::Stepwise(it) => it.limit(),
            Self::Window(it) => it.limit(),
            Self::Log(it) => it.limit(),
            Self::Counter(it) => it.limit(),
            Self::Leases(it) => it.limit(),
            Self::AutoBlock(it) => it.limit(),
        }
    }

    fn horizon(&self) -> Span {
        match self {
            Self::Bucket(it) => it.horizon(),
            Self::Stepwise(it) => it.horizon(),
            Self::Window(it) => it.horizon(),
            Self::Log(it) => it.horizon(),
            Self::Counter(it) => it.horizon(),
            Self::Leases(it) => it.horizon(),
            Self::AutoBlock(it) => it.horizon(),
        }
    }

    fn turn(&self) -> Span {
        match self {
            Self::Bucket(it) => it.turn(),
            Self::Stepwise(it) => it.turn(),
            Self::Window(it) => it.turn(),
            Self::Log(it) => it.turn(),
            Self::Counter(it) => it.turn(),
            Self::Leases(it) => it.turn(),
            Self::AutoBlock(it) => it.turn(),
        }
    }

    fn charge_past(&self, state: &mut State, cost: u64, used_at: Timestamp, now: Timestamp) {
        dispatch!(self, state, it, write => it.charge_past(write, cost, used_at, now));
    }

    fn reset_with_held(&self, state: &State, held: Held, now: Timestamp) -> Timestamp {
        dispatch!(self, state, it, read => it.reset_with_held(read, held, now))
    }

    fn allotment_end(&self, state: &State, now: Timestamp) -> Option<Timestamp> {
        dispatch!(self, state, it, read => it.allotment_end(read, now))
    }

    /// A state of another kind is left unchanged.
    #[inline]
    fn follow(&self, state: &mut State, now: Timestamp) -> Span {
        match (self, state) {
            (Self::Bucket(it), State::Meter(meter)) => it.follow(meter, now),
            (Self::Stepwise(it), State::Meter(meter)) => it.follow(meter, now),
            (Self::Window(it), State::Meter(meter)) => it.follow(meter, now),
            (Self::Log(it), State::Log(log)) => it.follow(log, now),
            (Self::Counter(it), State::Counter(counter)) => it.follow(counter, now),
            (Self::Leases(it), State::Leases(leases)) => it.follow(leases, now),
            (Self::AutoBlock(it), State::Meter(meter)) => it.follow(meter, now),
            _ => Span::ZERO,
        }
    }

    #[inline]
    fn weigh(&self, state: &State, cost: u64, now: Timestamp) -> Weighed {
        dispatch!(self, state, it, read => it.weigh(read, cost, now))
    }

    #[inline]
    fn charge(&self, state: &mut State, charge: Charge, now: Timestamp) {
        dispatch!(self, state, it, write => it.charge(write, charge, now));
    }

    fn penalize(&self, state: &mut State, charge: Charge, now: Timestamp) {
        dispatch!(self, state, it, write => it.penalize(write, charge, now));
    }

    fn give_back(&self, state: &mut State, back: GiveBack, now: Timestamp) {
        dispatch!(self, state, it, write => it.give_back(write, back, now));
    }

    #[inline]
    fn look(&self, state: &State, now: Timestamp) -> Look {
        dispatch!(self, state, it, read => it.look(read, now))
    }

    fn is_last_in_line(&self, state: &State, cost: u64, at: Timestamp, now: Timestamp) -> bool {
        dispatch!(self, state, it, read => it.is_last_in_line(read, cost, at, now))
    }

    fn line_ends(&self, state: &State, now: Timestamp) -> Timestamp {
        dispatch!(self, state, it, read => it.line_ends(read, now))
    }
}
