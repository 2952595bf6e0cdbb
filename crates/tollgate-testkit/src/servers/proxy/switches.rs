//! What the proxy is told to do, and how its threads hear of it.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::{Duration, Instant},
};

/// The faults that are on.
#[derive(Debug, Default)]
pub(super) struct Switches {
    pub(super) delay: Duration,
    pub(super) swallow: Swallow,
    pub(super) is_blackhole: bool,
    pub(super) cut_after: Option<usize>,
}

/// Which replies are lost.
#[derive(Debug, Default)]
pub(super) enum Swallow {
    #[default]
    None,
    Next(u64),
    All,
}

/// What becomes of one reply. Settled when its first byte comes from the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    Forward,
    Swallow,
    /// So many bytes more, then the end.
    CutAfter(usize),
}

/// Switches and counters, shared by all threads of a proxy.
#[derive(Debug, Default)]
pub(super) struct Switchboard {
    switches: Mutex<Switches>,
    turned: Condvar,
    pub(super) bytes_to_server: AtomicU64,
    pub(super) bytes_to_client: AtomicU64,
    pub(super) replies_swallowed: AtomicU64,
}

impl Switchboard {
    /// Turns switches, or changes anything else a waiting thread looks at, and wakes those that wait.
    pub(super) fn turn(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.switches());
        self.turned.notify_all();
    }

    /// When a reply that comes now may go on.
    pub(super) fn due(&self) -> Instant {
        Instant::now() + self.switches().delay
    }

    /// What becomes of the reply that begins now. What a deaf connection loses is among the replies to be lost.
    pub(super) fn fate(&self, is_deaf: bool) -> Fate {
        let mut switches = self.switches();
        match &mut switches.swallow {
            Swallow::All => return Fate::Swallow,
            Swallow::Next(left) if *left > 0 => {
                *left -= 1;
                return Fate::Swallow;
            }
            Swallow::Next(_) | Swallow::None if is_deaf => return Fate::Swallow,
            Swallow::Next(_) | Swallow::None => {}
        }
        switches.cut_after.take().map_or(Fate::Forward, Fate::CutAfter)
    }

    /// Waits until then, or until it no longer matters.
    pub(super) fn wait_until_due(&self, due: Instant, is_over: impl Fn() -> bool) {
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            drop(self.turned.wait_timeout_while(self.switches(), left, |_| !is_over()));
        }
    }

    /// Waits while nothing gets through, or until it no longer matters.
    pub(super) fn wait_for_passage(&self, is_over: impl Fn() -> bool) {
        drop(self.turned.wait_while(self.switches(), |switches| switches.is_blackhole && !is_over()));
    }

    fn switches(&self) -> MutexGuard<'_, Switches> {
        self.switches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
