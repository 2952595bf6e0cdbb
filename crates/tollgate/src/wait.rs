//! Waiting for a turn.
//!
//! One call books the permits for the moment they become free; then we sleep. Where permits are held (concurrency),
//! nobody knows when the next one comes back, so there we wait for a release instead; see [`turns`](crate::turns).

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tollgate_core::{Decision, LeaseId, Micros, Store, StoreError, Take, Verb, Verdict, bounds::MAX_WAIT};

use crate::{error::AcquireError, limiter::Limiter};

/// A turn that has come.
#[derive(Clone, Debug)]
pub struct Acquired {
    /// How long it took.
    pub waited: Duration,
    /// The decision that granted it.
    pub decision: Decision,
}

impl<S: Store> Limiter<S> {
    /// Takes so many permits, sleeping until its turn, however long that takes.
    ///
    /// The permits are charged at once for the moment they become free, in the order callers came. If the future is
    /// dropped before that moment they are given back, unless somebody has been promised a place behind them.
    pub async fn acquire(&self, key: &str, permits: u64) -> Result<Acquired, AcquireError> {
        self.acquire_by(key, permits, None).await
    }

    /// [`acquire`](Self::acquire) under the name that goes with [`check_n`](Self::check_n).
    pub async fn acquire_n(&self, key: &str, permits: u64) -> Result<Acquired, AcquireError> {
        self.acquire(key, permits).await
    }

    /// Takes so many permits within this time. If that cannot be, it says so at once and charges nothing.
    pub async fn acquire_timeout(&self, key: &str, permits: u64, timeout: Duration) -> Result<Acquired, AcquireError> {
        self.acquire_by(key, permits, Some(timeout)).await
    }

    async fn acquire_by(&self, key: &str, permits: u64, timeout: Option<Duration>) -> Result<Acquired, AcquireError> {
        let patience = Patience { began: Instant::now(), timeout };
        if self.shared.holds() {
            return self.acquire_held(key, permits, &patience).await;
        }
        let take = Take::within(permits, patience.left());
        let decision = self.decide(key, Verb::Take(take)).await?;
        self.sleep_it_out(key, permits, decision, &patience).await
    }

    /// Sleeps a granted wait, ready to give the permits back if the caller goes away or we wake too late.
    pub(crate) async fn sleep_it_out(
        &self,
        key: &str,
        permits: u64,
        decision: Decision,
        patience: &Patience,
    ) -> Result<Acquired, AcquireError> {
        let wait = match decision.verdict {
            Verdict::Allow { wait } => wait,
            Verdict::Deny { retry_after } => return Err(AcquireError::TooLong { retry_after }),
            Verdict::Never => return Err(AcquireError::Never { cost: permits, limit: decision.limit() }),
        };
        let at = decision.decided_at + wait;
        let mut booked = Booked { limiter: self, key, permits, at, lease: decision.lease, kept: false };
        // Time spent on the way to the store and back is time waited.
        if wait > patience.left() {
            return Err(AcquireError::TooLong { retry_after: wait });
        }
        if wait > Micros::ZERO {
            sleep_until(Instant::now() + Duration::from(wait)).await;
        }
        if let Some(late_by) = patience.overdrawn(wait) {
            return Err(AcquireError::Late { late_by });
        }
        booked.kept = true;
        drop(booked);
        Ok(Acquired { waited: patience.began.elapsed(), decision })
    }
}

/// Permits booked for a moment ahead. Dropped before they are kept, they go back.
struct Booked<'a, S: Store> {
    limiter: &'a Limiter<S>,
    key: &'a str,
    permits: u64,
    at: Micros,
    lease: Option<LeaseId>,
    kept: bool,
}

impl<S: Store> Drop for Booked<'_, S> {
    fn drop(&mut self) {
        if !self.kept {
            let shared = &self.limiter.shared;
            shared.store.cancel(shared.ask(self.key), self.permits, self.at, self.lease);
            shared.wake(self.key);
        }
    }
}

/// How long a caller waits, and since when.
pub(crate) struct Patience {
    pub(crate) began: Instant,
    pub(crate) timeout: Option<Duration>,
}

impl Patience {
    /// What is left of it.
    pub(crate) fn left(&self) -> Micros {
        match self.timeout {
            None => MAX_WAIT,
            Some(timeout) => Micros::from_duration(timeout.saturating_sub(self.began.elapsed())).min(MAX_WAIT),
        }
    }

    /// By how much it has been overdrawn, if it has. A wait that ends when the patience does is in time; a way to the
    /// store and back that took all of it is not, and a timeout of nothing is a plain try, which takes what it takes.
    fn overdrawn(&self, waited: Micros) -> Option<Micros> {
        let timeout = self.timeout.filter(|timeout| *timeout > Duration::ZERO)?;
        let over = self.began.elapsed().checked_sub(timeout)?;
        (over > Duration::ZERO || waited == Micros::ZERO).then(|| Micros::from_duration(over))
    }
}

impl<S: Store> Limiter<S> {
    /// Waits for a place that somebody holds: asks, and asks again when one is given up or a lease has ended.
    pub(crate) async fn acquire_held(
        &self,
        key: &str,
        permits: u64,
        patience: &Patience,
    ) -> Result<Acquired, AcquireError> {
        let Some(_turn) = self.shared.turns.queue(key, patience).await else {
            // Others are still before us; at the latest, everything is free when the key is as good as new.
            let retry_after = self.peek(key).await?.reset_after();
            return Err(AcquireError::TooLong { retry_after });
        };
        loop {
            // Listen before asking: a release in between must not be missed.
            let released = self.shared.turns.listen(key);
            let decision = self.ask_to_hold(key, permits).await?;
            let Verdict::Deny { retry_after } = decision.verdict else {
                return self.sleep_it_out(key, permits, decision, patience).await;
            };
            let left = patience.left();
            if left == Micros::ZERO {
                return Err(AcquireError::TooLong { retry_after });
            }
            // A lease may also end by itself, or be given up in another process that cannot tell us.
            let nap = retry_after.min(left).min(LOOK_AGAIN);
            let _ = tokio::time::timeout(nap.into(), released).await;
        }
    }

    async fn ask_to_hold(&self, key: &str, permits: u64) -> Result<Decision, StoreError> {
        self.decide(key, Verb::Take(self.take(Take::now(permits)))).await
    }
}

/// Releases in other processes are noticed after this at the latest.
const LOOK_AGAIN: Micros = Micros::from_millis(100);
