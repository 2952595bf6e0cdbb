//! Policy for tower's retry layer around a [`Throttled`](super::Throttled) client.

use std::future::{Ready, ready};

use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use tower::retry::Policy;

/// Resends a request if the peer answered 429 or 503 with `Retry-After`, up to a number of times. The throttle layer inside
/// does the waiting.
#[derive(Clone, Copy, Debug)]
pub struct RetryAfterPolicy {
    attempts_left: usize,
}

impl RetryAfterPolicy {
    /// Up to this many attempts after the first.
    pub fn times(attempts: usize) -> Self {
        Self { attempts_left: attempts }
    }
}

impl<B: Clone, R, E> Policy<Request<B>, Response<R>, E> for RetryAfterPolicy {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut Request<B>, result: &mut Result<Response<R>, E>) -> Option<Ready<()>> {
        let response = result.as_ref().ok()?;
        let status = response.status();
        let asked_to_retry = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
            && response.headers().contains_key(RETRY_AFTER);
        self.attempts_left = self.attempts_left.checked_sub(1).filter(|_| asked_to_retry)?;
        Some(ready(()))
    }

    fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}
