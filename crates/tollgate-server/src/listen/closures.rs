//! Connections closed for abuse: counted by reason, logged at most once a minute for each.
//!
//! A peer can have as many connections closed as it likes, so a line for each would let it write the log.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

use crate::telemetry::{ClosureLabels, Telemetry, Wire};

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Reason {
    /// The peer takes no answers.
    Stalled = 1,
    /// Frames that ask for nothing, too many for the requests among them.
    ControlFrames = 2,
    /// h2 has closed it: too many resets, header blocks in too many pieces, tiny data frames.
    Flood = 3,
}

const REASONS: [Reason; 3] = [Reason::Stalled, Reason::ControlFrames, Reason::Flood];

/// The closures of a port.
#[derive(Debug)]
pub(crate) struct Closures {
    wire: Wire,
    kinds: [Kind; 3],
}

#[derive(Debug)]
struct Kind {
    counter: Counter,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    /// Closures since the last line.
    unsaid: u64,
    last: Option<Instant>,
}

impl Reason {
    pub(super) fn of(number: u8) -> Option<Self> {
        REASONS.into_iter().find(|reason| *reason as u8 == number)
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Stalled => "stalled",
            Self::ControlFrames => "control_frames",
            Self::Flood => "flood",
        }
    }

    const fn explained(self) -> &'static str {
        match self {
            Self::Stalled => "connections were closed that did not take their answers",
            Self::ControlFrames => "connections were closed that sent control frames without end",
            Self::Flood => "connections were closed for too many resets, or header blocks or data in too many pieces",
        }
    }
}

impl Closures {
    pub(super) fn new(wire: Wire, telemetry: &Arc<Telemetry>) -> Self {
        let kinds = REASONS.map(|reason| {
            let labels = ClosureLabels { wire: wire.name(), reason: reason.label() };
            Kind { counter: telemetry.closed_connections.get_or_create(&labels).clone(), log: Mutex::default() }
        });
        Self { wire, kinds }
    }

    /// One more.
    pub(super) fn count(&self, reason: Reason) {
        let kind = &self.kinds[reason as usize - 1];
        kind.counter.inc();
        kind.log.lock().unsaid += 1;
        self.say(reason);
    }

    /// Logs what is due.
    pub(super) fn flush(&self) {
        REASONS.into_iter().for_each(|reason| self.say(reason));
    }

    fn say(&self, reason: Reason) {
        let Some(closed) = self.kinds[reason as usize - 1].log.lock().due(Instant::now()) else { return };
        tracing::warn!(wire = self.wire.name(), reason = reason.label(), closed, "{}", reason.explained());
    }
}

impl Log {
    /// How many are to be logged now, if any.
    fn due(&mut self, now: Instant) -> Option<u64> {
        let is_early = self.last.is_some_and(|last| now.saturating_duration_since(last) < BETWEEN_LINES);
        if self.unsaid == 0 || is_early {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

const BETWEEN_LINES: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_closure_is_logged_and_then_one_line_a_minute_counts_the_others() {
        let (mut log, start) = (Log::default(), Instant::now());
        assert_eq!(log.due(start), None, "nothing was closed");
        log.unsaid += 1;
        assert_eq!(log.due(start), Some(1));
        log.unsaid += 3_000;
        assert_eq!(log.due(start + BETWEEN_LINES - Duration::from_millis(1)), None);
        log.unsaid += 147;
        assert_eq!(log.due(start + BETWEEN_LINES), Some(3_147));
        assert_eq!(log.due(start + 3 * BETWEEN_LINES), None);
    }
}
