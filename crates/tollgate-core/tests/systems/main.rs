//! The worked numbers of the systems we replace (`spec/systems.md`, sections 1 to 8), each under a name of its own.
//!
//! Whoever doubts that tollgate does what their present limiter does finds the table here: `sliding` has sections 1, 2
//! and 6, `buckets` 3 and 4, `windows` 5, `together` 7 and the core's part of 8. Times are milliseconds or seconds, as
//! the tables give them.

mod buckets;
mod sliding;
mod together;
mod windows;

use tollgate_core::Micros;

fn ms(millis: u64) -> Micros {
    Micros::from_millis(millis)
}

fn secs(seconds: u64) -> Micros {
    Micros::from_secs(seconds)
}
