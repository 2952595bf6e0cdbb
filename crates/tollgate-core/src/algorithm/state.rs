//! What is remembered of one key under one rule.
//!
//! Three algorithms need two numbers and share the [`Meter`]; the others keep a list. Lists are boxed so that the
//! common state stays small.

use std::sync::LazyLock;

use super::{CounterState, LeaseState, LogState};
use crate::time::Micros;

/// Two numbers: how much is used, and as of when. `used` of 0 means never seen, whatever the time says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Meter {
    /// The instant `used` holds for: last change, last tick, or window start.
    pub at: Micros,
    /// Units or permits used, those reserved for later included.
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
    /// Bytes kept on the heap, for stores that live within a budget.
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

/// A state seen as the kind an algorithm wants; one of another kind reads as never seen.
pub(crate) struct Read<'a>(&'a State);

impl<'a> Read<'a> {
    #[inline]
    pub(crate) fn meter(self) -> &'a Meter {
        match self.0 {
            State::Meter(meter) => meter,
            _ => &UNSEEN_METER,
        }
    }

    pub(crate) fn log(self) -> &'a LogState {
        match self.0 {
            State::Log(log) => log,
            _ => &UNSEEN_LOG,
        }
    }

    pub(crate) fn counter(self) -> &'a CounterState {
        match self.0 {
            State::Counter(counter) => counter,
            _ => &UNSEEN_COUNTER,
        }
    }

    pub(crate) fn leases(self) -> &'a LeaseState {
        match self.0 {
            State::Leases(leases) => leases,
            _ => &UNSEEN_LEASES,
        }
    }
}

/// The same for writing: a state of another kind is replaced by a fresh one.
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
                _ => unreachable!("the state was made {} just above", stringify!($variant)),
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

static UNSEEN_METER: Meter = Meter { at: Micros::ZERO, used: 0 };
static UNSEEN_LOG: LazyLock<LogState> = LazyLock::new(LogState::default);
static UNSEEN_COUNTER: LazyLock<CounterState> = LazyLock::new(CounterState::default);
static UNSEEN_LEASES: LazyLock<LeaseState> = LazyLock::new(LeaseState::default);
