//! Limits as tower middleware: the layers of `tollgate-tower`, and [`Limiter`] as the gate they ask.
//!
//! ```
//! use tollgate::{Limiter, Quota, Rule, tower::{ClientAddress, RateLimitLayer}};
//!
//! let limiter = Limiter::builder().rule(Rule::token_bucket("burst", Quota::per_second(10))).build()?;
//! let layer = RateLimitLayer::new(limiter, ClientAddress::of_peer()); // Router::new()….layer(layer)
//! # Ok::<(), tollgate::BuildError>(())
//! ```

use std::{future::Future, sync::Arc, time::Duration};

use tollgate_core::{Decision, LeaseId, Policy, Store, StoreError, Verb};
pub use tollgate_tower::*;

use crate::{AcquireError, Limiter};

impl<S: Store + 'static> Gate for Limiter<S> {
    fn check(&self, key: &str, cost: u64) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.check_n(key, cost)
    }

    async fn acquire(&self, key: &str, cost: u64, within: Option<Duration>) -> Result<Decision, TurnError> {
        let acquired = match within {
            Some(within) => self.acquire_timeout(key, cost, within).await,
            None => Limiter::acquire(self, key, cost).await,
        };
        match acquired {
            Ok(acquired) => Ok(acquired.decision),
            Err(AcquireError::TooLong { retry_after }) => Err(TurnError::TooLong { retry_after }),
            // The permits went back; asking anew would have to wait at least as long again as it was late.
            Err(AcquireError::Late { late_by }) => Err(TurnError::TooLong { retry_after: late_by }),
            Err(AcquireError::Never { cost, limit }) => Err(TurnError::Never { cost, limit }),
            Err(AcquireError::Store(error)) => Err(TurnError::Store(error)),
        }
    }

    async fn heartbeat(&self, key: &str, lease: LeaseId) -> Result<bool, StoreError> {
        Ok(Limiter::heartbeat(self, key, lease).await?.lease.is_some())
    }

    fn tell(&self, key: &str, verb: Verb) {
        self.shared.store.tell(self.shared.ask(key), verb);
        self.shared.wake(key);
    }

    fn policy(&self) -> Arc<Policy> {
        self.shared_policy()
    }
}
