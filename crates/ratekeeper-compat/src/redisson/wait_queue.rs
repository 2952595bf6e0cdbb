//! Wait queue of one limiter in one process.
//!
//! The first [`IN_FRONT`] waiters ask the server and sleep as long as it says; the others send nothing until they move up.
//! Waiters in front wake a few milliseconds apart, or at once when this process releases permits. Between processes there
//! is no order, as with Redisson.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{Notify, Semaphore},
    time::{sleep_until, timeout_at},
};

use super::{
    attempt::Attempt,
    client::SharedClient,
    error::RedissonError,
    keys::Keys,
    reply::{AcquireOutcome, AcquireWait},
};

/// The waiters of one limiter.
#[derive(Debug)]
pub(super) struct WaitQueue {
    front: Semaphore,
    freed: Notify,
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self { front: Semaphore::new(IN_FRONT), freed: Notify::new() }
    }
}

impl WaitQueue {
    /// Wakes the waiters in front: this process has released permits.
    pub(super) fn wake(&self) {
        self.freed.notify_waiters();
    }

    /// Waits without a limit.
    pub(super) async fn acquire(
        &self,
        client: &Arc<SharedClient>,
        keys: &Arc<Keys>,
        permits: u64,
    ) -> Result<(), RedissonError> {
        // The semaphore is never closed, so this cannot fail.
        let _permit = self.front.acquire().await;
        loop {
            let freed = self.freed.notified();
            match Attempt::start(client, keys, permits, None).answer().await? {
                AcquireOutcome::Granted { .. } => return Ok(()),
                AcquireOutcome::Refused(refusal) => {
                    let wake_at = Instant::now() + refusal.retry_after + client.random.below(SPREAD);
                    tokio::select! {
                        () = sleep_until(wake_at.into()) => {}
                        () = freed => {}
                    }
                }
            }
        }
    }

    /// Waits until `end` at most, round trips included. The last attempt is made early enough for its reply to arrive in
    /// time.
    pub(super) async fn acquire_until(
        &self,
        client: &Arc<SharedClient>,
        keys: &Arc<Keys>,
        permits: u64,
        end: Instant,
    ) -> Result<AcquireOutcome, RedissonError> {
        let mut margin = LEAST_MARGIN;
        // A waiter that does not move up in time makes one attempt at the end, like the others.
        let permit = timeout_at(before(end, margin).into(), self.front.acquire()).await;
        let mut wait = AcquireWait { retry_after: Duration::ZERO, redisson_wait: Duration::ZERO };
        loop {
            let freed = self.freed.notified();
            let asked = Instant::now();
            let is_last = permit.is_err() || asked >= before(end, margin);
            match timeout_at(end.into(), Attempt::start(client, keys, permits, Some(end)).answer()).await {
                Ok(Ok(AcquireOutcome::Refused(refused))) => wait = refused,
                // A round trip that exceeds the timeout is a refusal; a grant it may have made is returned.
                Ok(Err(RedissonError::Store(_))) if Instant::now() >= end => return Ok(AcquireOutcome::Refused(wait)),
                Ok(outcome) => return outcome,
                Err(_) => return Ok(AcquireOutcome::Refused(wait)),
            }
            let now = Instant::now();
            margin = margin.max(2 * (now - asked));
            let last = before(end, margin);
            if is_last || now >= last {
                // Redisson refuses only when the timeout is over, and callers may rely on that.
                sleep_until(end.into()).await;
                return Ok(AcquireOutcome::Refused(wait));
            }
            let wake_at = (now + wait.retry_after + client.random.below(SPREAD)).min(last);
            tokio::select! {
                () = sleep_until(wake_at.into()) => {}
                () = freed => {}
            }
        }
    }
}

fn before(end: Instant, margin: Duration) -> Instant {
    end.checked_sub(margin).unwrap_or(end)
}

/// Waiters that ask the server. More than one, so that a slow reply does not delay all; few, since most are refused.
const IN_FRONT: usize = 8;
/// Waits are lengthened by a random part of this, so that waiters with the same wait do not ask together. Redisson adds 3
/// ms to every wait.
const SPREAD: Duration = Duration::from_millis(3);
/// Time before the end at which the last attempt is made: at least this, or two round trips.
const LEAST_MARGIN: Duration = Duration::from_millis(10);
