//! Replies that arrive in time and are read late, because this process was delayed.
//!
//! When a deadline passes, the reply may already be in the socket, unread because the reading task has not been
//! scheduled. It is awaited for a grace period: twice the delay of this task's timer, at least half a deadline. No
//! script runs late because of that: each is stamped with its deadline, and a reply other than "too late" was computed
//! in time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{RedisResult, Value};
use tokio::time::timeout;

use super::Node;
use crate::link::{connection::ServerConnection, outcome::CallOutcome};

impl Node {
    /// The outcome of a call whose deadline passed `late` ago. `None` if this process was delayed all the while, so that
    /// the silence says nothing about the server.
    pub(super) async fn wait_for_late_reply(
        &self,
        reply: impl Future<Output = RedisResult<Value>>,
        asked: Instant,
        late: Duration,
        connection: &Arc<ServerConnection>,
    ) -> Option<CallOutcome> {
        let counters = &self.shared.context.counters;
        let least = (self.shared.context.settings.deadline / 2).min(LEAST_GRACE);
        let (began, grace) = (Instant::now(), late.saturating_mul(2).clamp(least, MOST_GRACE));
        if let Ok(reply) = timeout(grace, reply).await {
            counters.replies_read_late.add_one();
            return Some(self.outcome_of(reply, asked, connection));
        }
        if late > OWN_DELAY && began.elapsed().saturating_sub(grace) > OWN_DELAY {
            counters.silent_by_own_delay.add_one();
            return None;
        }
        counters.silent_store.add_one();
        Some(CallOutcome::Unknown { waited: asked.elapsed() })
    }
}

/// A timer that fires later than this was delayed by this process or its machine. One or two milliseconds are usual.
const OWN_DELAY: Duration = Duration::from_millis(5);
/// The grace period: half a deadline, at most `LEAST_GRACE`, if timers are punctual; longer if they are not. With a
/// deadline of 12 ms the whole call stays within Envoy's 20 ms.
const LEAST_GRACE: Duration = Duration::from_millis(8);
pub(crate) const MOST_GRACE: Duration = Duration::from_millis(50);
