//! Speed of a shared limit: one store call per decision, or permits that are prepaid to each process.
//!
//! An exact policy asks the store for every decision (requests of one key that arrive together share a call). A prepaid
//! policy lets a process hold an [allotment](crate::store_api::Allotment) of a busy key and decide in memory. Both keep
//! the limit in every window. Prepaid, a request may be denied although another process holds permits that it will not
//! use; `docs/hot-keys.md` states by how much.

use crate::time::Span;

/// How decisions about a shared limit are made. A store in process memory ignores it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Speed {
    /// The store decides every request.
    #[default]
    Exact,
    /// Busy keys are decided in the process, by permits that the store has granted in advance.
    Prepaid(Prepaid),
}

impl Speed {
    /// Prepaid with the default numbers.
    pub const fn prepaid() -> Self {
        Self::Prepaid(Prepaid::new())
    }
}

/// The numbers of prepaid decisions. Safety does not depend on them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Prepaid {
    /// Permits per second, in this process, from which a key is hot and gets an allotment.
    pub hot_per_second: u64,
    /// The longest turn: the time between two calls of a hot key. Quotas that refill quickly have shorter ones.
    pub turn: Span,
    /// How long an allotment lasts; zero means ten turns.
    pub hold: Span,
    /// The longest time for which a denial is repeated without a call.
    pub remember: Span,
}

impl Prepaid {
    /// The defaults: hot from 100 permits per second, turns of 100 ms at most, denials remembered for 50 ms at most.
    pub const fn new() -> Self {
        Self { hot_per_second: 100, turn: Span::from_millis(100), hold: Span::ZERO, remember: Span::from_millis(50) }
    }

    /// Permits per second from which a key is hot.
    #[must_use]
    pub const fn hot_per_second(mut self, permits: u64) -> Self {
        self.hot_per_second = permits;
        self
    }

    /// The longest turn; 1 ms to 1 s.
    #[must_use]
    pub fn turn(mut self, turn: Span) -> Self {
        self.turn = turn.max(MIN_TURN).min(Span::SECOND);
        self
    }

    /// How long an allotment lasts; between two turns and a minute.
    #[must_use]
    pub fn hold(mut self, hold: Span) -> Self {
        self.hold = hold.min(Span::MINUTE);
        self
    }

    /// The longest time for which a denial is repeated without a call; 50 ms at most.
    #[must_use]
    pub fn remember(mut self, remember: Span) -> Self {
        self.remember = remember.min(Span::from_millis(50));
        self
    }
}

impl Default for Prepaid {
    fn default() -> Self {
        Self::new()
    }
}

/// The shortest turn. A quota that allows only shorter ones is decided exactly.
pub const MIN_TURN: Span = Span::MILLISECOND;
