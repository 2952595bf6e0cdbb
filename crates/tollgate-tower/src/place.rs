//! A place under a concurrency rule, held for as long as a response takes.
//!
//! A holder that is silent for the length of its lease has let go, and a download may well take longer. So a place tells the
//! store now and then that it is still held, from a task of its own: a body is not polled while a slow reader is in the
//! way.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, task::JoinHandle, time::sleep};
use tollgate_core::{Decision, LeaseId, Policy, Release, Verb, algorithm::Limiting};

use crate::gate::Gate;

/// Gives the place up when dropped.
pub(crate) struct Place<G: Gate> {
    gate: G,
    key: String,
    lease: LeaseId,
    keeper: Option<JoinHandle<()>>,
}

/// Whatever is to be kept until a response has ended.
pub(crate) trait Keep: Send + Sync {}

impl<G: Gate> Keep for Place<G> {}

impl<G: Gate> Place<G> {
    /// Holds the place that came with a decision, if one did.
    pub(crate) fn of(decision: &Decision, gate: &G, key: &str) -> Option<Self> {
        let lease = decision.lease?;
        let every = shortest_lease(&gate.policy()).map(|lease| (lease / BEATS_PER_LEASE).max(MIN_BEAT));
        let keeper = every.zip(Handle::try_current().ok()).map(|(every, runtime)| {
            let (gate, key): (G, Arc<str>) = (gate.clone(), key.into());
            runtime.spawn(async move {
                loop {
                    sleep(every).await;
                    // A store that is away may be back by the next beat; a lease that has ended stays so.
                    if let Ok(false) = gate.heartbeat(&key, lease).await {
                        return;
                    }
                }
            })
        });
        Some(Self { gate: gate.clone(), key: key.to_owned(), lease, keeper })
    }
}

impl<G: Gate> Drop for Place<G> {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
        }
        self.gate.tell(&self.key, Verb::Release(Release::Lease(self.lease)));
    }
}

fn shortest_lease(policy: &Policy) -> Option<Duration> {
    let leases = policy.rules().iter().filter_map(|rule| match rule.limiting() {
        Limiting::Leases(leases) => Some(Duration::from(leases.lease())),
        _ => None,
    });
    leases.min()
}

/// Two beats may be lost before the lease is.
const BEATS_PER_LEASE: u32 = 3;

/// Leases shorter than a few milliseconds are not worth keeping a store busy for.
const MIN_BEAT: Duration = Duration::from_millis(1);
