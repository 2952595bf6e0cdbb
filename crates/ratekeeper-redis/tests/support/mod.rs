//! Polling of asynchronous conditions, shared by the tests of this crate.

use std::time::{Duration, Instant};

/// Polls until the condition is true, without blocking the runtime in between.
///
/// # Panics
///
/// If it is not true after `within`; the message contains `what`.
pub(crate) async fn poll_until(what: &str, within: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < within, "no {what} within {within:?}");
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Long compared with a decision, short compared with a restart.
const INTERVAL: Duration = Duration::from_millis(5);
