//! No-op tracing: the API of `spans` in a build without the feature `otel`.
//!
//! Every type is empty. [`Traces::start`] returns an error; the other calls record nothing.

use http::HeaderMap;
use prometheus_client::registry::Registry;
use ratekeeper_core::{Decision, StoreError};

use super::{DecisionAttributes, TraceConfig, TraceError};
use crate::{telemetry::Wire, wiring::AnyStore};

/// Tracing that is not compiled in.
#[derive(Clone, Debug, Default)]
pub struct Traces(());

/// The trace of a request; always empty.
#[derive(Debug)]
pub(crate) struct Trace;

/// The span of a store call; always empty.
pub(crate) struct StoreCall;

impl Traces {
    pub(crate) fn start(_: &TraceConfig, _: &mut Registry) -> Result<Self, TraceError> {
        Err(TraceError::NotBuilt)
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        false
    }

    #[inline]
    pub(crate) fn request(&self, _: Wire, _: impl FnOnce() -> &'static str, _: Option<&HeaderMap>) -> Trace {
        Trace
    }

    #[inline]
    pub(crate) fn store_call(&self, _: &AnyStore) -> StoreCall {
        StoreCall
    }

    #[inline]
    pub(crate) fn set_decision<'a>(&self, _: impl FnOnce() -> DecisionAttributes<'a>) {}

    pub(crate) async fn finish(&self) {}
}

impl Trace {
    #[inline]
    pub(crate) fn none() -> Self {
        Self
    }

    #[inline]
    pub(crate) fn around<F: Future>(&self, work: F) -> F {
        work
    }

    #[inline]
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    #[inline]
    pub(crate) fn ended(self, _: impl FnOnce() -> (&'static str, i64, bool)) {}
}

impl StoreCall {
    #[inline]
    pub(crate) fn ended(self, _: &Result<Decision, StoreError>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_missing_feature() {
        let config = TraceConfig {
            endpoint: "http://127.0.0.1:4317".to_owned(),
            ratio: None,
            tls: Default::default(),
            is_wanted: true,
        };
        let error = Traces::start(&config, &mut Registry::default()).unwrap_err();
        assert!(error.to_string().contains("--features otel"), "{error}");
    }
}
