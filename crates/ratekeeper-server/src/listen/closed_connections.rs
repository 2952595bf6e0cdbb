//! Connections closed for abuse: counted by reason, logged at most once a minute per reason.
//!
//! A peer can cause any number of closures, so one log line for each would let it fill the log.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

use crate::telemetry::{ClosureLabels, Telemetry, Wire};

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum CloseReason {
    /// The peer does not read its responses.
    Stalled = 1,
    /// The budget of control frames is exhausted.
    ControlFrames = 2,
    /// Closed by h2: too many resets, header blocks in too many frames, tiny DATA frames.
    Flood = 3,
}

const REASONS: [CloseReason; 3] = [CloseReason::Stalled, CloseReason::ControlFrames, CloseReason::Flood];

/// The connections of a port that were closed for abuse.
#[derive(Debug)]
pub(crate) struct ClosedConnections {
    wire: Wire,
    by_reason: [CountAndLog; 3],
}

#[derive(Debug)]
struct CountAndLog {
    counter: Counter,
    log: Mutex<LogThrottle>,
}

#[derive(Debug, Default)]
struct LogThrottle {
    /// Closures since the last line.
    unlogged: u64,
    last_line: Option<Instant>,
}

impl CloseReason {
    pub(super) fn from_number(number: u8) -> Option<Self> {
        REASONS.into_iter().find(|reason| *reason as u8 == number)
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Stalled => "stalled",
            Self::ControlFrames => "control_frames",
            Self::Flood => "flood",
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::Stalled => "connections were closed that did not read their responses",
            Self::ControlFrames => "connections were closed that exhausted their budget of control frames",
            Self::Flood => {
                "connections were closed for too many stream resets, CONTINUATION frames or tiny DATA frames"
            }
        }
    }
}

impl ClosedConnections {
    pub(super) fn new(wire: Wire, telemetry: &Arc<Telemetry>) -> Self {
        let by_reason = REASONS.map(|reason| {
            let labels = ClosureLabels { wire: wire.name(), reason: reason.label() };
            CountAndLog { counter: telemetry.closed_connections.get_or_create(&labels).clone(), log: Mutex::default() }
        });
        Self { wire, by_reason }
    }

    /// Counts one, and logs it if a line is due.
    pub(super) fn count(&self, reason: CloseReason) {
        let CountAndLog { counter, log } = self.of(reason);
        counter.inc();
        log.lock().unlogged += 1;
        self.log_due_for(reason);
    }

    /// Logs the reasons for which a line is due.
    pub(super) fn log_due(&self) {
        REASONS.into_iter().for_each(|reason| self.log_due_for(reason));
    }

    fn log_due_for(&self, reason: CloseReason) {
        let Some(closed) = self.of(reason).log.lock().take_due(Instant::now()) else { return };
        tracing::warn!(wire = self.wire.name(), reason = reason.label(), closed, "{}", reason.message());
    }

    fn of(&self, reason: CloseReason) -> &CountAndLog {
        &self.by_reason[reason as usize - 1]
    }
}

impl LogThrottle {
    /// How many closures to log now; `None` if there are none or the last line is recent.
    fn take_due(&mut self, now: Instant) -> Option<u64> {
        let is_early = self.last_line.is_some_and(|last| now.saturating_duration_since(last) < LOG_INTERVAL);
        if self.unlogged == 0 || is_early {
            return None;
        }
        self.last_line = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

const LOG_INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_closure_is_logged_at_once_and_later_ones_once_a_minute() {
        let (mut log, start) = (LogThrottle::default(), Instant::now());
        assert_eq!(log.take_due(start), None, "no closures");
        log.unlogged += 1;
        assert_eq!(log.take_due(start), Some(1));
        log.unlogged += 3_000;
        assert_eq!(log.take_due(start + LOG_INTERVAL - Duration::from_millis(1)), None);
        log.unlogged += 147;
        assert_eq!(log.take_due(start + LOG_INTERVAL), Some(3_147));
        assert_eq!(log.take_due(start + 3 * LOG_INTERVAL), None);
    }
}
