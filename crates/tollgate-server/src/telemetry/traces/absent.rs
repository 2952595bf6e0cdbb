//! No traces: what is left of them when they are not compiled in. All of it is nothing.

use http::HeaderMap;
use prometheus_client::registry::Registry;
use tollgate_core::{Decision, StoreError};

use super::{Told, TraceConfig, TraceError};
use crate::{telemetry::Wire, wiring::Storage};

/// No traces.
#[derive(Clone, Debug, Default)]
pub struct Traces(());

/// Not followed.
#[derive(Debug)]
pub(crate) struct Trace;

/// Not followed either.
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
    pub(crate) fn store_call(&self, _: &Storage) -> StoreCall {
        StoreCall
    }

    #[inline]
    pub(crate) fn tell<'a>(&self, _: impl FnOnce() -> Told<'a>) {}

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
    fn asking_for_traces_is_answered_with_how_to_get_them() {
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
