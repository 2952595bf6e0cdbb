//! The way of spans to the collector: a bounded queue, batches, and what is counted and told about it.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use opentelemetry::{Context, Key, KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{
    SpanExporter as OtlpExporter, WithExportConfig, WithTonicConfig, tonic_types::transport::ClientTlsConfig,
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, Span, SpanData, SpanExporter, SpanProcessor},
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::{TraceConfig, TraceError};

/// Everything between a span and its collector, and who makes spans for it.
pub(super) fn provider(
    config: &TraceConfig,
    registry: &mut Registry,
) -> Result<(SdkTracerProvider, SdkTracer), TraceError> {
    let counts = Family::<Fate, Counter>::default();
    registry.register("spans", "Spans made for traces, sent to the collector, and lost on the way", counts.clone());
    let exporter = Watched {
        inner: exporter(&config.endpoint)?,
        endpoint: config.endpoint.clone(),
        is_away: AtomicBool::new(false),
        sent: counts.get_or_create_owned(&Fate::SENT),
        lost: counts.get_or_create_owned(&Fate::LOST),
    };
    let processor = Counting {
        inner: BatchSpanProcessor::builder(exporter).build(),
        made: counts.get_or_create_owned(&Fate::MADE),
    };
    let mut builder = SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource());
    if let Some(ratio) = config.ratio {
        builder = builder.with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))));
    }
    let provider = builder.build();
    let tracer = provider.tracer("tollgate");
    Ok((provider, tracer))
}

fn exporter(endpoint: &str) -> Result<OtlpExporter, TraceError> {
    let refused = |cause: String| TraceError::Endpoint { endpoint: endpoint.to_owned(), cause };
    let scheme = endpoint.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let mut builder = OtlpExporter::builder().with_tonic().with_endpoint(endpoint);
    match scheme.as_deref() {
        Some("http") => {}
        Some("https") => builder = builder.with_tls_config(ClientTlsConfig::new().with_enabled_roots()),
        _ => return Err(refused("it begins with neither http:// nor https://".to_owned())),
    }
    builder.build().map_err(|error| refused(error.to_string()))
}

/// Who we are: as the environment says, else `tollgate`.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let told = Resource::builder().with_attribute(version.clone()).build();
    let name = told.get_ref(&Key::from_static_str("service.name")).map(|name| name.as_str().into_owned());
    if name.is_some_and(|name| !name.starts_with("unknown_service")) {
        return told;
    }
    Resource::builder().with_attribute(version).with_service_name("tollgate").build()
}

/// The exporter, and whether it gets through.
#[derive(Debug)]
struct Watched {
    inner: OtlpExporter,
    endpoint: String,
    is_away: AtomicBool,
    sent: Counter,
    lost: Counter,
}

impl SpanExporter for Watched {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len() as u64;
        let told = self.inner.export(batch).await;
        let endpoint = &self.endpoint;
        match &told {
            Ok(()) => {
                self.sent.inc_by(count);
                if self.is_away.swap(false, Ordering::Relaxed) {
                    tracing::info!(%endpoint, "the trace collector is back");
                }
            }
            Err(error) => {
                self.lost.inc_by(count);
                if !self.is_away.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%endpoint, %error, "the trace collector does not take spans; they are lost until it does (said once)");
                }
            }
        }
        told
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// The queue, and how many came to it: more than were sent and lost together were dropped because it was full.
#[derive(Debug)]
struct Counting {
    inner: BatchSpanProcessor,
    made: Counter,
}

impl SpanProcessor for Counting {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        self.made.inc();
        self.inner.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// What became of spans.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct Fate {
    outcome: &'static str,
}

impl Fate {
    const MADE: Self = Self { outcome: "made" };
    const SENT: Self = Self { outcome: "sent" };
    const LOST: Self = Self { outcome: "lost" };
}

/// How long the last spans may take.
pub(super) const GOODBYE: Duration = Duration::from_secs(3);
