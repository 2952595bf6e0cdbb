//! The client's service: acquires permits for each request, sends it, and records the backoff that the peer asks for.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::SystemTime,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use ratekeeper_core::{Span, Verb, bounds::MAX_WAIT};
use tokio::time::Instant;
use tower_service::Service;

use super::{
    acquire::{Acquired, acquire},
    retry_after::retry_after,
    settings::Settings,
};
use crate::{
    body::ResponseBody,
    call::{AdmittedCall, NotServed, take_ready},
    limiter::{RateLimiter, WaitError},
};

/// A client whose requests wait for permits. Clones share one queue per key.
pub struct Throttled<S, L> {
    inner: S,
    settings: Arc<Settings<L>>,
}

/// A request was not sent, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThrottleError<E> {
    /// No permits were acquired; the request was not sent.
    #[error(transparent)]
    NotAcquired(WaitError),
    /// The inner client failed.
    #[error(transparent)]
    Client(E),
}

pin_project! {
    /// The response of the peer.
    pub struct ThrottleFuture<S, L, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        call: AdmittedCall<S, B, Acquired, WaitError>,
        settings: Arc<Settings<L>>,
    }
}

impl<S, L> Throttled<S, L> {
    pub(super) fn new(inner: S, settings: Arc<Settings<L>>) -> Self {
        Self { inner, settings }
    }
}

impl<S, L, B, R> Service<Request<B>> for Throttled<S, L>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    L: RateLimiter,
    R: Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = ThrottleError<S::Error>;
    type Future = ThrottleFuture<S, L, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(ThrottleError::Client)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (head, body) = request.into_parts();
        let admission = Box::pin(acquire(Arc::clone(&self.settings), head));
        let call = AdmittedCall::new(admission, take_ready(&mut self.inner), body);
        ThrottleFuture { call, settings: Arc::clone(&self.settings) }
    }
}

impl<S, L, B, R> Future for ThrottleFuture<S, L, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    L: RateLimiter,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<R>>, ThrottleError<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        Poll::Ready(match ready!(this.call.poll(cx)) {
            Ok((response, Acquired { key, permit })) => {
                back_off(this.settings, &key, &response);
                Ok(response.map(|body| ResponseBody::served(body, permit)))
            }
            Err(NotServed::Refused(error)) => Err(ThrottleError::NotAcquired(error)),
            Err(NotServed::Failed(error)) => Err(ThrottleError::Client(error)),
        })
    }
}

/// If the response is 429 or 503 with `Retry-After`, holds back requests with this key here and, by a block in the store,
/// in other processes.
fn back_off<L: RateLimiter, R>(settings: &Settings<L>, key: &str, response: &Response<R>) {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return;
    }
    let Some(asked) = retry_after(response.headers(), SystemTime::now()) else { return };
    let span = asked.min(settings.max_backoff);
    let Some(until) = Instant::now().checked_add(span).filter(|_| !span.is_zero()) else { return };
    settings.backoff.set(key, until);
    settings.limiter.submit(key, 0, Verb::Block { span: Span::from_duration(span).min(MAX_WAIT) });
}

impl<S: Clone, L> Clone for Throttled<S, L> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), settings: Arc::clone(&self.settings) }
    }
}

impl<S: fmt::Debug, L> fmt::Debug for Throttled<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttled").field("inner", &self.inner).finish_non_exhaustive()
    }
}
