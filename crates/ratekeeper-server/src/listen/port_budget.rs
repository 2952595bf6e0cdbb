//! Memory budget of a port: what its in-flight requests and unsent responses may hold.
//!
//! The budget bounds an estimate, not the allocator: connections charge it through their [`Account`](super::Account).
//! The metrics of a port that connections update are here as well.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use super::closed_connections::ClosedConnections;
use crate::{
    config::Bounds,
    telemetry::{Telemetry, Wire},
};

/// The budget of one port.
#[derive(Debug)]
pub(crate) struct PortBudget {
    bytes: usize,
    used: AtomicUsize,
    tick: AtomicU32,
    used_bytes: Gauge,
    pub(super) refused_requests: Counter,
    pub(super) bad_requests: Counter,
    pub(super) closed_connections: ClosedConnections,
}

/// A tick of the port's stall clock, modulo [`TICK_SLOTS`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Tick(pub(super) usize);

impl PortBudget {
    pub(super) fn new(wire: Wire, bounds: &Bounds, telemetry: &Arc<Telemetry>) -> Arc<Self> {
        // The responses of the admin port are longer and its clients fewer.
        let bytes = if wire == Wire::Admin { bounds.pending_bytes / 2 } else { bounds.pending_bytes };
        telemetry.watch_port(wire, bounds.connections, bytes);
        Arc::new(Self {
            bytes,
            used: AtomicUsize::new(0),
            tick: AtomicU32::new(0),
            used_bytes: telemetry.pending_bytes.get_or_create(&wire.label()).clone(),
            refused_requests: telemetry.refused_requests.get_or_create(&wire.label()).clone(),
            bad_requests: telemetry.bad_requests.get_or_create(&wire.label()).clone(),
            closed_connections: ClosedConnections::new(wire, telemetry),
        })
    }

    /// The largest charge: half of the budget, so that one long response can be sent.
    pub(super) fn max_charge(&self) -> usize {
        self.bytes / 2
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn available(&self) -> usize {
        self.bytes.saturating_sub(self.used())
    }

    pub(super) fn add(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether HTTP/2 is to be read in small pieces.
    pub(super) fn is_under_pressure(&self) -> bool {
        self.used() > self.bytes / PRESSURE_PART
    }

    /// Whether stalled connections are to be closed sooner.
    pub(super) fn is_half_used(&self) -> bool {
        self.used() > self.bytes / 2
    }

    /// The current tick.
    pub(super) fn now(&self) -> Tick {
        Tick(self.tick.load(Ordering::Relaxed) as usize % TICK_SLOTS)
    }

    /// Starts the next tick, updates the gauge, and returns the number of the new tick.
    pub(super) fn advance(&self) -> u32 {
        self.used_bytes.set(i64::try_from(self.used()).unwrap_or(i64::MAX));
        self.tick.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

/// Ticks that are distinguished: the stall time, and the time until a connection that is closed is gone.
pub(super) const TICK_SLOTS: usize = 8;
/// Above this part of the budget, HTTP/2 is read in small pieces.
const PRESSURE_PART: usize = 8;
