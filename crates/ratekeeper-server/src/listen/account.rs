//! Memory account of a connection: what its in-flight requests and unsent responses hold.
//!
//! A request is charged when its header block is complete, its body as it is received, its response until the socket has
//! accepted it. Without that, a peer that opens streams and never grants a window (RFC 9113, section 5.2) makes the
//! server keep every response.
//!
//! Bound: a connection may hold as much as its port has left (dynamic threshold). One busy connection gets half of the
//! budget, `n` greedy ones `budget / (n + 1)` each, and a new connection as much as any of them. Every connection may
//! hold [`GUARANTEED_BYTES`], whatever the others hold. So a port is charged at most
//! `budget + connections * GUARANTEED_BYTES`.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

use super::{
    closed_connections::CloseReason,
    port_budget::{PortBudget, TICK_SLOTS, Tick},
};

/// The account of one connection. Clones share it.
#[derive(Clone)]
pub struct Account(Arc<AccountState>);

struct AccountState {
    port: Arc<PortBudget>,
    held: AtomicUsize,
    /// Chunks of responses that the peer has not accepted, by the tick in which they were ready.
    unsent: [AtomicU32; TICK_SLOTS],
    is_write_blocked: AtomicBool,
    /// Whether a request was refused since the last tick.
    has_refused: AtomicBool,
    /// The [`CloseReason`]; 0 while the connection stays open.
    close_reason: AtomicU8,
    close: Notify,
    /// Refusals that h2 has not received yet, and the reader that waits for that.
    refusals: AtomicU32,
    reader: AtomicWaker,
}

/// A refusal that h2 has not received yet; ends when dropped.
#[derive(Debug)]
pub(crate) struct PendingRefusal(Account);

/// Bytes charged to an account, returned when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Account,
    bytes: usize,
}

/// The account or its port has no bytes left for a request or its response.
#[derive(Debug, thiserror::Error)]
#[error("this connection has too many requests in flight or responses unread; read responses, then retry")]
pub(crate) struct OutOfBudget;

impl Account {
    pub(super) fn new(port: Arc<PortBudget>) -> Self {
        Self(Arc::new(AccountState {
            port,
            held: AtomicUsize::new(0),
            unsent: Default::default(),
            is_write_blocked: AtomicBool::new(false),
            has_refused: AtomicBool::new(false),
            close_reason: AtomicU8::new(0),
            close: Notify::new(),
            refusals: AtomicU32::new(0),
            reader: AtomicWaker::new(),
        }))
    }

    pub(super) fn port(&self) -> &PortBudget {
        &self.0.port
    }

    /// Charges the account, unless it would hold too much.
    pub(crate) fn charge(&self, bytes: usize) -> Result<Charge, OutOfBudget> {
        let bytes = bytes.min(self.port().max_charge());
        if self.0.held.load(Ordering::Relaxed) + bytes > self.port().available().max(GUARANTEED_BYTES) {
            self.0.has_refused.store(true, Ordering::Relaxed);
            self.port().refused_requests.inc();
            return Err(OutOfBudget);
        }
        Ok(self.charge_unchecked(bytes))
    }

    /// Charges what has been admitted already.
    pub(super) fn charge_unchecked(&self, bytes: usize) -> Charge {
        self.0.held.fetch_add(bytes, Ordering::Relaxed);
        self.port().add(bytes);
        Charge { account: self.clone(), bytes }
    }

    /// Counts a refusal until it is dropped.
    pub(super) fn refusal(&self) -> PendingRefusal {
        self.0.refusals.fetch_add(1, Ordering::Relaxed);
        PendingRefusal(self.clone())
    }

    /// Ready when h2 has received all refusals.
    pub(super) fn poll_refusals_sent(&self, cx: &mut Context<'_>) -> Poll<()> {
        let has_none = || self.0.refusals.load(Ordering::Acquire) == 0;
        if has_none() {
            return Poll::Ready(());
        }
        self.0.reader.register(cx.waker());
        // The last refusal may have been dropped before the waker was registered.
        if has_none() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Counts a chunk of a response that is ready to be sent.
    pub(super) fn add_unsent(&self) -> Tick {
        let tick = self.port().now();
        self.0.unsent[tick.0].fetch_add(1, Ordering::Relaxed);
        tick
    }

    /// Restarts the stall time of a chunk of which the peer has accepted a part.
    pub(super) fn renew_unsent(&self, since: Tick) -> Tick {
        let now = self.add_unsent();
        self.remove_unsent(since);
        now
    }

    /// The peer has accepted a chunk, or its stream has ended.
    pub(super) fn remove_unsent(&self, since: Tick) {
        self.0.unsent[since.0].fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a chunk has been unsent since this tick.
    pub(super) fn has_unsent_since(&self, tick: Tick) -> bool {
        self.0.unsent[tick.0].load(Ordering::Relaxed) > 0
    }

    /// Records whether the socket accepts no more bytes.
    pub(super) fn set_write_blocked(&self, is_blocked: bool) {
        // Written only on change: the stall detector reads it on another core.
        if self.0.is_write_blocked.load(Ordering::Relaxed) != is_blocked {
            self.0.is_write_blocked.store(is_blocked, Ordering::Relaxed);
        }
    }

    /// Whether a request was refused since the last call while the socket accepts no more bytes.
    pub(super) fn take_refused_while_blocked(&self) -> bool {
        self.0.has_refused.swap(false, Ordering::Relaxed) && self.0.is_write_blocked.load(Ordering::Relaxed)
    }

    /// Requests that the connection is closed. The first reason counts.
    pub(super) fn close(&self, reason: CloseReason) {
        let reason = reason as u8;
        if self.0.close_reason.compare_exchange(0, reason, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.0.close.notify_one();
        }
    }

    /// Why the connection is to be closed, if it is.
    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        CloseReason::from_number(self.0.close_reason.load(Ordering::Relaxed))
    }

    /// Waits until the connection is to be closed.
    pub(crate) async fn close_requested(&self) {
        while self.close_reason().is_none() {
            self.0.close.notified().await;
        }
    }
}

impl Charge {
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Charges more, unless the account would hold too much.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), OutOfBudget> {
        let mut more = self.account.charge(bytes)?;
        self.bytes += std::mem::take(&mut more.bytes);
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.0.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.account.port().subtract(self.bytes);
    }
}

impl Drop for PendingRefusal {
    fn drop(&mut self) {
        let Self(Account(state)) = self;
        if state.refusals.fetch_sub(1, Ordering::AcqRel) == 1 {
            state.reader.wake();
        }
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("held", &self.0.held).finish_non_exhaustive()
    }
}

/// A handful of requests, or fewer with long bodies: one page of metrics of a server with few policies.
pub(super) const GUARANTEED_BYTES: usize = 24 << 10;
/// Charged for a request from its header block to the end of its response: the task, the stream's state in h2 and hyper,
/// the usual header fields. An estimate, without h2's stream tables, which are freed with the connection.
pub(crate) const REQUEST_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests;
