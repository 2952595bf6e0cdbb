//! Outage log: one WARN when the store becomes unreachable, one INFO when it is reachable again.
//!
//! A store counts as reachable again after [`SETTLED`] without a failure. Flapping faster than that is one outage, so it
//! cannot flood the log. A circuit breaker that opened and closed between two evaluations is recognized by its counter.
//!
//! Health is evaluated when a node, the slot map or the probe of the store changes state, at most once per
//! [`EVALUATION_PAUSE`]. While nothing changes the task sleeps.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use ratekeeper_core::HealthStatus;
use tokio::{sync::Notify, time::sleep};

use super::{background::Background, topology::LiveTopology};
use crate::{counters::Counters, events::TARGET};

/// The health of a link: what its nodes report, and whether the servers would accept writes.
#[derive(Debug)]
pub(super) struct LinkHealth {
    shared: Arc<Shared>,
    task: Background,
}

#[derive(Debug)]
struct Shared {
    counters: Arc<Counters>,
    /// Notified by every change of state.
    changed: Arc<Notify>,
    /// The result of the store's last probe of whether the servers would run a script.
    probed: Mutex<HealthStatus>,
}

impl LinkHealth {
    pub(super) fn new(counters: Arc<Counters>, changed: Arc<Notify>) -> Self {
        let probed = Mutex::new(HealthStatus::Up);
        Self { shared: Arc::new(Shared { counters, changed, probed }), task: Background::default() }
    }

    /// Starts the log unless it runs; without a runtime, the next call tries again.
    pub(super) fn ensure_task(&self, topology: &Arc<LiveTopology>) {
        self.task.ensure(|| watch(Arc::downgrade(topology), Arc::clone(&self.shared)));
    }

    pub(super) fn set_probed(&self, status: HealthStatus) {
        *self.shared.probed.lock() = status;
        self.shared.changed.notify_one();
    }

    pub(super) fn probed(&self) -> HealthStatus {
        self.shared.probed.lock().clone()
    }

    pub(super) fn status(&self, topology: &LiveTopology) -> HealthStatus {
        self.shared.status(topology)
    }
}

impl Shared {
    /// The worse of the two: a server that answers `PING` may still refuse every write.
    fn status(&self, topology: &LiveTopology) -> HealthStatus {
        let probed = || self.probed.lock().clone();
        match topology.health() {
            HealthStatus::Up => probed(),
            HealthStatus::Degraded(cause) => match probed() {
                down @ HealthStatus::Down(_) => down,
                _ => HealthStatus::Degraded(cause),
            },
            down => down,
        }
    }
}

async fn watch(topology: Weak<LiveTopology>, shared: Arc<Shared>) {
    let mut outages = Outages::default();
    loop {
        if outages.is_over_soon() {
            sleep(EVALUATION_PAUSE).await;
        } else {
            shared.changed.notified().await;
        }
        let Some(topology) = topology.upgrade() else { return };
        let status = shared.status(&topology);
        drop(topology);
        if let Some(event) = outages.on(&status, shared.counters.breaker_opened.get(), Instant::now()) {
            event.log();
        }
        sleep(EVALUATION_PAUSE).await;
    }
}

/// The outage in progress, if any. No clock and no I/O: states come in with their time, events come out.
#[derive(Debug, Default)]
struct Outages {
    current: Option<Outage>,
    breaker_opened: u64,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    is_partial: bool,
    /// Start of the current period without a failure.
    up_since: Option<Instant>,
}

/// An event to be logged.
#[derive(Debug, Eq, PartialEq)]
enum OutageEvent {
    Lost { cause: String },
    PartlyLost { cause: String },
    Back { after: Duration },
}

impl Outages {
    fn on(&mut self, status: &HealthStatus, breaker_opened: u64, now: Instant) -> Option<OutageEvent> {
        let has_opened = breaker_opened > self.breaker_opened;
        self.breaker_opened = breaker_opened;
        let (cause, is_partial) = match status {
            HealthStatus::Down(cause) => (cause.clone(), false),
            HealthStatus::Degraded(cause) => (cause.clone(), true),
            HealthStatus::Up if has_opened && self.current.is_none() => (BRIEF_OUTAGE.to_owned(), false),
            HealthStatus::Up => return self.on_up(has_opened, now),
        };
        let outage = self.current.get_or_insert(Outage { since: now, is_partial: true, up_since: None });
        let is_new = outage.since == now || (outage.is_partial && !is_partial);
        outage.is_partial &= is_partial;
        outage.up_since = (*status == HealthStatus::Up).then_some(now);
        let event = if is_partial { OutageEvent::PartlyLost { cause } } else { OutageEvent::Lost { cause } };
        is_new.then_some(event)
    }

    fn on_up(&mut self, has_opened: bool, now: Instant) -> Option<OutageEvent> {
        let outage = self.current.as_mut()?;
        if has_opened {
            outage.up_since = None;
        }
        let up_since = *outage.up_since.get_or_insert(now);
        if now.saturating_duration_since(up_since) < SETTLED {
            return None;
        }
        let after = up_since.saturating_duration_since(outage.since);
        self.current = None;
        Some(OutageEvent::Back { after })
    }

    /// Whether the store is up and the outage ends unless it fails again.
    fn is_over_soon(&self) -> bool {
        self.current.as_ref().is_some_and(|outage| outage.up_since.is_some())
    }
}

impl OutageEvent {
    fn log(&self) {
        match self {
            Self::Lost { cause } => {
                tracing::warn!(target: TARGET, %cause, "the store does not answer; until it does, rules decide by `on_store_failure`");
            }
            Self::PartlyLost { cause } => {
                tracing::warn!(target: TARGET, %cause, "a part of the store does not answer; until it does, rules decide by `on_store_failure` for the keys kept there");
            }
            Self::Back { after } => {
                tracing::info!(target: TARGET, "the store answers again after {:.1} s", after.as_secs_f64());
            }
        }
    }
}

/// The cause of an outage that ended before it was evaluated.
const BRIEF_OUTAGE: &str = "too many calls in a row had no reply in time; the circuit breaker opened and closed again";
/// Time without a failure after which an outage is over.
const SETTLED: Duration = Duration::from_secs(1);
/// Least time between two evaluations.
const EVALUATION_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
