//! The other side of a limit: a client that waits its turn, and comes back when it was told to.
//!
//! [`PoliteLayer`] lets each request [`acquire`](crate::Gate::acquire) its permits before it goes out. When the peer answers 429
//! or 503 with `Retry-After`, nobody sends under that key until it has passed: callers in this process are held back here,
//! and callers in other processes by a block in the store they share. Requests are not sent again by this layer; put
//! `RetryWhenTold` (feature `retry`) with tower's retry layer outside of it, and a second attempt waits like everybody else.

mod future;
mod holds;
mod layer;
#[cfg(feature = "retry")]
mod retry;
mod retry_after;

pub use future::PoliteFuture;
pub use layer::{Polite, PoliteError, PoliteLayer};
#[cfg(feature = "retry")]
pub use retry::RetryWhenTold;
pub use retry_after::retry_after;
