//! Tower middleware: the layers of `ratekeeper-tower`, and [`Limiter`] as their [`RateLimiter`].
//!
//! The layers ask the limiter's default policy; [`Limiter::with_policy`] selects another.
//!
//! ```
//! use ratekeeper::{Limiter, Quota, Rule, tower::{ClientAddress, RateLimitLayer}};
//!
//! let limiter = Limiter::builder().rule(Rule::token_bucket("burst", Quota::per_second(10))).build()?;
//! let layer = RateLimitLayer::new(limiter, ClientAddress::of_peer()); // Router::new()….layer(layer)
//! # Ok::<(), ratekeeper::BuildError>(())
//! ```

use std::{sync::Arc, time::Duration};

use ratekeeper_core::{Decision, LeaseId, Policy, Span, Store, StoreError, Take, Verb};
pub use ratekeeper_tower::*;

use crate::{AcquireError, Limiter, Request};

impl<S: Store + 'static> RateLimiter for Limiter<S> {
    async fn check(&self, key: &str, cost: u64) -> Result<Decision, StoreError> {
        self.decide(&self.slot, key, cost, Verb::Take(self.take(&self.slot, Take::now()))).await
    }

    async fn acquire(&self, key: &str, cost: u64, within: Option<Duration>) -> Result<Decision, WaitError> {
        match self.acquire_by(Request::new(key).cost(cost), within).await {
            Ok(acquired) => Ok(acquired.decision),
            Err(AcquireError::Denied { retry_after }) => Err(denied(retry_after)),
            // The permits were refunded. The next attempt would wait at least as long as this one was late.
            Err(AcquireError::DeadlineMissed { late_by }) => Err(denied(late_by)),
            Err(AcquireError::ExceedsLimit { cost, limit }) => Err(WaitError::ExceedsLimit { cost, limit }),
            Err(AcquireError::Store(error)) => Err(WaitError::Store(error)),
            // Not reachable: the request names no policy.
            Err(AcquireError::UnknownPolicy(_)) => Err(denied(Duration::ZERO)),
        }
    }

    async fn heartbeat(&self, key: &str, lease: LeaseId) -> Result<bool, StoreError> {
        Ok(self.decide(&self.slot, key, 0, Verb::Heartbeat(lease)).await?.lease.is_some())
    }

    fn submit(&self, key: &str, cost: u64, verb: Verb) {
        Limiter::submit(self, &self.slot, key, cost, verb);
    }

    fn policy(&self) -> Arc<Policy> {
        Limiter::policy(self)
    }
}

fn denied(retry_after: Duration) -> WaitError {
    WaitError::TimeoutExceeded { retry_after: Span::from_duration(retry_after) }
}
