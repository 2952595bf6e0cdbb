//! Rule definitions on the server, so that other processes can read values written under these rules.
//!
//! A definition is stored when its rules are first used, every [`WRITE_INTERVAL_MS`], and over every new connection,
//! since a server may have restarted without its data. It is written in the background; a failure is repaired by the
//! next write, and until then only processes with the same rules can read the values.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use ratekeeper_core::{
    LeaseId, Policy, Span, Timestamp,
    algorithm::{Algorithm, Charge},
    bounds::MAX_WAIT,
};

use super::RedisStore;
use crate::{key::definition_name, link::Destination, policies::Version};

impl RedisStore {
    /// Stores the definition of these rules if that is due.
    pub(crate) fn ensure_definition(&self, version: &Version) {
        let millis = u64::try_from(self.inner.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let last = version.definition_written.load(Ordering::Relaxed);
        let connections = self.inner.counters.reconnects.get();
        let is_same_connection = version.definition_connection.load(Ordering::Relaxed) == connections;
        if last != 0 && is_same_connection && millis < last + WRITE_INTERVAL_MS {
            return;
        }
        // Of several callers, the one that sets the time writes.
        let next = millis.max(last + 1);
        if version.definition_written.compare_exchange(last, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        version.definition_connection.store(connections, Ordering::Relaxed);
        let name = definition_name(&self.inner.config.prefix, version.tag.fingerprint());
        let ttl = (MAX_WAIT.as_micros() + longest_ttl(&version.policy).as_micros()) / 1_000;
        let command = redis::cmd("SET").arg(&name).arg(&version.definition).arg("PX").arg(ttl).to_owned();
        let store = self.clone();
        tokio::spawn(async move {
            let deadline = Instant::now() + WRITE_TIMEOUT;
            let _ = store.inner.link.command(Destination::Key(&name), &command, deadline).await;
        });
    }
}

/// The TTL of an exhausted key, approximately.
fn longest_ttl(policy: &Policy) -> Span {
    let now = Timestamp::EPOCH + Span::SECOND;
    let mut state = policy.fresh();
    for (rule, rule_state) in policy.rules().iter().zip(&mut state.states) {
        let everything = Charge { cost: rule.algorithm().limit(), at: now, lease: LeaseId(0) };
        rule.algorithm().penalize(rule_state, everything, now);
    }
    policy.reset_at(&state, now).since(Timestamp::EPOCH)
}

/// A deleted definition is missing for this long at most.
const WRITE_INTERVAL_MS: u64 = 600_000;
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
