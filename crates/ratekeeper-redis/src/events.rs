//! Log events of the store and its link, emitted through `tracing` under the target `ratekeeper_redis`.
//!
//! | level | events |
//! |---|---|
//! | WARN | store unreachable (`link/outage.rs`), foreign value under a key |
//! | INFO | store reachable again, fallback begins and ends, stored state migrated, local grants charged, primary or cluster nodes changed |
//! | DEBUG | connection opened or failed, circuit breaker opened or closed, redirect, script reloaded |
//!
//! Bound: every kind of event is limited to one line per [`EVERY`]; a line carries the number of events since the last
//! one. No event contains a key, a stored value or a credential. Without a subscriber an event costs one atomic load,
//! and the limit is not consulted.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::address::HostPort;

/// The target of all events of this crate.
pub(crate) const TARGET: &str = "ratekeeper_redis";

/// The limits of all kinds of events of one link.
#[derive(Debug, Default)]
pub(crate) struct Events {
    connected: EventLimit,
    connect_failed: EventLimit,
    breaker_opened: EventLimit,
    breaker_closed: EventLimit,
    redirected: EventLimit,
    script_reloaded: EventLimit,
    primary_changed: EventLimit,
    cluster_changed: EventLimit,
    migrated: EventLimit,
    foreign: EventLimit,
}

/// Emits the event if its level is enabled and its limit admits it, with the field `events`: how many there were since
/// the last line.
macro_rules! bounded {
    ($limit:expr, $level:ident, $($field:tt)*) => {
        if tracing::enabled!(target: TARGET, tracing::Level::$level)
            && let Some(events) = $limit.admit(Instant::now())
        {
            tracing::event!(target: TARGET, tracing::Level::$level, events, $($field)*);
        }
    };
}

impl Events {
    pub(crate) fn connected(&self, server: &HostPort) {
        bounded!(self.connected, DEBUG, %server, "connected");
    }

    pub(crate) fn connect_failed(&self, server: &HostPort, cause: &impl Display) {
        bounded!(self.connect_failed, DEBUG, %server, %cause, "connecting failed");
    }

    pub(crate) fn breaker_opened(&self, server: &HostPort) {
        bounded!(self.breaker_opened, DEBUG, %server, "circuit breaker opened");
    }

    pub(crate) fn breaker_closed(&self, server: &HostPort) {
        bounded!(self.breaker_closed, DEBUG, %server, "circuit breaker closed");
    }

    pub(crate) fn redirected(&self, slot: u16, from: &HostPort, to: &str) {
        bounded!(self.redirected, DEBUG, slot, %from, %to, "redirected to another node");
    }

    pub(crate) fn script_reloaded(&self, server: &HostPort, sha1: &str) {
        bounded!(self.script_reloaded, DEBUG, %server, %sha1, "script missing on the server; sent in full");
    }

    pub(crate) fn primary_changed(&self, from: &HostPort, to: &HostPort) {
        bounded!(self.primary_changed, INFO, %from, %to, "another server is the primary");
    }

    pub(crate) fn cluster_changed(&self, nodes: usize, added: usize, removed: usize) {
        bounded!(self.cluster_changed, INFO, nodes, added, removed, "nodes of the cluster changed");
    }

    pub(crate) fn migrated(&self, policy: &str) {
        bounded!(self.migrated, INFO, policy, "stored state migrated to other rules");
    }

    /// `policy` owns the key; `bytes` is the length of the value, `None` if it is no string.
    pub(crate) fn foreign(&self, policy: &str, bytes: Option<usize>, action: &'static str) {
        bounded!(self.foreign, WARN, policy, bytes, action, "a key holds a value that cannot be read");
    }
}

/// Limits one kind of event to one line per [`EVERY`].
#[derive(Debug, Default)]
pub(crate) struct EventLimit(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    last_line: Option<Instant>,
    suppressed: u64,
}

impl EventLimit {
    /// The number of events since the last line, this one included; `None` if no line is due.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut window = self.0.lock();
        if window.last_line.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            window.suppressed += 1;
            return None;
        }
        window.last_line = Some(now);
        Some(std::mem::take(&mut window.suppressed) + 1)
    }
}

/// One line per kind of event in this time.
const EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand events in a second are one line; the next line carries their number.
    #[test]
    fn suppressed_events_are_counted_by_the_next_line() {
        let (limit, start) = (EventLimit::default(), Instant::now());
        assert_eq!(limit.admit(start), Some(1));
        for millis in 1..1_000 {
            assert_eq!(limit.admit(start + Duration::from_millis(millis)), None);
        }
        assert_eq!(limit.admit(start + EVERY), Some(1_000));
        assert_eq!(limit.admit(start + 3 * EVERY), Some(1));
    }
}
