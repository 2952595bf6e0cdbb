//! When to send a request again, for tower's retry layer around a [`Polite`](super::Polite) client.

use std::future::{Ready, ready};

use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use tower::retry::Policy;

/// Sends a request again, at most so many times, if the peer answered 429 or 503 and said when to come back. The waiting
/// is done by the polite layer inside, which every attempt goes through.
#[derive(Clone, Copy, Debug)]
pub struct RetryWhenTold {
    attempts_left: usize,
}

impl RetryWhenTold {
    /// So many more attempts after the first.
    pub fn times(attempts: usize) -> Self {
        Self { attempts_left: attempts }
    }
}

impl<B: Clone, R, E> Policy<Request<B>, Response<R>, E> for RetryWhenTold {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut Request<B>, result: &mut Result<Response<R>, E>) -> Option<Ready<()>> {
        let response = result.as_ref().ok()?;
        let status = response.status();
        let told = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
            && response.headers().contains_key(RETRY_AFTER);
        self.attempts_left = self.attempts_left.checked_sub(1).filter(|_| told)?;
        Some(ready(()))
    }

    fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}
