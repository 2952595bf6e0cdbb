//! Time in whole microseconds: [`Span`] for lengths of time, [`Timestamp`] for instants. No clock is read here.
//!
//! The two are different types, so that an instant is never used as a wait. All arithmetic saturates.
//!
//! Values stay below 2^53, because the Lua twin of every algorithm computes in doubles, which are exact up to there.

mod span;
mod timestamp;

pub use span::Span;
pub use timestamp::Timestamp;
