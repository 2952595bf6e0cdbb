//! The client's layer: makes a throttled client of each client it wraps.

use std::{fmt, sync::Arc, time::Duration};

use http::request::Parts;
use tower_layer::Layer;

use super::{service::Throttled, settings::Settings};
use crate::{key::KeyExtractor, limiter::RateLimiter};

/// Makes the requests of clients wait for permits, and obeys `Retry-After`. All clients it wraps, and their clones, share one
/// queue per key.
#[derive(Clone)]
pub struct ThrottleLayer<L> {
    settings: Arc<Settings<L>>,
}

impl<L: RateLimiter> ThrottleLayer<L> {
    /// Takes one permit per request. The key is the host and port of the request.
    pub fn new(limiter: L) -> Self {
        let settings = Settings {
            limiter,
            key: Arc::new(authority),
            cost: None,
            max_wait: None,
            max_backoff: DEFAULT_MAX_BACKOFF,
            backoff: Arc::default(),
        };
        Self { settings: Arc::new(settings) }
    }

    /// Extracts the key. Requests without one share the empty key.
    #[must_use]
    pub fn key(self, key: impl KeyExtractor) -> Self {
        self.with(|settings| settings.key = Arc::new(key))
    }

    /// The cost of a request, 1 by default.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.cost = Some(Arc::new(cost)))
    }

    /// The longest wait, unlimited by default. A request that would wait longer fails at once and is not sent.
    #[must_use]
    pub fn max_wait(self, max_wait: Duration) -> Self {
        self.with(|settings| settings.max_wait = Some(max_wait))
    }

    /// The longest backoff that a peer can ask for, one hour by default.
    #[must_use]
    pub fn max_backoff(self, max_backoff: Duration) -> Self {
        self.with(|settings| settings.max_backoff = max_backoff)
    }

    fn with(mut self, change: impl FnOnce(&mut Settings<L>)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

/// Host and port, from the URI or else the `Host` field.
fn authority(request: &Parts) -> Option<String> {
    let host = || request.headers.get(http::header::HOST)?.to_str().ok();
    request.uri.authority().map(http::uri::Authority::as_str).or_else(host).map(str::to_ascii_lowercase)
}

impl<S, L> Layer<S> for ThrottleLayer<L> {
    type Service = Throttled<S, L>;

    fn layer(&self, inner: S) -> Throttled<S, L> {
        Throttled::new(inner, Arc::clone(&self.settings))
    }
}

impl<L> fmt::Debug for ThrottleLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleLayer").field("max_wait", &self.settings.max_wait).finish_non_exhaustive()
    }
}

const DEFAULT_MAX_BACKOFF: Duration = Duration::from_secs(3_600);
