//! Memory accounts: what requests under way and answers not yet sent may hold, per connection and per port.
//!
//! A request is charged when its head has come, its body as it comes in, its answer until the socket has taken it. Without
//! that, a peer that opens streams and never grants a window (RFC 9113, section 5.2) makes the server keep every answer.
//!
//! - **Bound.** A connection may hold as much as the port has left (dynamic threshold): one busy connection gets nearly the
//!   whole budget, `n` greedy ones a share of `budget / (n + 1)` each, and a newcomer as much as any of them. Every connection
//!   may hold [`GUARANTEED_BYTES`], whatever the others do. So a port is charged at most `budget + connections * GUARANTEED_BYTES`.
//! - **Progress.** An answer that the peer does not take within the stall time closes the connection; so does one of which
//!   less than [`PROGRESS_BYTES`] leave in that time. While more than half of the budget is used, the time is two fifths.
//!
//! Time is counted in ticks of a fifth of the stall time, by one task per port (`sweep`), so that an answer costs no timer.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval},
};

use super::closures::{Closures, Reason};
use crate::{
    config::Bounds,
    telemetry::{Telemetry, Wire},
};

/// The budget of a port, and the connections that share it.
pub(crate) struct PortBudget {
    budget: usize,
    used: AtomicUsize,
    tick: AtomicU32,
    every: Duration,
    connections: Mutex<Connections>,
    closures: Closures,
    used_bytes: Gauge,
    refused: Counter,
    bad_requests: Counter,
}

#[derive(Default)]
struct Connections {
    next: u64,
    open: HashMap<u64, Arc<Shared>>,
}

/// The account of one connection. Clones are the same account.
#[derive(Clone)]
pub struct Account(Arc<Shared>);

struct Shared {
    port: Arc<PortBudget>,
    held: AtomicUsize,
    /// Pieces of answers that the peer has not taken, by the tick in which they were ready.
    waiting: [AtomicU32; SLOTS],
    /// Whether the socket takes no more.
    is_blocked: AtomicBool,
    /// Whether a request was refused since the last tick.
    has_refused: AtomicBool,
    /// Why the connection is to be closed; 0 while it is not.
    closing: AtomicU8,
    close: Notify,
}

/// Bytes of an account, given back when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Account,
    bytes: usize,
}

/// Closes the account when its connection ends.
#[derive(Debug)]
pub(super) struct Registered {
    port: Arc<PortBudget>,
    id: u64,
}

/// The tick in which a piece of an answer was ready, or was taken in part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since(usize);

/// There is no room for a request or its answer.
#[derive(Debug, thiserror::Error)]
#[error("this connection holds as many requests and unread answers as it may; read answers, then ask again")]
pub(crate) struct NoRoom;

impl PortBudget {
    pub(super) fn new(wire: Wire, bounds: &Bounds, telemetry: &Arc<Telemetry>) -> Arc<Self> {
        Arc::new(Self {
            budget: bounds.pending_bytes,
            used: AtomicUsize::new(0),
            tick: AtomicU32::new(0),
            every: bounds.stall.div_f64(f64::from(STALL_TICKS)).max(Duration::from_millis(1)),
            connections: Mutex::default(),
            closures: Closures::new(wire, telemetry),
            used_bytes: telemetry.pending_bytes.get_or_create(&wire.label()).clone(),
            refused: telemetry.refused_requests.get_or_create(&wire.label()).clone(),
            bad_requests: telemetry.bad_requests.get_or_create(&wire.label()).clone(),
        })
    }

    /// An account for one more connection.
    pub(super) fn open(self: &Arc<Self>) -> (Account, Registered) {
        let shared = Arc::new(Shared {
            port: Arc::clone(self),
            held: AtomicUsize::new(0),
            waiting: Default::default(),
            is_blocked: AtomicBool::new(false),
            has_refused: AtomicBool::new(false),
            closing: AtomicU8::new(0),
            close: Notify::new(),
        });
        let mut connections = self.connections.lock();
        let id = connections.next;
        connections.next += 1;
        connections.open.insert(id, Arc::clone(&shared));
        (Account(shared), Registered { port: Arc::clone(self), id })
    }

