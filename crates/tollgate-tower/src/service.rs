//! The gate before a service: asks for each request, and calls the service if it may go.
//!
//! Nothing is decided in `poll_ready`, which knows no request; a refused request costs the service behind nothing but its
//! readiness, which is dropped with the handle that had it.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tollgate_core::{Decision, StoreError, Verb, bounds::MAX_KEY_BYTES};
use tower_service::Service;

use crate::{
    answer::Refused,
    body::ResponseBody,
    future::{Outcome, ResponseFuture},
    gate::Gate,
    layer::{Settings, WithoutKey},
};

/// A service with a limit in front. Clones count together.
pub struct RateLimit<S, G> {
    inner: S,
    settings: Arc<Settings<G>>,
}

impl<S, G> RateLimit<S, G> {
    pub(crate) fn new(inner: S, settings: Arc<Settings<G>>) -> Self {
        Self { inner, settings }
    }

    /// The service behind.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The service behind.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The service behind, without the limit.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, G, B, R> Service<Request<B>> for RateLimit<S, G>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    G: Gate,
    R: Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, G, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // A clone is not ready because its original is, so the handle that was polled goes with the request.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);

        let settings = Arc::clone(&self.settings);
        let (head, body) = request.into_parts();
        let key = match (settings.key.key(&head), &settings.without_key) {
            (Some(key), _) => key,
            (None, WithoutKey::CountAs(key)) => key.clone(),
            (None, WithoutKey::Pass) => {
                return ResponseFuture::uncounted(inner.call(Request::from_parts(head, body)), settings);
            }
            (None, WithoutKey::Refuse) => return ResponseFuture::refused(&Refused::NoKey, &head, settings),
        };
        if key.len() > MAX_KEY_BYTES {
            return ResponseFuture::refused(&Refused::KeyTooLong { found: key.len() }, &head, settings);
        }
        let cost = settings.cost.as_ref().map_or(1, |cost| cost(&head));
        // Naming the future of a store's answer is not possible yet, so this one is boxed; the service's is not.
        let deciding = Box::pin(decide(settings.gate.clone(), key, cost));
        ResponseFuture::deciding(deciding, (inner, head, body), settings)
    }
}

/// Asks, and sleeps what a shaped rule says before the request may go.
async fn decide<G: Gate>(gate: G, key: String, cost: u64) -> Outcome {
    let decision: Result<Decision, StoreError> = gate.check(&key, cost).await;
    if let Ok(decision) = &decision
        && decision.wait() > tollgate_core::Micros::ZERO
    {
        let mut booked = Booked { gate, key: &key, cost, decision, kept: false };
        tokio::time::sleep(Duration::from(decision.wait())).await;
        booked.kept = true;
    }
    Outcome { key, decision }
}

/// Permits for a moment ahead; they go back if the client goes away before.
struct Booked<'a, G: Gate> {
    gate: G,
    key: &'a str,
    cost: u64,
    decision: &'a Decision,
    kept: bool,
}

impl<G: Gate> Drop for Booked<'_, G> {
    fn drop(&mut self) {
        if !self.kept {
            let at = self.decision.decided_at + self.decision.wait();
            self.gate.tell(self.key, Verb::Undo { cost: self.cost, at, lease: self.decision.lease });
        }
    }
}

impl<S: Clone, G> Clone for RateLimit<S, G> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), settings: Arc::clone(&self.settings) }
    }
}

impl<S: fmt::Debug, G> fmt::Debug for RateLimit<S, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}
