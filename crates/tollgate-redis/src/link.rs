//! The way to the server: one call in, one answer or a clear reason out, within its deadline.
//!
//! ```text
//! Link ─ call ─▶ route ─▶ Node ─▶ breaker ─▶ bound ─▶ Wire ─▶ server
//!                  ▲        └ Keeper: dials, probes, replaces (background)
//!                  └ Cluster: map of slots   Sentinels: who is in charge
//! ```
//!
//! What holds throughout:
//! - A call that may have been carried out is never sent again. [`fate`] decides which those are.
//! - Nobody waits longer than the deadline, and nobody waits at all for a server that is known to be gone.
//! - Making a link neither blocks nor fails; the server may come later.

mod background;
mod backoff;
mod breaker;
mod call;
mod clock;
mod cluster;
mod dial;
mod error;
mod fate;
mod node;
mod random;
mod route;
mod script;
mod sentinel;
mod settings;
mod slots;
mod tls;
mod walk;
mod wire;

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use redis::{Cmd, Value};
use tollgate_core::Micros;

use self::{
    route::Route,
    walk::{Errand, Walk},
};
use crate::{
    address::{Address, HostPort},
    counters::Counters,
    standing::Standing,
};

pub use self::settings::{BreakerSettings, LinkSettings};
pub(crate) use self::{
    background::Background,
    call::{Call, DEADLINE_BYTES},
    error::{CallError, NotRun},
    node::NodeState,
    script::Script,
};

/// The way to a server, or to several that act as one. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    route: Arc<Route>,
    counters: Arc<Counters>,
}

/// Whom a plain command is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whom<'a> {
    /// Whoever answers for this key.
    Key(&'a [u8]),
    /// This node.
    Node(&'a HostPort),
    /// Anyone.
    Any,
}

impl Link {
    /// Makes a link. Dials in the background, at once if there is a runtime, else with the first call. The runtime must
    /// have its clock and its sockets enabled, as `tokio::main` has.
    pub(crate) fn open(address: Address, settings: LinkSettings, counters: Arc<Counters>) -> Self {
        let route = Route::new(&address, settings.within_reason(), counters.clone());
        Self { route: Arc::new(route), counters }
    }

    /// Runs a script, once.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Value, CallError> {
        let whom = call.keys.first().map_or(Whom::Any, |key| Whom::Key(key));
        self.walk(call.deadline).run(whom, Errand::Script(call)).await
    }

    /// Sends a plain command, once: for looking around, and for keys that are no state.
    pub(crate) async fn command(&self, whom: Whom<'_>, command: &Cmd, deadline: Instant) -> Result<Value, CallError> {
        self.walk(deadline).run(whom, Errand::Plain(command)).await
    }

    /// Whether one script can reach all these keys. Only a cluster keeps keys apart.
    pub(crate) fn share_a_slot(&self, keys: &[&[u8]]) -> bool {
        match &*self.route {
            Route::Single(_) => true,
            Route::Cluster(_) => keys.windows(2).all(|pair| slots::slot_of(pair[0]) == slots::slot_of(pair[1])),
        }
    }

    /// The servers' clock, as well as it is known: that of the node whose time is known best, or ours while none is.
    pub(crate) fn server_now(&self) -> Micros {
        let clocks = self.route.nodes().into_iter().filter_map(|node| node.clock());
        let best = clocks.min_by_key(|(_, doubt)| *doubt);
        best.map_or_else(local_now, |(now, _)| now)
    }

    /// The nodes in use and how they are doing.
    pub(crate) fn nodes(&self) -> Vec<NodeState> {
        self.route.nodes().iter().map(|node| node.state()).collect()
    }

    /// Whether any node has answered since the link was made.
    pub(crate) fn was_reached(&self) -> bool {
        self.route.nodes().iter().any(|node| node.was_reached())
    }

    /// Whether there is somebody to ask, by what the background work has found out: also where nobody calls.
    pub(crate) fn standing(&self) -> Standing {
        self.route.standing()
    }

    /// Whether keys are kept apart on several nodes.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(&*self.route, Route::Cluster(_))
    }

    fn walk(&self, deadline: Instant) -> Walk<'_> {
        Walk::new(&self.route, &self.counters, deadline)
    }
}

fn local_now() -> Micros {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Micros::from_duration(since_1970.unwrap_or_default())
}

#[cfg(test)]
mod tests;
