//! Waiting for permits, in line and without holding up a thread.
//!
//! Those who wait for one limiter in one process stand in line: the first few ask and sleep as long as they are told, the
//! others ask nobody until it is their turn. Those in front wake a moment apart, or at once when somebody here gives
//! permits back. Between processes there is no line, as there is none with Redisson.

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
    core::Core,
    error::RedissonError,
    keys::Keys,
    reply::{Outcome, Refusal},
};

/// The line before one limiter.
#[derive(Debug)]
pub(super) struct Line {
    front: Semaphore,
    freed: Notify,
}

impl Default for Line {
    fn default() -> Self {
        Self { front: Semaphore::new(IN_FRONT), freed: Notify::new() }
    }
}

impl Line {
    /// Somebody in this process has given permits back.
    pub(super) fn wake(&self) {
        self.freed.notify_waiters();
    }

    /// Waits as long as it takes.
    pub(super) async fn acquire(&self, core: &Arc<Core>, keys: &Arc<Keys>, permits: u64) -> Result<(), RedissonError> {
        // Never closed, so a place is all it can give.
        let _place = self.front.acquire().await;
        loop {
            let freed = self.freed.notified();
            match Attempt::start(core, keys, permits, None).answer().await? {
                Outcome::Granted { .. } => return Ok(()),
                Outcome::Refused(refusal) => {
                    let wake_at = Instant::now() + refusal.retry_after + core.chance.below(SPREAD);
                    tokio::select! {
                        () = sleep_until(wake_at.into()) => {}
                        () = freed => {}
                    }
                }
            }
        }
    }

    /// Waits until `end`, and not longer: round trips and late timers count. The last attempt is made so early that its
    /// answer can be here in time.
    pub(super) async fn acquire_until(
        &self,
        core: &Arc<Core>,
        keys: &Arc<Keys>,
        permits: u64,
        end: Instant,
    ) -> Result<Outcome, RedissonError> {
        let mut margin = LEAST_MARGIN;
        // Whose turn does not come asks once at the end, like everybody else.
        let place = timeout_at(before(end, margin).into(), self.front.acquire()).await;
        let mut told = Refusal { retry_after: Duration::ZERO, redisson_wait: Duration::ZERO };
        loop {
            let freed = self.freed.notified();
            let asked = Instant::now();
            let is_last = place.is_err() || asked >= before(end, margin);
            match timeout_at(end.into(), Attempt::start(core, keys, permits, Some(end)).answer()).await {
                Ok(Ok(Outcome::Refused(refusal))) => told = refusal,
                // A round trip that has used up the rest is a refusal, and what it may have brought is given back.
                Ok(Err(RedissonError::Store(_))) if Instant::now() >= end => return Ok(Outcome::Refused(told)),
                Ok(answer) => return answer,
                Err(_) => return Ok(Outcome::Refused(told)),
            }
            let now = Instant::now();
            margin = margin.max(2 * (now - asked));
            let last = before(end, margin);
            if is_last || now >= last {
                // Redisson lets the whole time pass before it refuses, and callers may count on that.
                sleep_until(end.into()).await;
                return Ok(Outcome::Refused(told));
            }
            let wake_at = (now + told.retry_after + core.chance.below(SPREAD)).min(last);
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

/// How many of those in line ask. More than one, so that a slow answer does not hold up all; few, since most of them
/// will be told to wait.
const IN_FRONT: usize = 8;
/// Redisson adds three milliseconds to every wait; here they keep those apart who were told the same.
const SPREAD: Duration = Duration::from_millis(3);
/// So long before its end a wait makes its last attempt; longer where round trips take longer.
const LEAST_MARGIN: Duration = Duration::from_millis(10);
