//! What every algorithm answers, the clock guard they share, and the list of them.
//!
//! An algorithm is asked in two halves, so that several rules can agree on one moment before any of them is charged:
//! [`Algorithm::weigh`] says when a cost could go and changes nothing; [`Algorithm::charge`] books it for the moment
//! that suited all. One rule alone is the same thing with nobody to agree with.
//!
//! All times are instants the caller brings. All numbers are integers below 2^53 (see [`bounds`](crate::bounds)), so
//! the Lua twin of each file, computing in doubles, arrives at the same ones.

mod bucket;
mod counter;
mod leases;
mod log;
mod state;
mod stepwise;
mod window;

pub(crate) use bucket::Poured;
pub use bucket::{Bucket, lowest_terms};
pub use counter::{Counter, CounterState};
pub use leases::{Lease, LeaseState, Leases};
pub use log::{Log, LogState};
pub use state::{Meter, State};
pub use stepwise::Stepwise;
pub use window::{Schedule, Window};

use crate::time::Micros;

/// One way of counting, with its numbers worked out.
pub trait Algorithm {
    /// What is remembered per key. The default is a key never seen.
    type State: Default;

    /// The most permits that can go at one instant. A larger cost can never pass; callers check that first.
    fn limit(&self) -> u64;

    /// Moves the state along with a clock that has stepped back far; says how far. To be called before anything else
    /// is asked, and kept even if nothing else changes: a key that is only ever refused would wait for ever otherwise.
    fn follow(&self, state: &mut Self::State, now: Micros) -> Micros;

    /// When could `cost` permits go, if nobody else came?
    fn weigh(&self, state: &Self::State, cost: u64, now: Micros) -> Weighed;

    /// Books permits for a moment that [`weigh`](Self::weigh) found free, or a later one.
    fn charge(&self, state: &mut Self::State, charge: Charge, now: Micros);

    /// A plain try while the clock runs forward, in one go: the same answer as weigh, charge and look together, for
    /// algorithms on the path of most decisions. `None` where those have more to say; then nothing was changed.
    #[inline]
    fn try_quickly(&self, _state: &mut Self::State, _cost: u64, _now: Micros) -> Option<Tried> {
        None
    }

    /// Books permits at once, free or not.
    fn penalize(&self, state: &mut Self::State, charge: Charge, now: Micros);

    /// Takes permits back, as far as no promise rests on them.
    fn give_back(&self, state: &mut Self::State, back: GiveBack, now: Micros);

    /// What a caller may be told of the key.
    fn look(&self, state: &Self::State, now: Micros) -> Look;

    /// The latest moment that anybody was told to wait for, as far as the state shows; `now` or earlier if none.
    fn line_ends(&self, state: &Self::State, now: Micros) -> Micros;

    /// Whether permits booked for `at` are the last in line, where no other rule has a say.
    fn is_last_in_line(&self, state: &Self::State, _cost: u64, at: Micros, now: Micros) -> bool {
        at >= self.line_ends(state, now)
    }

    /// The longest wait whose booking still fits the numbers.
    fn horizon(&self) -> Micros;
}

/// When a cost could go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Weighed {
    /// The first moment at which the cost is admitted; `now` if that is at once.
    pub free_at: Micros,
    /// The moment the admitted request goes: the same, except where the outflow is shaped.
    pub go_at: Micros,
}

/// The outcome of a plain try.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tried {
    /// How long until it would pass; 0 if it did, and was charged.
    pub retry_after: Micros,
    /// Permits that would still go at once.
    pub remaining: u64,
    /// How long until the key is as good as new.
    pub reset_after: Micros,
}

impl Weighed {
    pub(crate) fn at(moment: Micros) -> Self {
        Self { free_at: moment, go_at: moment }
    }
}

/// Permits to be booked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Charge {
    /// How many.
    pub cost: u64,
    /// When they go.
    pub at: Micros,
    /// Who holds them, for algorithms that care.
    pub lease: LeaseId,
}

/// Names one holder of permits, chosen by whoever asks.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LeaseId(pub u64);

/// Permits to be taken back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GiveBack {
    /// How many.
    pub cost: u64,
    /// When they were to go, if the caller knows; else the latest ones already gone.
    pub at: Option<Micros>,
    /// Who held them, if the caller knows; a moment does not tell two holders apart.
    pub lease: Option<LeaseId>,
    /// Nobody stands behind them: no reservation is outstanding, or theirs is the last.
    pub last_in_line: bool,
}

