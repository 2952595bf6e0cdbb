//! Concurrency permits that are held until a response has ended, and refunds of permits that were not used.
//!
//! A lease that is not renewed expires, and a response may take longer than a lease. A task per permit therefore sends
//! heartbeats; polling of the body would not do, because a body is not polled while its reader is slow.

use std::{sync::Arc, time::Duration};

use ratekeeper_core::{Decision, LeaseId, Policy, Release, Span, Verb, algorithm::AnyAlgorithm};
use ratekeeper_http::HoldTimes;
use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::limiter::RateLimiter;

/// A permit under a concurrency rule. Dropping it releases the lease.
struct Permit<L: RateLimiter> {
    limiter: L,
    key: String,
    lease: LeaseId,
    heartbeat: Option<JoinHandle<()>>,
    held_since: Instant,
    hold_times: Option<Arc<HoldTimes>>,
}

/// A permit of any limiter, held until it is dropped.
pub(crate) trait HeldPermit: Send + Sync {}

impl<L: RateLimiter> HeldPermit for Permit<L> {}

/// Holds the permit of a decision, if it has a lease. Its hold time is observed when it ends, if `hold_times` is given.
pub(crate) fn hold<L: RateLimiter>(
    decision: &Decision,
    limiter: &L,
    key: &str,
    hold_times: Option<&Arc<HoldTimes>>,
) -> Option<Box<dyn HeldPermit>> {
    let lease = decision.lease?;
    let interval = shortest_lease(&limiter.policy()).map(|lease| (lease / HEARTBEATS_PER_LEASE).max(MIN_INTERVAL));
    let heartbeat = interval.zip(Handle::try_current().ok()).map(|(interval, runtime)| {
        let (limiter, key): (L, Arc<str>) = (limiter.clone(), key.into());
        runtime.spawn(async move {
            loop {
                sleep(interval).await;
                // An unreachable store may answer the next heartbeat; an expired lease stays expired.
                if let Ok(false) = limiter.heartbeat(&key, lease).await {
                    return;
                }
            }
        })
    });
    let (held_since, hold_times) = (Instant::now(), hold_times.cloned());
    Some(Box::new(Permit { limiter: limiter.clone(), key: key.to_owned(), lease, heartbeat, held_since, hold_times }))
}

/// Refunds the permits of a request that was not sent. Permits that a later reservation depends on stay charged.
pub(crate) fn undo<L: RateLimiter>(decision: &Decision, limiter: &L, key: &str, cost: u64) {
    let at = decision.proceed_at();
    limiter.submit(key, cost, Verb::Undo { at, lease: decision.lease });
}

impl<L: RateLimiter> Drop for Permit<L> {
    fn drop(&mut self) {
        if let Some(heartbeat) = self.heartbeat.take() {
            heartbeat.abort();
        }
        if let Some(hold_times) = &self.hold_times {
            hold_times.observe(Span::from_duration(self.held_since.elapsed()));
        }
        self.limiter.submit(&self.key, 0, Verb::Release(Release::Lease(self.lease)));
    }
}

fn shortest_lease(policy: &Policy) -> Option<Duration> {
    let leases = policy.rules().iter().filter_map(|rule| match rule.algorithm() {
        AnyAlgorithm::Leases(leases) => Some(Duration::from(leases.lease())),
        _ => None,
    });
    leases.min()
}

/// Two heartbeats may be lost before a lease expires.
const HEARTBEATS_PER_LEASE: u32 = 3;

/// Bounds the load of heartbeats for very short leases.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
