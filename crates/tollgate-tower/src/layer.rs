//! From a limiter to a layer.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::{Response, request::Parts};
use tollgate_core::Policy;
use tower_layer::Layer;

use crate::{
    answer::Refused,
    gate::Gate,
    headers::{HeaderStyle, RateLimitFields},
    key::KeyFrom,
    service::RateLimit,
};

/// Puts a limit in front of services. All services it wraps, and all their clones, count together.
pub struct RateLimitLayer<G> {
    settings: Arc<Settings<G>>,
}

/// What becomes of a request that does not say who it is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum WithoutKey {
    /// It is refused.
    #[default]
    Refuse,
    /// It passes, uncounted.
    Pass,
    /// It is counted together with all others of its kind, under this key.
    CountAs(String),
}

/// What becomes of a request that nothing could be decided about: the store failed in a way that no rule has an answer to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Undecided {
    /// It is refused, with 503.
    #[default]
    Refuse,
    /// It passes, uncounted.
    Pass,
}

pub(crate) struct Settings<G> {
    pub(crate) gate: G,
    pub(crate) key: Arc<dyn KeyFrom>,
    pub(crate) cost: Option<CostOf>,
    pub(crate) answer: Option<Answer>,
    pub(crate) without_key: WithoutKey,
    pub(crate) undecided: Undecided,
    style: HeaderStyle,
    fields: Mutex<Arc<Prepared>>,
}

/// What a request costs.
pub(crate) type CostOf = Arc<dyn Fn(&Parts) -> u64 + Send + Sync>;

type Answer = Arc<dyn Fn(&Refused<'_>, &Parts) -> Response<Bytes> + Send + Sync>;

/// The header fields of a policy, until it changes.
struct Prepared {
    policy: Arc<Policy>,
    fields: Arc<RateLimitFields>,
}

impl<G: Gate> RateLimitLayer<G> {
    /// A layer that lets one permit's worth of requests pass under each key, as the limiter's rules say.
    pub fn new(gate: G, key: impl KeyFrom) -> Self {
        let fields = Mutex::new(Arc::new(Prepared::new(gate.policy(), HeaderStyle::default())));
        let settings = Settings {
            gate,
            key: Arc::new(key),
            cost: None,
            answer: None,
            without_key: WithoutKey::default(),
            undecided: Undecided::default(),
            style: HeaderStyle::default(),
            fields,
        };
        Self { settings: Arc::new(settings) }
    }

    /// What a request costs; 1 unless said. A request of cost 0 passes and is told how things stand.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.cost = Some(Arc::new(cost)))
    }

    /// Which header fields go with every response.
    #[must_use]
    pub fn headers(self, style: HeaderStyle) -> Self {
        self.with(|settings| {
            settings.style = style;
            settings.fields = Mutex::new(Arc::new(Prepared::new(settings.gate.policy(), style)));
        })
    }

    /// What refused requests hear. The fields of [`headers`](Self::headers) and `Retry-After` are added to it;
    /// [`Refused::answer`] is what they hear otherwise.
    #[must_use]
    pub fn answer(self, answer: impl Fn(&Refused<'_>, &Parts) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.answer = Some(Arc::new(answer)))
    }

    /// What becomes of requests without a key.
    #[must_use]
    pub fn without_key(self, without_key: WithoutKey) -> Self {
        self.with(|settings| settings.without_key = without_key)
    }

    /// What becomes of requests that nothing could be decided about. A rule's own `on_store_failure` comes first.
    #[must_use]
    pub fn undecided(self, undecided: Undecided) -> Self {
        self.with(|settings| settings.undecided = undecided)
    }

    fn with(mut self, change: impl FnOnce(&mut Settings<G>)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

impl<G: Gate> Settings<G> {
    /// The header fields for the rules as they are now.
    pub(crate) fn fields(&self) -> Arc<RateLimitFields> {
        let policy = self.gate.policy();
        let mut prepared = self.fields.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&prepared.policy, &policy) {
            *prepared = Arc::new(Prepared::new(policy, self.style));
        }
        Arc::clone(&prepared.fields)
    }
}

impl Prepared {
    fn new(policy: Arc<Policy>, style: HeaderStyle) -> Self {
        let fields = Arc::new(RateLimitFields::new(&policy, style));
        Self { policy, fields }
    }
}

impl<G: Clone> Clone for Settings<G> {
    fn clone(&self) -> Self {
        Self {
            gate: self.gate.clone(),
            key: Arc::clone(&self.key),
            cost: self.cost.clone(),
            answer: self.answer.clone(),
            without_key: self.without_key.clone(),
            undecided: self.undecided,
            style: self.style,
            fields: Mutex::new(Arc::clone(&self.fields.lock().unwrap_or_else(PoisonError::into_inner))),
        }
    }
}

impl<S, G> Layer<S> for RateLimitLayer<G> {
    type Service = RateLimit<S, G>;

    fn layer(&self, inner: S) -> RateLimit<S, G> {
        RateLimit::new(inner, Arc::clone(&self.settings))
    }
}

impl<G> Clone for RateLimitLayer<G> {
    fn clone(&self) -> Self {
        Self { settings: Arc::clone(&self.settings) }
    }
}

impl<G> fmt::Debug for RateLimitLayer<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("style", &self.settings.style).finish_non_exhaustive()
    }
}
