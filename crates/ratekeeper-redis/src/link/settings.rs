//! Timeouts and bounds of the link.

use std::time::Duration;

/// Timeouts and bounds of a link. The defaults suit a server in the same data centre.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LinkSettings {
    /// The longest time that a call may take, redirects included. Envoy waits 20 ms for its rate limit service, so a
    /// server behind Envoy should use 12.
    pub deadline: Duration,
    /// The longest time that a connection attempt may take: DNS, TCP, TLS, login. It runs in the background.
    pub connect_timeout: Duration,
    /// Calls in flight per node. Further calls fail at once.
    pub max_in_flight: usize,
    /// A connection without a reply for this time is probed. With the defaults, a server that hangs is detected within 2 s
    /// of its last reply, with or without traffic.
    pub pulse: Duration,
    /// How often a sentinel is asked for the current primary.
    pub failover_check: Duration,
    /// The pause between two connection attempts is random, from `redial_min` to an upper end that doubles up to
    /// `redial_max`. Together with `connect_timeout` it bounds the time of recovery.
    pub redial_min: Duration,
    /// See [`Self::redial_min`].
    pub redial_max: Duration,
    /// Settings of the circuit breaker.
    pub breaker: BreakerSettings,
}

/// When the circuit breaker of a node opens and closes.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct BreakerSettings {
    /// This number of failures in a row opens the breaker.
    pub failures_in_a_row: u32,
    /// The least number of calls within a second for which `failing_share` applies.
    pub calls_to_judge: u32,
    /// This percentage of failed calls within a second opens the breaker as well.
    pub failing_share: u32,
    /// While open, the node is probed after a random pause from `probe_min` to `probe_max`; the first time after a fifth to
    /// a half of `probe_min`.
    pub probe_min: Duration,
    /// See [`Self::probe_min`].
    pub probe_max: Duration,
    /// This number of successful probes in a row closes the breaker. After the first, the others follow without a pause.
    pub answers_to_close: u32,
}

impl LinkSettings {
    /// Every duration cut to [`LONGEST`], so that no sum of times overflows.
    pub(super) fn within_reason(mut self) -> Self {
        let spans = [
            &mut self.deadline,
            &mut self.connect_timeout,
            &mut self.pulse,
            &mut self.failover_check,
            &mut self.redial_min,
            &mut self.redial_max,
            &mut self.breaker.probe_min,
            &mut self.breaker.probe_max,
        ];
        for span in spans {
            *span = (*span).min(LONGEST);
        }
        self
    }
}

/// Longer than any sensible timeout of a rate limiter.
const LONGEST: Duration = Duration::from_secs(3600);

impl Default for LinkSettings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_millis(50),
            connect_timeout: Duration::from_millis(250),
            max_in_flight: 4096,
            pulse: Duration::from_secs(1),
            failover_check: Duration::from_secs(1),
            redial_min: Duration::from_millis(100),
            redial_max: Duration::from_millis(500),
            breaker: BreakerSettings::default(),
        }
    }
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            failures_in_a_row: 5,
            calls_to_judge: 20,
            failing_share: 50,
            probe_min: Duration::from_millis(100),
            probe_max: Duration::from_millis(500),
            answers_to_close: 3,
        }
    }
}
