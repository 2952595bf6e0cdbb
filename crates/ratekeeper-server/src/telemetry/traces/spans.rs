//! OpenTelemetry spans: one per traced request, with one child per store call.
//!
//! The span of a request is in OpenTelemetry's current context of the task, so the engine needs no parameter for it. A
//! request that is not sampled has no context, and its store calls create no spans.

use std::sync::Arc;

use http::HeaderMap;
use opentelemetry::{
    Context, KeyValue,
    propagation::{Extractor, TextMapPropagator},
    trace::{FutureExt, Span as _, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer},
};
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{SdkTracer, SdkTracerProvider, Span},
};
use prometheus_client::registry::Registry;
use ratekeeper_core::{Decision, StoreError};

use super::{DecisionAttributes, TraceConfig, TraceError, export};
use crate::{telemetry::Wire, wiring::AnyStore};

/// Creates spans if tracing is enabled. Clones share one export queue.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<Active>>);

#[derive(Debug)]
struct Active {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
    propagator: TraceContextPropagator,
}

/// The span of a request, if it is traced. Dropping it ends the span.
#[derive(Debug)]
pub(crate) struct Trace(Option<Context>);

/// The span of a store call, if its request is traced. Dropping it ends the span.
pub(crate) struct StoreCall(Option<Span>);

impl Traces {
    /// Starts the export of spans. Must be called within a Tokio runtime, which the gRPC exporter needs.
    pub(crate) fn start(config: &TraceConfig, registry: &mut Registry) -> Result<Self, TraceError> {
        let (provider, tracer) = export::provider(config, registry)?;
        Ok(Self(Some(Arc::new(Active { tracer, provider, propagator: TraceContextPropagator::new() }))))
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Starts the span of a request, as a child of the caller's span if the headers name one.
    #[inline]
    pub(crate) fn request(
        &self,
        wire: Wire,
        name: impl FnOnce() -> &'static str,
        headers: Option<&HeaderMap>,
    ) -> Trace {
        match &self.0 {
            None => Trace(None),
            Some(on) => on.request(wire, name(), headers),
        }
    }

    /// Starts the span of a store call, as a child of the current request's span.
    #[inline]
    pub(crate) fn store_call(&self, store: &AnyStore) -> StoreCall {
        match &self.0 {
            None => StoreCall(None),
            Some(on) => on.store_call(store),
        }
    }

    /// Sets the attributes of the decision on the current request's span.
    #[inline]
    pub(crate) fn set_decision<'a>(&self, attributes: impl FnOnce() -> DecisionAttributes<'a>) {
        if self.0.is_some() {
            Context::map_current(|context| {
                if context.has_active_span() {
                    context.span().set_attributes(key_values(&attributes()));
                }
            });
        }
    }

    /// Exports the remaining spans, within [`export::LAST_EXPORT_TIMEOUT`].
    pub(crate) async fn finish(&self) {
        let Some(on) = self.0.clone() else { return };
        // Shutdown blocks on the exporter's thread, so it must not run on a worker of the runtime.
        let sent =
            tokio::task::spawn_blocking(move || on.provider.shutdown_with_timeout(export::LAST_EXPORT_TIMEOUT)).await;
        if !matches!(sent, Ok(Ok(()))) {
            tracing::warn!("the last spans could not be exported to the trace collector");
        }
    }
}

impl Active {
    fn request(&self, wire: Wire, name: &'static str, headers: Option<&HeaderMap>) -> Trace {
        let parent = match headers {
            Some(headers) => self.propagator.extract_with_context(&Context::new(), &HeaderExtractor(headers)),
            None => Context::new(),
        };
        let mut span =
            self.tracer.build_with_context(SpanBuilder::from_name(name).with_kind(SpanKind::Server), &parent);
        if !span.is_recording() {
            return Trace(None);
        }
        span.set_attribute(KeyValue::new("ratekeeper.wire", wire.name()));
        match (wire, name.split_once([' ', '/'])) {
            (Wire::Http, Some((method, route))) => {
                span.set_attribute(KeyValue::new("http.request.method", method));
                span.set_attribute(KeyValue::new("http.route", route));
            }
            (Wire::Grpc, Some((service, method))) => {
                span.set_attribute(KeyValue::new("rpc.system", "grpc"));
                span.set_attribute(KeyValue::new("rpc.service", service));
                span.set_attribute(KeyValue::new("rpc.method", method));
            }
            _ => {}
        }
        Trace(Some(Context::new().with_span(span)))
    }

    fn store_call(&self, store: &AnyStore) -> StoreCall {
        let kind = store.kind();
        StoreCall(Context::map_current(|request| {
            request.has_active_span().then(|| {
                let kind_of_span = if store.is_immediate() { SpanKind::Internal } else { SpanKind::Client };
                let mut span =
                    self.tracer.build_with_context(SpanBuilder::from_name("store").with_kind(kind_of_span), request);
                span.set_attribute(KeyValue::new("ratekeeper.store", kind));
                span
            })
        }))
    }
}

impl Trace {
    /// The trace of a request that is not traced.
    #[inline]
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Runs a future with this request's context as the current one.
    #[inline]
    pub(crate) async fn around<F: Future>(&self, work: F) -> F::Output {
        match &self.0 {
            None => work.await,
            Some(context) => work.with_context(context.clone()).await,
        }
    }

    /// Runs synchronous work with this request's context as the current one.
    #[inline]
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let _current = self.0.clone().map(Context::attach);
        work()
    }

    /// Ends the span. `status` returns the attribute's name, the status code, and whether it is a server error.
    #[inline]
    pub(crate) fn ended(self, status: impl FnOnce() -> (&'static str, i64, bool)) {
        let Some(context) = self.0 else { return };
        let (name, status, is_server_error) = status();
        let span = context.span();
        span.set_attribute(KeyValue::new(name, status));
        if is_server_error {
            span.set_status(Status::error(""));
        }
        span.end();
    }
}

impl StoreCall {
    /// Ends the span with the outcome of the store call.
    #[inline]
    pub(crate) fn ended(self, decided: &Result<Decision, StoreError>) {
        let Some(mut span) = self.0 else { return };
        match decided {
            Ok(decision) => span.set_attribute(KeyValue::new("ratekeeper.source", decision.source.name())),
            // The error's message may contain keys.
            Err(_) => span.set_status(Status::error("the store could not decide")),
        }
        span.end();
    }
}

fn key_values(decision: &DecisionAttributes<'_>) -> impl Iterator<Item = KeyValue> {
    let text = |name: &'static str, value: Option<&str>| Some(KeyValue::new(name, value?.to_owned()));
    let number = |name: &'static str, value: u64| KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX));
    [
        text("ratekeeper.domain", decision.domain),
        text("ratekeeper.policy", decision.policy),
        text("ratekeeper.rule", decision.rule),
        Some(KeyValue::new("ratekeeper.verdict", decision.verdict.name())),
        Some(KeyValue::new("ratekeeper.source", decision.source)),
        Some(number("ratekeeper.cost", decision.cost)),
        Some(number("ratekeeper.subjects", decision.subjects as u64)),
    ]
    .into_iter()
    .flatten()
}

/// Adapter: header fields as the [`Extractor`] of a propagator.
struct HeaderExtractor<'a>(&'a HeaderMap);

impl Extractor for HeaderExtractor<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}
