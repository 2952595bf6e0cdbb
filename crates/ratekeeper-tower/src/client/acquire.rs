//! Admission to the network: waits out a backoff, then acquires the permits of a request.

use std::{sync::Arc, time::Duration};

use http::request::Parts;
use ratekeeper_core::{Span, bounds::MAX_WAIT};
use tokio::time::{Instant, sleep, sleep_until};

use super::settings::Settings;
use crate::{
    limiter::{RateLimiter, WaitError},
    permit::{HeldPermit, hold, undo},
};

/// The key of a request that has its permits, and the permit it holds under a concurrency rule.
pub(super) struct Acquired {
    pub(super) key: String,
    pub(super) permit: Option<Box<dyn HeldPermit>>,
}

/// Acquires the permits of a request. If a backoff begins meanwhile, the permits are refunded and acquired again after it;
/// otherwise all requests that were held back would be sent at once when it ends.
pub(super) async fn acquire<L: RateLimiter>(
    settings: Arc<Settings<L>>,
    head: Parts,
) -> Result<(Parts, Acquired), WaitError> {
    let (limiter, backoff) = (&settings.limiter, &settings.backoff);
    let key = settings.key.key(&head).unwrap_or_default();
    let cost = settings.cost.as_ref().map_or(1, |cost| cost(&head));
    let deadline = settings.max_wait.and_then(|max_wait| Instant::now().checked_add(max_wait));
    let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    loop {
        if let Some(until) = backoff.until(&key) {
            if deadline.is_some_and(|deadline| until > deadline) {
                let retry_after = Span::from_duration(until.duration_since(Instant::now()));
                return Err(WaitError::TimeoutExceeded { retry_after });
            }
            sleep_until(until).await;
        }
        let decision = match limiter.acquire(&key, cost, left()).await {
            Ok(decision) => decision,
            // Denied although the deadline is later: the key is blocked by a process whose peer asked for a backoff.
            Err(WaitError::TimeoutExceeded { retry_after }) if is_in_time(retry_after, left()) => {
                sleep(retry_after.into()).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        let permit = hold(&decision, limiter, &key, None);
        if backoff.until(&key).is_none() {
            return Ok((head, Acquired { key, permit }));
        }
        undo(&decision, limiter, &key, cost);
    }
}

fn is_in_time(wait: Span, left: Option<Duration>) -> bool {
    Duration::from(wait) <= left.unwrap_or_else(|| MAX_WAIT.into())
}
