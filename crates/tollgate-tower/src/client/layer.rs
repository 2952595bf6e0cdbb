//! The client's layer and service.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use tokio::time::{Instant, sleep, sleep_until};
use tollgate_core::{Decision, Micros, bounds::MAX_WAIT};
use tower_layer::Layer;
use tower_service::Service;

use super::{
    future::{PoliteFuture, Turn},
    holds::Holds,
};
use crate::{
    body::ResponseBody,
    gate::{Gate, TurnError},
    key::KeyFrom,
    layer::CostOf,
};

/// Makes clients wait their turn, and stay away when the peer says so. All services it wraps, and all their clones, wait
/// in one line per key.
pub struct PoliteLayer<G> {
    settings: Arc<Settings<G>>,
}

/// A client that waits its turn. Clones wait in the same line.
pub struct Polite<S, G> {
    inner: S,
    settings: Arc<Settings<G>>,
}

/// A request was not sent, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoliteError<E> {
    /// Its turn did not come; it was not sent.
    #[error(transparent)]
    NoTurn(TurnError),
    /// The client behind failed.
    #[error(transparent)]
    Client(E),
}

pub(super) struct Settings<G> {
    pub(super) gate: G,
    key: Arc<dyn KeyFrom>,
    cost: Option<CostOf>,
    within: Option<Duration>,
    pub(super) longest_hold: Duration,
    pub(super) holds: Arc<Holds>,
}

impl<G: Gate> PoliteLayer<G> {
    /// One line per peer: the key is the request's host and port.
    pub fn new(gate: G) -> Self {
        let settings = Settings {
            gate,
            key: Arc::new(authority),
            cost: None,
            within: None,
            longest_hold: DEFAULT_LONGEST_HOLD,
            holds: Arc::default(),
        };
        Self { settings: Arc::new(settings) }
    }

    /// One line per whatever this finds. A request that says nothing waits in the line of the empty key.
    #[must_use]
    pub fn key(self, key: impl KeyFrom) -> Self {
        self.with(|settings| settings.key = Arc::new(key))
    }

    /// What a request costs; 1 unless said.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.cost = Some(Arc::new(cost)))
    }

    /// Waits no longer than this: if the turn comes later, says so at once. As long as it takes unless said.
    #[must_use]
    pub fn within(self, timeout: Duration) -> Self {
        self.with(|settings| settings.within = Some(timeout))
    }

    /// The longest time a peer can make us stay away, whatever it asks for; one hour unless said.
    #[must_use]
    pub fn longest_hold(self, longest: Duration) -> Self {
        self.with(|settings| settings.longest_hold = longest)
    }

    fn with(mut self, change: impl FnOnce(&mut Settings<G>)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

impl<S, G, B, R> Service<Request<B>> for Polite<S, G>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    G: Gate,
    R: Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = PoliteError<S::Error>;
    type Future = PoliteFuture<S, G, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(PoliteError::Client)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // A clone is not ready because its original is, so the handle that was polled goes with the request.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);

        let settings = Arc::clone(&self.settings);
        let (head, body) = request.into_parts();
        let key = settings.key.key(&head).unwrap_or_default();
        let cost = settings.cost.as_ref().map_or(1, |cost| cost(&head));
        let waiting = Box::pin(wait(Arc::clone(&settings), key, cost));
        PoliteFuture::waiting(waiting, inner, Request::from_parts(head, body), settings)
    }
}

/// Waits until the peer wants to hear from us, and then for a turn. A turn that comes while the peer has asked for quiet
/// is not taken: everybody held back lines up again afterwards, or they would all go at once.
async fn wait<G: Gate>(settings: Arc<Settings<G>>, key: String, cost: u64) -> Result<Turn, TurnError> {
    let deadline = settings.within.and_then(|within| Instant::now().checked_add(within));
    let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    loop {
        if let Some(until) = settings.holds.until(&key) {
            if deadline.is_some_and(|deadline| until > deadline) {
                let retry_after = Micros::from_duration(until.duration_since(Instant::now()));
                return Err(TurnError::TooLong { retry_after });
            }
            sleep_until(until).await;
        }
        let decision: Decision = match settings.gate.acquire(&key, cost, left()).await {
            Ok(decision) => decision,
            // Refused although there is time enough: a block, put up by a process whose peer asked it for quiet.
            Err(TurnError::TooLong { retry_after }) if is_in_time(retry_after, left()) => {
                sleep(retry_after.into()).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        let turn = Turn::new(key.clone(), decision, &settings.gate);
        if settings.holds.until(&key).is_none() {
            return Ok(turn);
        }
        turn.give_back(&settings.gate, cost);
    }
}

fn is_in_time(wait: Micros, left: Option<Duration>) -> bool {
    Duration::from(wait) <= left.unwrap_or_else(|| MAX_WAIT.into())
}

fn authority(request: &Parts) -> Option<String> {
    let host = || request.headers.get(http::header::HOST)?.to_str().ok();
    request.uri.authority().map(http::uri::Authority::as_str).or_else(host).map(str::to_ascii_lowercase)
}

impl<S, G> Layer<S> for PoliteLayer<G> {
    type Service = Polite<S, G>;

    fn layer(&self, inner: S) -> Polite<S, G> {
        Polite { inner, settings: Arc::clone(&self.settings) }
    }
}

impl<G: Clone> Clone for Settings<G> {
    fn clone(&self) -> Self {
        Self {
            gate: self.gate.clone(),
            key: Arc::clone(&self.key),
            cost: self.cost.clone(),
            within: self.within,
            longest_hold: self.longest_hold,
            holds: Arc::clone(&self.holds),
        }
    }
}

impl<G> Clone for PoliteLayer<G> {
    fn clone(&self) -> Self {
        Self { settings: Arc::clone(&self.settings) }
    }
}

impl<S: Clone, G> Clone for Polite<S, G> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), settings: Arc::clone(&self.settings) }
    }
}

impl<G> fmt::Debug for PoliteLayer<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoliteLayer").field("within", &self.settings.within).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, G> fmt::Debug for Polite<S, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polite").field("inner", &self.inner).finish_non_exhaustive()
    }
}

const DEFAULT_LONGEST_HOLD: Duration = Duration::from_secs(3_600);
