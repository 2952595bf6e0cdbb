//! Settings of the server's layer, which it shares with its services.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, request::Parts};
use ratekeeper_http::{HoldTimes, RateLimitFields};

use crate::{fields::PolicyFields, key::KeyExtractor, limiter::RateLimiter, refusal::Refusal};

/// The handling of a request without a key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum OnMissingKey {
    /// Refused with 400.
    #[default]
    Refuse,
    /// Served, not counted.
    Pass,
    /// Counted under this key, together with all other requests without a key.
    CountAs(String),
}

/// The handling of a request that no rule decides, because the store failed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum OnStoreError {
    /// Refused with 503.
    #[default]
    Refuse,
    /// Served, not counted.
    Pass,
}

/// What a layer has in common with the services it makes.
#[derive(Clone)]
pub(crate) struct Settings<L> {
    pub(crate) limiter: L,
    pub(crate) key: Arc<dyn KeyExtractor>,
    pub(crate) cost: Option<CostFn>,
    pub(crate) on_missing_key: OnMissingKey,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) refusal_response: Option<RefusalFn>,
    pub(crate) fields: PolicyFields,
    /// The hold times of responses, for the estimated wait of refused requests.
    pub(crate) hold_times: Arc<HoldTimes>,
}

/// The cost of a request.
pub(crate) type CostFn = Arc<dyn Fn(&Parts) -> u64 + Send + Sync>;

/// Makes the response to a refused request.
pub(crate) type RefusalFn = Arc<dyn Fn(&Refusal<'_>, &Parts) -> Response<Bytes> + Send + Sync>;

impl<L: RateLimiter> Settings<L> {
    /// The header fields of the current rules.
    pub(crate) fn fields(&self) -> Arc<RateLimitFields> {
        self.fields.of(self.limiter.policy())
    }

    /// The response to a refused request, without the header fields.
    pub(crate) fn refuse(&self, refusal: &Refusal<'_>, head: &Parts) -> Response<Bytes> {
        match &self.refusal_response {
            Some(response) => response(refusal, head),
            None => refusal.response(head),
        }
    }
}
