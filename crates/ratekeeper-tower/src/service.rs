//! The server's service: decides about each request, then calls the inner service.
//!
//! `poll_ready` only asks the inner service, because it has no request to decide about. A refused request drops the
//! readiness that the inner service had reserved for it.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::{
    admission::{Admitted, admit},
    body::ResponseBody,
    call::{AdmittedCall, NotServed, take_ready},
    limiter::RateLimiter,
    settings::Settings,
};

/// A service behind a limit. Clones count together.
pub struct RateLimit<S, L> {
    inner: S,
    settings: Arc<Settings<L>>,
}

pin_project! {
    /// The response of the inner service, or of a refusal.
    pub struct ResponseFuture<S, L, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        call: AdmittedCall<S, B, Option<Admitted>, Response<Bytes>>,
        settings: Arc<Settings<L>>,
    }
}

impl<S, L> RateLimit<S, L> {
    pub(crate) fn new(inner: S, settings: Arc<Settings<L>>) -> Self {
        Self { inner, settings }
    }

    /// The inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service, without the limit.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, L, B, R> Service<Request<B>> for RateLimit<S, L>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    L: RateLimiter,
    R: Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, L, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (head, body) = request.into_parts();
        let admission = Box::pin(admit(Arc::clone(&self.settings), head));
        let call = AdmittedCall::new(admission, take_ready(&mut self.inner), body);
        ResponseFuture { call, settings: Arc::clone(&self.settings) }
    }
}

impl<S, L, B, R> Future for ResponseFuture<S, L, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    L: RateLimiter,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        Poll::Ready(match ready!(this.call.poll(cx)) {
            Ok((response, admitted)) => Ok(add_fields(this.settings, response, admitted)),
            Err(NotServed::Refused(response)) => Ok(response.map(ResponseBody::refused)),
            Err(NotServed::Failed(error)) => Err(error),
        })
    }
}

/// Adds the header fields of the decision to the response, and the permit to its body.
fn add_fields<L: RateLimiter, R>(
    settings: &Settings<L>,
    mut response: Response<R>,
    admitted: Option<Admitted>,
) -> Response<ResponseBody<R>> {
    let permit = admitted.and_then(|Admitted { decision, permit }| {
        settings.fields().insert_into(&decision, response.headers_mut());
        permit
    });
    response.map(|body| ResponseBody::served(body, permit))
}

impl<S: Clone, L> Clone for RateLimit<S, L> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), settings: Arc::clone(&self.settings) }
    }
}

impl<S: fmt::Debug, L> fmt::Debug for RateLimit<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}
