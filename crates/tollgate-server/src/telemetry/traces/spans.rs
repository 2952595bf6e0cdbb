//! The spans themselves: one for each request that is traced, one below it for each call to the store.
//!
//! The request's span is carried along by the task (OpenTelemetry's current context), so the engine finds it without
//! being handed it. A request that is not traced carries nothing, and nothing is made for it further on.

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
use tollgate_core::{Decision, StoreError};

use super::{Told, TraceConfig, TraceError, export};
use crate::{telemetry::Wire, wiring::Storage};

/// Makes spans, where somebody wants them. Clones share one queue.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<On>>);

#[derive(Debug)]
struct On {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
    callers: TraceContextPropagator,
}

/// The span of a request, if it is traced. Ends when dropped, too.
#[derive(Debug)]
pub(crate) struct Trace(Option<Context>);

/// The span of a call to the store, if its request is traced. Ends when dropped, too.
pub(crate) struct StoreCall(Option<Span>);

impl Traces {
    /// Begins to send spans. Has to be called on a runtime: the way to the collector lives there.
    pub(crate) fn start(config: &TraceConfig, registry: &mut Registry) -> Result<Self, TraceError> {
        let (provider, tracer) = export::provider(config, registry)?;
        Ok(Self(Some(Arc::new(On { tracer, provider, callers: TraceContextPropagator::new() }))))
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The span of a request that begins now, below its caller's if the headers name one.
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

    /// The span of a call to the store that begins now, below that of the request under way.
    #[inline]
    pub(crate) fn store_call(&self, store: &Storage) -> StoreCall {
        match &self.0 {
            None => StoreCall(None),
            Some(on) => on.store_call(store),
        }
    }

    /// Tells the span of the request under way how it was answered.
    #[inline]
    pub(crate) fn tell<'a>(&self, told: impl FnOnce() -> Told<'a>) {
        if self.0.is_some() {
            Context::map_current(|context| {
                if context.has_active_span() {
                    context.span().set_attributes(attributes(&told()));
                }
            });
        }
    }

    /// Sends what is left. A collector that does not answer is not waited for long.
    pub(crate) async fn finish(&self) {
        let Some(on) = self.0.clone() else { return };
        // It waits for a thread of its own, so it must not keep one of ours.
        let sent = tokio::task::spawn_blocking(move || on.provider.shutdown_with_timeout(export::GOODBYE)).await;
        if !matches!(sent, Ok(Ok(()))) {
            tracing::warn!("the last spans did not reach the collector");
        }
    }
}

impl On {
    fn request(&self, wire: Wire, name: &'static str, headers: Option<&HeaderMap>) -> Trace {
        let parent = match headers {
            Some(headers) => self.callers.extract_with_context(&Context::new(), &Fields(headers)),
            None => Context::new(),
        };
        let mut span =
            self.tracer.build_with_context(SpanBuilder::from_name(name).with_kind(SpanKind::Server), &parent);
        if !span.is_recording() {
            return Trace(None);
        }
        span.set_attribute(KeyValue::new("tollgate.wire", wire.name()));
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

    fn store_call(&self, store: &Storage) -> StoreCall {
        let kind = store.kind();
        StoreCall(Context::map_current(|request| {
            request.has_active_span().then(|| {
                let away = if store.is_immediate() { SpanKind::Internal } else { SpanKind::Client };
                let mut span = self.tracer.build_with_context(SpanBuilder::from_name("store").with_kind(away), request);
                span.set_attribute(KeyValue::new("tollgate.store", kind));
                span
            })
        }))
    }
}

impl Trace {
    /// Of a request that is not to be followed.
    #[inline]
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Does the work as part of this request.
    #[inline]
    pub(crate) async fn around<F: Future>(&self, work: F) -> F::Output {
        match &self.0 {
            None => work.await,
            Some(context) => work.with_context(context.clone()).await,
        }
    }

    /// The same for work that never waits.
    #[inline]
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let _current = self.0.clone().map(Context::attach);
        work()
    }

    /// The request is answered: with this status, under this name, which is our fault or is not.
    #[inline]
    pub(crate) fn ended(self, status: impl FnOnce() -> (&'static str, i64, bool)) {
        let Some(context) = self.0 else { return };
        let (name, status, is_our_fault) = status();
        let span = context.span();
        span.set_attribute(KeyValue::new(name, status));
        if is_our_fault {
            span.set_status(Status::error(""));
        }
        span.end();
    }
}

impl StoreCall {
    /// The store has answered, or has not.
    #[inline]
    pub(crate) fn ended(self, decided: &Result<Decision, StoreError>) {
        let Some(mut span) = self.0 else { return };
        match decided {
            Ok(decision) => span.set_attribute(KeyValue::new("tollgate.source", decision.source.name())),
            // The sentences of errors may name keys.
            Err(_) => span.set_status(Status::error("the store could not decide")),
        }
        span.end();
    }
}

fn attributes(told: &Told<'_>) -> impl Iterator<Item = KeyValue> {
    let word = |name: &'static str, value: Option<&str>| Some(KeyValue::new(name, value?.to_owned()));
    let number = |name: &'static str, value: u64| KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX));
    [
        word("tollgate.domain", told.domain),
        word("tollgate.policy", told.policy),
        word("tollgate.rule", told.rule),
        Some(KeyValue::new("tollgate.verdict", told.verdict.name())),
        Some(KeyValue::new("tollgate.source", told.source)),
        Some(number("tollgate.cost", told.cost)),
        Some(number("tollgate.subjects", told.subjects as u64)),
    ]
    .into_iter()
    .flatten()
}

/// Header fields, as a propagator reads them.
struct Fields<'a>(&'a HeaderMap);

impl Extractor for Fields<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}
