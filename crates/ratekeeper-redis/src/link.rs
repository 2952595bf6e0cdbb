//! Client link to Redis: one call in, one reply or the reason for its absence out, within a deadline.
//!
//! ```text
//! Link ─ call ─▶ topology ─▶ Node ─▶ breaker ─▶ in-flight bound ─▶ ServerConnection ─▶ server
//!                   ▲         └ reconnect: connects, probes, replaces (background task)
//!                   └ Cluster: slot map   Sentinels: address of the primary
//! ```
//!
//! Invariants:
//! - A call that may have been executed is never sent again; `outcome.rs` decides which those are. This is why the link
//!   exists: the `redis` crate counts redirects and resends against one budget, so a client that follows `MOVED` also
//!   resends calls of unknown outcome, which charges twice.
//! - No caller waits beyond its deadline, and none waits for a server that is known to be unreachable.
//! - Opening a link neither blocks nor fails; the server may start later.
//!
//! - An outage is logged once when it begins and once when it ends; see `outage.rs`.
//!
//! The module is public for crates that keep state in Redis under other layouts, such as `ratekeeper-compat` and the doctor
//! of `ratekeeper-cli`. It names types of the `redis` crate ([`Cmd`], [`Value`]) and may change with it.

mod background;
mod backoff;
mod breaker;
mod call;
mod clock;
mod cluster;
mod connect;
mod connection;
mod cork;
mod dispatch;
mod error;
mod node;
mod outage;
mod outcome;
mod random;
mod scan;
mod script;
mod sentinel;
mod settings;
mod slots;
#[cfg(feature = "tls")]
mod tls;
mod topology;

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use ratekeeper_core::{HealthStatus, Timestamp};
use redis::{Cmd, Value};
use tokio::sync::Notify;

use self::{
    connect::Connector,
    dispatch::{Dispatch, Payload},
    node::NodeContext,
    outage::LinkHealth,
    topology::LiveTopology,
};
use crate::{address::Address, counters::Counters, events::Events};

pub(crate) use self::{
    background::Background,
    node::{MOST_GRACE, NodeState},
};
pub use self::{
    call::{Call, DEADLINE_BYTES, Destination},
    error::{CallError, NotExecuted},
    scan::{KEYS_PER_STEP, Scan, beginning_with},
    script::Script,
    settings::{BreakerSettings, LinkSettings},
};
pub use crate::address::{Credentials, HostPort, Topology};

/// A client link to one server, a primary behind Sentinel, or a cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Link {
    topology: Arc<LiveTopology>,
    health: Arc<LinkHealth>,
    counters: Arc<Counters>,
    events: Arc<Events>,
}

impl Link {
    /// Opens a link. Connects in the background: at once if there is a tokio runtime, else with the first call. The runtime
    /// must have time and I/O enabled, as `tokio::main` has.
    pub fn open(address: Address, settings: LinkSettings) -> Self {
        Self::open_counted(address, settings, Arc::new(Counters::default()))
    }

    /// Opens a link that counts into these counters.
    pub(crate) fn open_counted(address: Address, settings: LinkSettings, counters: Arc<Counters>) -> Self {
        let settings = settings.within_reason();
        let context = NodeContext {
            connector: Arc::new(Connector::new(&address, &settings)),
            settings,
            counters: counters.clone(),
            events: Arc::default(),
            connection_lost: Arc::new(Notify::new()),
            health_changed: Arc::new(Notify::new()),
        };
        let health = LinkHealth::new(counters.clone(), context.health_changed.clone());
        let events = context.events.clone();
        let topology = Arc::new(LiveTopology::new(&address, context));
        health.ensure_task(&topology);
        Self { topology, health: Arc::new(health), counters, events }
    }

    /// Runs a script, at most once.
    pub async fn call(&self, call: Call<'_>) -> Result<Value, CallError> {
        let destination = call.keys.first().map_or(Destination::Any, |key| Destination::Key(key));
        self.dispatch(call.deadline).run(destination, Payload::Script(call)).await
    }

    /// Sends a plain command, at most once.
    pub async fn command(
        &self,
        destination: Destination<'_>,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, CallError> {
        self.dispatch(deadline).run(destination, Payload::Plain(command)).await
    }

    /// Why a call about this key would fail at once: its node's breaker is open, or the last connection attempt failed.
    /// `None` if a call is worth sending.
    pub(crate) fn known_failure(&self, key: &[u8]) -> Option<CallError> {
        self.topology.known_failure(key).map(|error| error.at(self.topology.address()))
    }

    /// Replaces the connection to the node of this key, because a reply on it is overdue. Calls in flight on the old one are
    /// not affected.
    pub(crate) async fn replace_connection(&self, key: &[u8], deadline: Instant) {
        if let Ok(node) = self.topology.node_for(Destination::Key(key), deadline).await {
            node.reconnect();
        }
    }

    /// Whether one script can access all these keys. Only in a cluster may it not.
    pub fn share_a_slot(&self, keys: &[&[u8]]) -> bool {
        match &*self.topology {
            LiveTopology::Single(_) => true,
            LiveTopology::Cluster(_) => keys.windows(2).all(|pair| slots::slot_of(pair[0]) == slots::slot_of(pair[1])),
        }
    }

    /// The servers' clock as estimated from the node whose time is known best; this machine's clock while none is known.
    pub(crate) fn server_now(&self) -> Timestamp {
        let clocks = self.topology.nodes().into_iter().filter_map(|node| node.clock());
        let best = clocks.min_by_key(|(_, error)| *error);
        best.map_or_else(local_now, |(now, _)| now)
    }

    /// The nodes in use and their states.
    pub(crate) fn nodes(&self) -> Vec<NodeState> {
        self.topology.nodes().iter().map(|node| node.state()).collect()
    }

    /// Whether any node has replied since the link was opened.
    pub(crate) fn was_reached(&self) -> bool {
        self.topology.nodes().iter().any(|node| node.was_reached())
    }

    /// The health as the background tasks know it, with or without traffic, and by the last probe of the store.
    pub(crate) fn health(&self) -> HealthStatus {
        self.health.status(&self.topology)
    }

    /// Records whether the servers would run a script, which only a probe with a script can find out.
    pub(crate) fn set_probed_health(&self, status: HealthStatus) {
        self.health.set_probed(status);
    }

    /// The result of the last probe; `Up` before the first.
    pub(crate) fn probed_health(&self) -> HealthStatus {
        self.health.probed()
    }

    /// The limited log events of this link.
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// Whether keys are distributed over several nodes.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(&*self.topology, LiveTopology::Cluster(_))
    }

    fn dispatch(&self, deadline: Instant) -> Dispatch<'_> {
        self.health.ensure_task(&self.topology);
        Dispatch::new(&self.topology, &self.counters, &self.events, deadline)
    }
}

fn local_now() -> Timestamp {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests;
