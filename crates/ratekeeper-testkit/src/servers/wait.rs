//! Polling for a condition that another process or task brings about, within a bound.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Polls until the condition is true. Blocks the thread between polls.
///
/// # Panics
///
/// If it is not true after `within`; the message contains `what`.
#[track_caller]
pub fn wait_until(what: &str, within: Duration, mut done: impl FnMut() -> bool) {
    wait_for(what, within, || done().then_some(()));
}

/// Polls until there is a value, and returns it.
#[track_caller]
pub(super) fn wait_for<T>(what: &str, within: Duration, mut find: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(start.elapsed() < within, "no {what} within {within:?}");
        thread::sleep(POLL_INTERVAL);
    }
}

/// Short compared to the start of a server (about 10 ms), long compared to a command (about 0.1 ms).
const POLL_INTERVAL: Duration = Duration::from_millis(2);
