//! Stall detector: closes connections whose peers do not read their responses.
//!
//! A response chunk of which the peer accepts less than 4 KiB within the stall time closes the connection. While more
//! than half of the port's budget is used, the time is two fifths. A connection whose requests are refused while its
//! socket accepts nothing is closed at the next tick: the header fields of refusals are not charged to the budget.
//!
//! Time is counted in ticks, a fifth of the stall time each, by one task per port, so that a response needs no timer.
//! Bound: a stalled connection is closed after four to five fifths of the stall time.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    account::Account,
    closed_connections::CloseReason,
    port_budget::{PortBudget, TICK_SLOTS, Tick},
};

/// The open connections of one port.
#[derive(Debug)]
pub(super) struct StallDetector {
    port: Arc<PortBudget>,
    tick: Duration,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    next_id: u64,
    open: HashMap<u64, Account>,
}

/// Removes a connection from its detector when dropped.
#[derive(Debug)]
pub(super) struct Registration {
    detector: Weak<StallDetector>,
    id: u64,
}

impl StallDetector {
    pub(super) fn new(port: Arc<PortBudget>, stall_time: Duration) -> Arc<Self> {
        let tick = stall_time.div_f64(f64::from(STALL_TICKS)).max(Duration::from_millis(1));
        Arc::new(Self { port, tick, connections: Mutex::default() })
    }

    /// Opens an account for a new connection.
    pub(super) fn register(self: &Arc<Self>) -> (Account, Registration) {
        let account = Account::new(Arc::clone(&self.port));
        let mut connections = self.connections.lock();
        let id = connections.next_id;
        connections.next_id += 1;
        connections.open.insert(id, account.clone());
        (account, Registration { detector: Arc::downgrade(self), id })
    }

    /// Checks the connections at every tick, and logs those closed for abuse. Never returns.
    pub(super) async fn run(self: Arc<Self>) {
        let mut ticks = interval(self.tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.check();
            self.port.closed_connections.log_due();
        }
    }

    fn check(&self) {
        let limit = if self.port.is_half_used() { PRESSURE_TICKS } else { STALL_TICKS };
        let now = self.port.advance();
        let slot = |age: u32| Tick(now.wrapping_sub(age) as usize % TICK_SLOTS);
        for account in self.connections.lock().open.values() {
            let is_stalled = (limit..MAX_AGE).any(|age| account.has_unsent_since(slot(age)));
            let is_refused_unread = account.take_refused_while_blocked();
            if is_stalled || is_refused_unread {
                account.close(CloseReason::Stalled);
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(detector) = self.detector.upgrade() {
            detector.connections.lock().open.remove(&self.id);
        }
    }
}

/// Ticks in the stall time.
const STALL_TICKS: u32 = 5;
/// Ticks in the stall time while more than half of the budget is used.
const PRESSURE_TICKS: u32 = 2;
/// Ages that have their own slot: one for each of [`TICK_SLOTS`].
const MAX_AGE: u32 = 8;
const _: () = assert!(MAX_AGE as usize == TICK_SLOTS);