    /// Looks after the connections for ever: closes those that take no answers, logs closures.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut ticks = interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.sweep();
            self.closures.flush();
        }
    }

    fn sweep(&self) {
        let used = self.used.load(Ordering::Relaxed);
        self.used_bytes.set(i64::try_from(used).unwrap_or(i64::MAX));
        let now = self.tick.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let patience = if used > self.budget / 2 { PRESSED_TICKS } else { STALL_TICKS };
        for connection in self.connections.lock().open.values() {
            let is_stalled = (patience..SLOTS_U32).any(|age| {
                let slot = now.wrapping_sub(age) as usize % SLOTS;
                connection.waiting[slot].load(Ordering::Relaxed) > 0
            });
            let refused = connection.has_refused.swap(false, Ordering::Relaxed);
            // The headers of a refusal wait for the socket as well, and nothing else counts them.
            let is_deaf = refused && connection.is_blocked.load(Ordering::Relaxed);
            if is_stalled || is_deaf {
                connection.close(Reason::Stalled);
            }
        }
    }

    pub(super) fn bad_requests(&self) -> &Counter {
        &self.bad_requests
    }

    pub(super) fn closures(&self) -> &Closures {
        &self.closures
    }

    fn now(&self) -> Since {
        Since(self.tick.load(Ordering::Relaxed) as usize % SLOTS)
    }
}

impl Shared {
    fn close(&self, reason: Reason) {
        if self.closing.compare_exchange(0, reason as u8, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.close.notify_one();
        }
    }
}

impl Account {
    /// Charges the account, unless it holds too much already.
    pub(crate) fn charge(&self, bytes: usize) -> Result<Charge, NoRoom> {
        let bytes = bytes.min(self.0.port.budget / 2);
        let left = self.0.port.budget.saturating_sub(self.0.port.used.load(Ordering::Relaxed));
        if self.0.held.load(Ordering::Relaxed) + bytes > left.max(GUARANTEED_BYTES) {
            self.0.has_refused.store(true, Ordering::Relaxed);
            self.0.port.refused.inc();
            return Err(NoRoom);
        }
        Ok(self.charge_anyway(bytes))
    }

    /// Charges what has been admitted already.
    pub(super) fn charge_anyway(&self, bytes: usize) -> Charge {
        self.0.held.fetch_add(bytes, Ordering::Relaxed);
        self.0.port.used.fetch_add(bytes, Ordering::Relaxed);
        Charge { account: self.clone(), bytes }
    }

    /// A piece of an answer is ready for the peer.
    pub(super) fn waits(&self) -> Since {
        let since = self.0.port.now();
        self.0.waiting[since.0].fetch_add(1, Ordering::Relaxed);
        since
    }

    /// The peer has taken a good part of it: its time begins anew.
    pub(super) fn waits_on(&self, since: Since) -> Since {
        let now = self.waits();
        self.waits_no_more(since);
        now
    }

    /// The peer has taken it, or never will.
    pub(super) fn waits_no_more(&self, since: Since) {
        self.0.waiting[since.0].fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the socket takes no more.
    pub(super) fn is_blocked(&self, is_blocked: bool) {
        // Written seldom, since it is read by others.
        if self.0.is_blocked.load(Ordering::Relaxed) != is_blocked {
            self.0.is_blocked.store(is_blocked, Ordering::Relaxed);
        }
    }

    /// Wants the connection closed.
    pub(super) fn close(&self, reason: Reason) {
        self.0.close(reason);
    }

    /// Why the connection is to be closed, if it is.
    pub(super) fn closing(&self) -> Option<Reason> {
        Reason::of(self.0.closing.load(Ordering::Relaxed))
    }

    /// Waits until the connection is to be closed.
    pub(crate) async fn closed(&self) {
        while self.closing().is_none() {
            self.0.close.notified().await;
        }
    }

    pub(super) fn port(&self) -> &PortBudget {
        &self.0.port
    }
}

impl Charge {
    /// Of which account.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Charges more, unless that is too much.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let mut more = self.account.charge(bytes)?;
        self.bytes += std::mem::take(&mut more.bytes);
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.0.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.account.0.port.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.port.connections.lock().open.remove(&self.id);
    }
}

impl fmt::Debug for PortBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortBudget").field("budget", &self.budget).field("used", &self.used).finish_non_exhaustive()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("held", &self.0.held).finish_non_exhaustive()
    }
}

/// What every connection may hold: a handful of requests, or a few with longer bodies.
pub(super) const GUARANTEED_BYTES: usize = 16 << 10;
/// What is charged for a request from its head to the end of its answer: the task, the stream's state in h2 and hyper, the
/// usual header fields. An estimate; the tables of streams that h2 keeps until the connection ends are not in it.
pub(crate) const REQUEST_BYTES: usize = 4 << 10;
/// An answer that is taken slowly is taken at no less than this in a stall time.
pub(super) const PROGRESS_BYTES: usize = 4 << 10;
/// The stall time has so many ticks; under pressure it has fewer.
const STALL_TICKS: u32 = 5;
const PRESSED_TICKS: u32 = 2;
/// Ticks that are counted apart: the stall time, and what passes until a connection that is to be closed is gone.
const SLOTS: usize = 8;
const SLOTS_U32: u32 = 8;

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
