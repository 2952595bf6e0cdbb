//! Waiting for something another process does: asked for again and again, and never without an end.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Asks until the answer is yes.
///
/// # Panics
///
/// When it is still no after `within`; the message names `what` was waited for.
#[track_caller]
pub fn wait_until(what: &str, within: Duration, mut done: impl FnMut() -> bool) {
    wait_for(what, within, || done().then_some(()));
}

/// Asks until there is an answer, and hands it over.
#[track_caller]
pub(super) fn wait_for<T>(what: &str, within: Duration, mut answer: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = answer() {
            return found;
        }
        assert!(start.elapsed() < within, "waited {within:?} in vain: {what}");
        thread::sleep(BETWEEN_QUESTIONS);
    }
}

/// Short beside the time a server needs to start (about 10 ms), long beside a question (about 0.1 ms).
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(2);
