//! Rate limiting on the client's side: requests wait for permits, and `Retry-After` of the peer is obeyed.
//!
//! [`ThrottleLayer`] [acquires](crate::RateLimiter::acquire) the permits of each request before it is sent. If the peer answers
//! 429 or 503 with `Retry-After`, no request with that key is sent until the time has passed: this process holds its
//! requests back, and a block in the shared store holds back those of other processes.
//!
//! The layer does not resend requests. For that, wrap it in tower's retry layer with `RetryAfterPolicy` (feature `retry`); each
//! attempt then waits like a new request.

mod acquire;
mod backoff;
mod layer;
#[cfg(feature = "retry")]
mod retry;
mod retry_after;
mod service;
mod settings;

pub use layer::ThrottleLayer;
#[cfg(feature = "retry")]
pub use retry::RetryAfterPolicy;
pub use retry_after::retry_after;
pub use service::{ThrottleError, ThrottleFuture, Throttled};
