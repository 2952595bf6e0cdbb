//! Worked examples of other rate limiters, each as a named test.
//!
//! For users who compare ratekeeper with another limiter: `sliding` has sections 1, 2
//! and 6, `buckets` 3 and 4, `windows` 5, `together` 7 and the core's part of 8. Times are milliseconds or seconds, as
//! the tables give them.

mod buckets;
mod sliding;
mod together;
mod windows;

use ratekeeper_core::Span;

fn ms(millis: u64) -> Span {
    Span::from_millis(millis)
}

fn secs(seconds: u64) -> Span {
    Span::from_secs(seconds)
}
