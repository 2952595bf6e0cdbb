//! Span export: a bounded queue, batches, OTLP over gRPC, and counters of spans made, sent, lost and dropped.
//!
//! Bound: `OTEL_BSP_MAX_QUEUE_SIZE` spans in the queue, 2048 by default. Further spans are dropped and counted.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use opentelemetry::{Context, Key, KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{
    SpanExporter as OtlpExporter, WithExportConfig, WithTonicConfig,
    tonic_types::transport::{Certificate, ClientTlsConfig, Identity},
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

use super::{TraceConfig, TraceError, TraceTls, shown_endpoint};

/// The provider, with processor and exporter, and a tracer that creates its spans.
pub(super) fn provider(
    config: &TraceConfig,
    registry: &mut Registry,
) -> Result<(SdkTracerProvider, SdkTracer), TraceError> {
    let counts = Family::<SpanLabels, Counter>::default();
    registry.register(
        "spans",
        "Spans made, sent to the collector, lost in export, and dropped because the queue was full",
        counts.clone(),
    );
    let waiting = Arc::new(AtomicUsize::new(0));
    let exporter = ReportingExporter {
        inner: exporter(config)?,
        endpoint: shown_endpoint(&config.endpoint),
        is_failing: AtomicBool::new(false),
        waiting: Arc::clone(&waiting),
        sent: counts.get_or_create_owned(&SpanLabels::SENT),
        lost: counts.get_or_create_owned(&SpanLabels::LOST),
    };
    let processor = BoundedProcessor {
        inner: BatchSpanProcessor::builder(exporter).build(),
        made: counts.get_or_create_owned(&SpanLabels::MADE),
        dropped: counts.get_or_create_owned(&SpanLabels::DROPPED),
        waiting,
        most: queue_capacity(),
    };
    let mut builder = SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource());
    if let Some(ratio) = config.ratio {
        builder = builder.with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))));
    }
    let provider = builder.build();
    let tracer = provider.tracer("ratekeeper");
    Ok((provider, tracer))
}

fn exporter(config: &TraceConfig) -> Result<OtlpExporter, TraceError> {
    let endpoint = config.endpoint.as_str();
    let refused = |cause: String| TraceError::Endpoint { endpoint: shown_endpoint(endpoint), cause };
    if shown_endpoint(endpoint) != endpoint {
        let cause = "a user and password are not sent; put them into OTEL_EXPORTER_OTLP_HEADERS";
        return Err(refused(cause.to_owned()));
    }
    let scheme = endpoint.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let mut builder = OtlpExporter::builder().with_tonic().with_endpoint(endpoint);
    match scheme.as_deref() {
        Some("http") => {}
        Some("https") => builder = builder.with_tls_config(tls(&config.tls)?),
        _ => return Err(refused("it begins with neither http:// nor https://".to_owned())),
    }
    builder.build().map_err(|error| match scheme.as_deref() {
        // The endpoint's scheme is valid at this point, so the cause is taken to be the TLS configuration.
        Some("https") => {
            TraceError::Certificate { what: "TLS towards the collector".to_owned(), cause: error.to_string() }
        }
        _ => refused(error.to_string()),
    })
}

fn tls(files: &TraceTls) -> Result<ClientTlsConfig, TraceError> {
    let read = |file: &Path| {
        fs::read(file).map_err(|error| TraceError::Certificate {
            what: file.display().to_string(),
            cause: format!("could not be read: {error}"),
        })
    };
    let mut tls = match &files.ca {
        Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?)),
        None => ClientTlsConfig::new().with_enabled_roots(),
    };
    if let Some((cert, key)) = &files.identity {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(tls)
}

/// Capacity of the SDK's queue, from the variable that the SDK reads.
fn queue_capacity() -> usize {
    let result = std::env::var("OTEL_BSP_MAX_QUEUE_SIZE").ok().and_then(|value| value.parse().ok());
    result.filter(|most| *most > 0).unwrap_or(2_048)
}

/// The resource: `service.name` from the environment, otherwise `ratekeeper`.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let result = Resource::builder().with_attribute(version.clone()).build();
    let name = result.get_ref(&Key::from_static_str("service.name")).map(|name| name.as_str().into_owned());
    if name.is_some_and(|name| !name.starts_with("unknown_service")) {
        return result;
    }
    Resource::builder().with_attribute(version).with_service_name("ratekeeper").build()
}

/// An exporter that counts spans, and logs when exports begin to fail and when they succeed again.
#[derive(Debug)]
struct ReportingExporter {
    inner: OtlpExporter,
    endpoint: String,
    is_failing: AtomicBool,
    waiting: Arc<AtomicUsize>,
    sent: Counter,
    lost: Counter,
}

impl SpanExporter for ReportingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len() as u64;
        self.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
        let result = self.inner.export(batch).await;
        let endpoint = &self.endpoint;
        match &result {
            Ok(()) => {
                self.sent.inc_by(count);
                if self.is_failing.swap(false, Ordering::Relaxed) {
                    tracing::info!(%endpoint, "the trace collector accepts spans again");
                }
            }
            Err(error) => {
                self.lost.inc_by(count);
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%endpoint, %error, "the trace collector does not accept spans; they are lost until it does (logged once)");
                }
            }
        }
        result
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

/// A batch processor that counts the spans it drops. The SDK's processor would drop them without a metric, so the bound
/// is enforced before its queue.
#[derive(Debug)]
struct BoundedProcessor {
    inner: BatchSpanProcessor,
    made: Counter,
    dropped: Counter,
    /// Spans in the queue: accepted and not yet passed to the exporter.
    waiting: Arc<AtomicUsize>,
    most: usize,
}

impl SpanProcessor for BoundedProcessor {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        self.made.inc();
        if self.waiting.fetch_add(1, Ordering::Relaxed) < self.most {
            return self.inner.on_end(span);
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if self.dropped.inc() == 0 {
            tracing::warn!("the queue of spans is full; further spans are dropped and counted (logged once)");
        }
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

/// Label of the span counter.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct SpanLabels {
    outcome: &'static str,
}

impl SpanLabels {
    const MADE: Self = Self { outcome: "made" };
    const SENT: Self = Self { outcome: "sent" };
    const LOST: Self = Self { outcome: "lost" };
    const DROPPED: Self = Self { outcome: "dropped" };
}

/// Timeout of the last export at shutdown.
pub(super) const LAST_EXPORT_TIMEOUT: Duration = Duration::from_secs(3);
