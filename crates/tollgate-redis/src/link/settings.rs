//! How patient the link is, and how much it carries at once.

use std::time::Duration;

/// Bounds of the way to the server. The defaults suit a server in the same data centre.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LinkSettings {
    /// The longest a decision may take, redirects and all. Envoy gives its limiter 20 ms, so a server behind Envoy
    /// wants 12.
    pub deadline: Duration,
    /// The longest a dial may take: name, TCP, TLS, login. Longer than a decision waits; it goes on in the background.
    pub connect_timeout: Duration,
    /// Calls under way at once, per node. What comes on top is turned away at once rather than queued.
    pub max_in_flight: usize,
    /// A connection that has been silent for so long is asked whether it is still there. With the defaults, a server that
    /// hangs is known to within 2 s of its last word, whether anything is asked of it or not.
    pub pulse: Duration,
    /// How often a sentinel is asked whether the primary is still in charge.
    pub failover_check: Duration,
    /// The pause between two dials to a node that does not let us in: anything from `redial_min` to `redial_max`, the
    /// upper end growing from dial to dial. With `connect_timeout` it bounds how long recovery takes.
    pub redial_min: Duration,
    /// See [`Self::redial_min`].
    pub redial_max: Duration,
    /// When a node is given a rest.
    pub breaker: BreakerSettings,
}

/// When a node counts as sick, and when as well again.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct BreakerSettings {
    /// So many failures in a row open the breaker.
    pub failures_in_a_row: u32,
    /// So many calls within a second are enough to judge by their share.
    pub calls_to_judge: u32,
    /// In percent. This share of failures among them opens it, too.
    pub failing_share: u32,
    /// While open, the node is asked how it is after a pause of anything from `probe_min` to `probe_max`; the first time
    /// sooner, from a fifth to half of `probe_min`.
    pub probe_min: Duration,
    /// See [`Self::probe_min`].
    pub probe_max: Duration,
    /// So many good answers in a row close it. After the first, the others are asked for without a pause.
    pub answers_to_close: u32,
}

impl LinkSettings {
    /// The same with every span cut to [`LONGEST`], so that no sum of times can run over.
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

/// Nobody waits longer than this for a limiter, on purpose.
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
