//! Requests: the key, cost and policy that every method of a limiter takes.

use std::time::Duration;

use ratekeeper_core::{OnExpiry, RequestId, Span, Terms};

/// What is asked for: a key, a cost and a policy.
///
/// Every method of a [`Limiter`](crate::Limiter) takes `impl Into<Request>`, so a plain key and a key with a cost need no
/// builder:
///
/// ```
/// use ratekeeper::Request;
///
/// assert_eq!(Request::from("user:42"), Request::new("user:42").cost(1));
/// assert_eq!(Request::from(("user:42", 5)), Request::new("user:42").cost(5));
/// let pro = Request::new("user:42").policy("pro");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "a request does nothing until a limiter decides it"]
pub struct Request<'a> {
    pub(crate) key: &'a str,
    pub(crate) cost: u64,
    /// `None`: the limiter's default policy.
    pub(crate) policy: Option<&'a str>,
    pub(crate) terms: Terms,
}

impl<'a> Request<'a> {
    /// One permit for this key, under the limiter's default policy.
    #[inline]
    pub const fn new(key: &'a str) -> Self {
        Self { key, cost: 1, policy: None, terms: Terms::NONE }
    }

    /// The number of permits. 0 charges nothing and is admitted even if no permit is left.
    #[inline]
    pub const fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// The policy that decides, by name: a tier, for example. A name that the limiter does not have is an error
    /// ([`UnknownPolicy`](crate::UnknownPolicy)).
    #[inline]
    pub const fn policy(mut self, name: &'a str) -> Self {
        self.policy = Some(name);
        self
    }

    /// Names the request, so that it can be sent again safely: within the [lifetime](Self::lifetime) of the id, the same
    /// request of the same key gets the decision of the first time and is charged once. A denied request is decided anew.
    ///
    /// The request is charged by one call of the store, which is repeated once if its outcome is unknown.
    /// [`commit`](crate::Limiter::commit) and [`cancel`](crate::Limiter::cancel) refer to it.
    #[inline]
    pub fn id(mut self, id: &str) -> Self {
        self.terms = self.terms.with_id(RequestId::of(id));
        self
    }

    /// How long the id is remembered after the request was charged: a minute by default, a day at most.
    #[inline]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.terms = self.terms.lifetime(Span::from_duration(lifetime));
        self
    }

    /// Refunds the permits when the lifetime of the id ends, unless the request was [committed](crate::Limiter::commit) or
    /// [cancelled](crate::Limiter::cancel). By default they stay charged.
    #[inline]
    pub const fn refund_on_expiry(mut self) -> Self {
        self.terms = self.terms.on_expiry(OnExpiry::Refund);
        self
    }

    /// Accepts a part of the cost, but at least this much: the largest cost up to the request's that passes now is charged,
    /// and [`Decision::granted`](crate::Decision::granted) has it.
    #[inline]
    pub const fn at_least(mut self, least: u64) -> Self {
        self.terms = self.terms.at_least(least);
        self
    }
}

/// A key with a cost of 1.
impl<'a, K: AsRef<str> + ?Sized> From<&'a K> for Request<'a> {
    #[inline]
    fn from(key: &'a K) -> Self {
        Self::new(key.as_ref())
    }
}

/// A key with a cost.
impl<'a, K: AsRef<str> + ?Sized> From<(&'a K, u64)> for Request<'a> {
    #[inline]
    fn from((key, cost): (&'a K, u64)) -> Self {
        Self::new(key.as_ref()).cost(cost)
    }
}
