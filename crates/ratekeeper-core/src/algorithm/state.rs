//! State of one key under one rule.
//!
//! Three algorithms need two numbers and share the [`Meter`]; the others store a list. Lists are boxed so that the common
//! state stays small.

use std::sync::LazyLock;

use super::{CounterState, LeaseState, LogState};
use crate::time::Timestamp;

/// Two numbers: how much is used, and as of when. With `used` of 0 it is the initial state, whatever the time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Meter {
    /// The time that `used` is valid for: last change, last tick, or window start.
    pub at: Timestamp,
    /// Units or permits used, reservations included.
    pub used: u64,
}

/// The state of any algorithm.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum State {
    /// Buckets and fixed windows.
    Meter(Meter),
    /// Sliding log.
    Log(Box<LogState>),
    /// Sliding counter.
    Counter(Box<CounterState>),
    /// Concurrency.
    Leases(Box<LeaseState>),
}

impl Default for State {
    fn default() -> Self {
        Self::Meter(Meter::default())
    }
}

impl State {
    /// Heap bytes, for stores with a byte budget.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Meter(_) => 0,
            Self::Log(log) => size_of::<LogState>() + log.heap_bytes(),
            Self::Counter(counter) => size_of::<CounterState>() + counter.heap_bytes(),
            Self::Leases(leases) => size_of::<LeaseState>() + leases.heap_bytes(),
        }
    }

    #[inline]
    pub(crate) fn read(&self) -> Read<'_> {
        Read(self)
    }

    #[inline]
    pub(crate) fn write(&mut self) -> Write<'_> {
        Write(self)
    }
}

/// A state as the kind an algorithm reads; one of another kind reads as the initial state.
pub(crate) struct Read<'a>(&'a State);

impl<'a> Read<'a> {
    #[inline]
    pub(crate) fn meter(self) -> &'a Meter {
        match self.0 {
            State::Meter(meter) => meter,
            _ => &INITIAL_METER,
        }
    }

    pub(crate) fn log(self) -> &'a LogState {
        match self.0 {
            State::Log(log) => log,
            _ => &INITIAL_LOG,
        }
    }

    pub(crate) fn counter(self) -> &'a CounterState {
        match self.0 {
            State::Counter(counter) => counter,
            _ => &INITIAL_COUNTER,
        }
    }

    pub(crate) fn leases(self) -> &'a LeaseState {
        match self.0 {
            State::Leases(leases) => leases,
            _ => &INITIAL_LEASES,
        }
    }
}

/// The same for writing: a state of another kind is replaced by the initial state.
pub(crate) struct Write<'a>(&'a mut State);

macro_rules! writable {
    ($name:ident, $variant:ident, $type:ty) => {
        #[inline]
        pub(crate) fn $name(self) -> &'a mut $type {
            if !matches!(self.0, State::$variant(_)) {
                *self.0 = State::$variant(Default::default());
            }
            match self.0 {
                State::$variant(state) => state,
                _ => unreachable!("the state was set to {} above", stringify!($variant)),
            }
        }
    };
}

impl<'a> Write<'a> {
    writable!(meter, Meter, Meter);
    writable!(log, Log, LogState);
    writable!(counter, Counter, CounterState);
    writable!(leases, Leases, LeaseState);
}

static INITIAL_METER: Meter = Meter { at: Timestamp::EPOCH, used: 0 };
static INITIAL_LOG: LazyLock<LogState> = LazyLock::new(LogState::default);
static INITIAL_COUNTER: LazyLock<CounterState> = LazyLock::new(CounterState::default);
static INITIAL_LEASES: LazyLock<LeaseState> = LazyLock::new(LeaseState::default);
