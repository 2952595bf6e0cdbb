//! The server's layer: makes a limited service of each service it wraps.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{Response, request::Parts};
use ratekeeper_http::{HeaderStyle, HoldTimes};
use tower_layer::Layer;

use crate::{
    fields::PolicyFields,
    key::KeyExtractor,
    limiter::RateLimiter,
    refusal::Refusal,
    service::RateLimit,
    settings::{OnMissingKey, OnStoreError, Settings},
};

/// Limits the services it wraps. All of them, and their clones, count together.
#[derive(Clone)]
pub struct RateLimitLayer<L> {
    settings: Arc<Settings<L>>,
}

impl<L: RateLimiter> RateLimitLayer<L> {
    /// Takes one permit per request, under the key that `key` extracts.
    pub fn new(limiter: L, key: impl KeyExtractor) -> Self {
        let fields = PolicyFields::new(limiter.policy(), HeaderStyle::default());
        let settings = Settings {
            limiter,
            key: Arc::new(key),
            cost: None,
            on_missing_key: OnMissingKey::default(),
            on_store_error: OnStoreError::default(),
            refusal_response: None,
            fields,
            hold_times: Arc::new(HoldTimes::default()),
        };
        Self { settings: Arc::new(settings) }
    }

    /// The cost of a request, 1 by default. A request of cost 0 is served and takes nothing; its response has the fields.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.cost = Some(Arc::new(cost)))
    }

    /// The style of the header fields in responses.
    #[must_use]
    pub fn headers(self, style: HeaderStyle) -> Self {
        self.with(|settings| settings.fields = PolicyFields::new(settings.limiter.policy(), style))
    }

    /// Makes the response to a refused request, instead of [`Refusal::response`]. The fields of
    /// [`headers`](Self::headers) and `Retry-After` are added to it.
    #[must_use]
    pub fn refusal_response(
        self,
        response: impl Fn(&Refusal<'_>, &Parts) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.refusal_response = Some(Arc::new(response)))
    }

    /// The handling of requests without a key.
    #[must_use]
    pub fn on_missing_key(self, on_missing_key: OnMissingKey) -> Self {
        self.with(|settings| settings.on_missing_key = on_missing_key)
    }

    /// The handling of requests that no rule decides. The `on_store_failure` of each rule comes first.
    #[must_use]
    pub fn on_store_error(self, on_store_error: OnStoreError) -> Self {
        self.with(|settings| settings.on_store_error = on_store_error)
    }

    fn with(mut self, change: impl FnOnce(&mut Settings<L>)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

impl<S, L> Layer<S> for RateLimitLayer<L> {
    type Service = RateLimit<S, L>;

    fn layer(&self, inner: S) -> RateLimit<S, L> {
        RateLimit::new(inner, Arc::clone(&self.settings))
    }
}

impl<L> fmt::Debug for RateLimitLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("style", &self.settings.fields.style()).finish_non_exhaustive()
    }
}