/// A key at a glance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Look {
    /// Permits that would still go at once.
    pub remaining: u64,
    /// When the key is as good as new; `now` or earlier if it is already.
    pub rests_at: Micros,
}

/// What becomes of a used amount when the limit changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scale {
    /// It stays.
    Same,
    /// It keeps its share of the limit, rounded up.
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

/// The clock guard: by how much a stored instant has to move back for the rest to be waited out.
///
/// A clock may step back, and a store may wake up on another machine's clock. A small step is waited out: nothing
/// drains until the clock has caught up. A large one moves the state along, to where the rest can be waited out: it
/// keeps its debt and drains from then on. So a step back frees nothing, not even for those who sleep until a promised
/// moment by a clock of their own, and locks nobody out for longer than the tolerance.
#[inline]
pub(crate) fn stepped_back(last: Micros, now: Micros, tolerance: Micros) -> Micros {
    last - now - tolerance
}

/// Any algorithm, so that a policy can hold a mix of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Limiting {
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
}

/// Hands each call to the algorithm with the state it understands. A state of another kind counts as never seen;
/// [`change`](crate::change) sees to it that this only happens where it is meant.
macro_rules! dispatch {
    ($self:ident, $state:ident, $algorithm:ident, $view:ident => $call:expr) => {
        match $self {
            Limiting::Bucket($algorithm) => {
                let $view = $state.$view().meter();
                $call
            }
            Limiting::Stepwise($algorithm) => {
                let $view = $state.$view().meter();
                $call
            }
            Limiting::Window($algorithm) => {
                let $view = $state.$view().meter();
                $call
            }
            Limiting::Log($algorithm) => {
                let $view = $state.$view().log();
                $call
            }
            Limiting::Counter($algorithm) => {
                let $view = $state.$view().counter();
                $call
            }
            Limiting::Leases($algorithm) => {
                let $view = $state.$view().leases();
                $call
            }
        }
    };
}

impl Algorithm for Limiting {
    type State = State;

    fn limit(&self) -> u64 {
        match self {
            Self::Bucket(it) => it.limit(),
            Self::Stepwise(it) => it.limit(),
            Self::Window(it) => it.limit(),
            Self::Log(it) => it.limit(),
            Self::Counter(it) => it.limit(),
            Self::Leases(it) => it.limit(),
        }
    }

    fn horizon(&self) -> Micros {
        match self {
            Self::Bucket(it) => it.horizon(),
            Self::Stepwise(it) => it.horizon(),
            Self::Window(it) => it.horizon(),
            Self::Log(it) => it.horizon(),
            Self::Counter(it) => it.horizon(),
            Self::Leases(it) => it.horizon(),
        }
    }

    /// A state of another kind has nothing to move, and is left as it is.
    #[inline]
    fn follow(&self, state: &mut State, now: Micros) -> Micros {
        match (self, state) {
            (Self::Bucket(it), State::Meter(meter)) => it.follow(meter, now),
            (Self::Stepwise(it), State::Meter(meter)) => it.follow(meter, now),
            (Self::Window(it), State::Meter(meter)) => it.follow(meter, now),
            (Self::Log(it), State::Log(log)) => it.follow(log, now),
            (Self::Counter(it), State::Counter(counter)) => it.follow(counter, now),
            (Self::Leases(it), State::Leases(leases)) => it.follow(leases, now),
            _ => Micros::ZERO,
        }
    }

    #[inline]
    fn weigh(&self, state: &State, cost: u64, now: Micros) -> Weighed {
        dispatch!(self, state, it, read => it.weigh(read, cost, now))
    }

    #[inline]
    fn charge(&self, state: &mut State, charge: Charge, now: Micros) {
        dispatch!(self, state, it, write => it.charge(write, charge, now));
    }

    fn penalize(&self, state: &mut State, charge: Charge, now: Micros) {
        dispatch!(self, state, it, write => it.penalize(write, charge, now));
    }

    fn give_back(&self, state: &mut State, back: GiveBack, now: Micros) {
        dispatch!(self, state, it, write => it.give_back(write, back, now));
    }

    #[inline]
    fn look(&self, state: &State, now: Micros) -> Look {
        dispatch!(self, state, it, read => it.look(read, now))
    }

    fn is_last_in_line(&self, state: &State, cost: u64, at: Micros, now: Micros) -> bool {
        dispatch!(self, state, it, read => it.is_last_in_line(read, cost, at, now))
    }

    fn line_ends(&self, state: &State, now: Micros) -> Micros {
        dispatch!(self, state, it, read => it.line_ends(read, now))
    }
}
