//! Faults that are set, and counters; shared with the threads of the proxy.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::{Duration, Instant},
};

/// The faults that are set.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) delay: Duration,
    pub(super) swallow: Swallow,
    pub(super) is_blackhole: bool,
    pub(super) cut_after: Option<usize>,
}

/// Which replies are dropped.
#[derive(Debug, Default)]
pub(super) enum Swallow {
    #[default]
    None,
    Next(u64),
    All,
}

/// The treatment of one reply; decided when its first byte arrives from the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ReplyAction {
    Forward,
    Swallow,
    /// Forward this many bytes more, then close the connection.
    CutAfter(usize),
}

/// Faults and counters, shared by all threads of a proxy.
#[derive(Debug, Default)]
pub(super) struct Switchboard {
    faults: Mutex<Faults>,
    changed: Condvar,
    pub(super) bytes_to_server: AtomicU64,
    pub(super) bytes_to_client: AtomicU64,
    pub(super) replies_swallowed: AtomicU64,
}

impl Switchboard {
    /// Changes faults, or other state that waiting threads depend on, and wakes them.
    pub(super) fn change(&self, update: impl FnOnce(&mut Faults)) {
        update(&mut self.faults());
        self.changed.notify_all();
    }

    /// When a reply that arrives now is to be delivered.
    pub(super) fn due(&self) -> Instant {
        Instant::now() + self.faults().delay
    }

    /// The treatment of the reply that begins now. Replies dropped on deaf connections count as dropped.
    pub(super) fn action(&self, is_deaf: bool) -> ReplyAction {
        let mut faults = self.faults();
        match &mut faults.swallow {
            Swallow::All => return ReplyAction::Swallow,
            Swallow::Next(left) if *left > 0 => {
                *left -= 1;
                return ReplyAction::Swallow;
            }
            Swallow::Next(_) | Swallow::None if is_deaf => return ReplyAction::Swallow,
            Swallow::Next(_) | Swallow::None => {}
        }
        faults.cut_after.take().map_or(ReplyAction::Forward, ReplyAction::CutAfter)
    }

    /// Waits until `due`, or until the connection is over.
    pub(super) fn wait_until_due(&self, due: Instant, is_over: impl Fn() -> bool) {
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            drop(self.changed.wait_timeout_while(self.faults(), left, |_| !is_over()));
        }
    }

    /// Waits while traffic is held, or until the connection is over.
    pub(super) fn wait_for_passage(&self, is_over: impl Fn() -> bool) {
        drop(self.changed.wait_while(self.faults(), |faults| faults.is_blackhole && !is_over()));
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
