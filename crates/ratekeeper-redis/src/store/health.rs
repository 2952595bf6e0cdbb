//! Health of the store, with a probe that finds servers which refuse writes.
//!
//! The link knows whether servers answer. It cannot know whether a server that answers would also decide: one that is
//! out of memory, or has become a replica, answers `PING` and refuses every write. A refused call may be of that kind,
//! or concern one key only. So it starts a probe: a script that accesses nothing, which a server refuses for the same
//! reasons as ours. The probe repeats every second until the script is accepted.
//!
//! No status names a key.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ratekeeper_core::HealthStatus;
use redis::{Cmd, cmd};

use super::{Inner, RedisStore};
use crate::link::{Background, CallError, Destination, NotExecuted};

/// The probe task.
#[derive(Debug, Default)]
pub(crate) struct HealthProbe {
    /// A call was refused since the last probe.
    is_requested: AtomicBool,
    task: Background,
}

impl HealthProbe {
    /// Whether the probe runs: from a refused call until a second after the script was accepted.
    pub(crate) fn is_probing(&self) -> bool {
        self.task.is_running()
    }
}

impl RedisStore {
    /// Whether the store can decide: by the state of its connections and, after a refused call, by the last probe. Does
    /// not wait.
    pub fn health(&self) -> HealthStatus {
        self.inner.link.health()
    }

    /// Starts the probe unless it runs.
    pub(crate) fn start_health_probe(&self) {
        let probe = &self.inner.health;
        probe.is_requested.store(true, Ordering::Relaxed);
        probe.task.ensure(|| {
            let store = Arc::downgrade(&self.inner);
            async move {
                while let Some(inner) = store.upgrade() {
                    inner.health.is_requested.store(false, Ordering::Relaxed);
                    if let Some(found) = inner.probe().await {
                        inner.link.set_probed_health(found);
                    }
                    let is_up = inner.link.probed_health() == HealthStatus::Up;
                    drop(inner);
                    tokio::time::sleep(PROBE_INTERVAL).await;
                    let Some(inner) = store.upgrade() else { return };
                    if is_up && !inner.health.is_requested.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
    }
}

impl Inner {
    /// Whether the servers would run a script. `None` if there was no reply; then the link reports why.
    async fn probe(&self) -> Option<HealthStatus> {
        let key = format!("{}:health", self.config.prefix);
        let keyed = self.send_probe(Destination::Key(key.as_bytes()), probe_script(Some(&key))).await;
        match (keyed, self.link.is_cluster()) {
            (ProbeReply::NoReply, _) => None,
            (ProbeReply::Accepted, false) => Some(HealthStatus::Up),
            // A cluster that is down refuses every call with a key, on every node.
            (ProbeReply::Refused { why, is_cluster_wide }, is_cluster) if is_cluster_wide || !is_cluster => {
                Some(HealthStatus::Down(why))
            }
            (_, _) => Some(self.probe_nodes().await),
        }
    }

    async fn probe_nodes(&self) -> HealthStatus {
        let (mut failures, nodes) = (Vec::new(), self.link.nodes());
        for node in &nodes {
            let reply = self.send_probe(Destination::Node(&node.address), probe_script(None)).await;
            if let ProbeReply::Refused { why, .. } = reply {
                failures.push(why);
            }
        }
        HealthStatus::of_nodes(nodes.len(), failures)
    }

    async fn send_probe(&self, destination: Destination<'_>, command: Cmd) -> ProbeReply {
        let deadline = Instant::now() + self.config.link.connect_timeout;
        match self.link.command(destination, &command, deadline).await {
            Ok(_) => ProbeReply::Accepted,
            // No reply of a server, or no call at all: the link reports these.
            Err(
                CallError::Unknown { .. }
                | CallError::NotExecuted {
                    why:
                        NotExecuted::Unreachable { .. }
                        | NotExecuted::BreakerOpen
                        | NotExecuted::TooBusy
                        | NotExecuted::OutOfTime,
                    ..
                },
            ) => ProbeReply::NoReply,
            Err(error) => {
                let is_cluster_wide = matches!(&error, CallError::NotExecuted { why: NotExecuted::ClusterDown, .. });
                ProbeReply::Refused { why: error.to_string(), is_cluster_wide }
            }
        }
    }
}

/// The reply to a probe.
enum ProbeReply {
    Accepted,
    /// `is_cluster_wide` if every other node would refuse as well.
    Refused {
        why: String,
        is_cluster_wide: bool,
    },
    NoReply,
}

/// A script that does nothing. Because of `#!lua`, servers refuse it for the same reasons as writes.
fn probe_script(key: Option<&str>) -> Cmd {
    let mut command = cmd("EVAL");
    command.arg("#!lua\nreturn 1").arg(u8::from(key.is_some()));
    if let Some(key) = key {
        command.arg(key);
    }
    command
}

const PROBE_INTERVAL: Duration = Duration::from_secs(1);
