//! The way of spans to the collector: a bounded queue, batches, and what is counted and told about it.

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

/// Everything between a span and its collector, and who makes spans for it.
pub(super) fn provider(
    config: &TraceConfig,
    registry: &mut Registry,
) -> Result<(SdkTracerProvider, SdkTracer), TraceError> {
    let counts = Family::<Fate, Counter>::default();
    registry.register(
        "spans",
        "Spans made for traces, sent to the collector, lost on the way, and dropped because too many waited",
        counts.clone(),
    );
    let waiting = Arc::new(AtomicUsize::new(0));
    let exporter = Watched {
        inner: exporter(config)?,
        endpoint: shown_endpoint(&config.endpoint),
        is_away: AtomicBool::new(false),
        waiting: Arc::clone(&waiting),
        sent: counts.get_or_create_owned(&Fate::SENT),
        lost: counts.get_or_create_owned(&Fate::LOST),
    };
    let processor = Counting {
        inner: BatchSpanProcessor::builder(exporter).build(),
        made: counts.get_or_create_owned(&Fate::MADE),
        dropped: counts.get_or_create_owned(&Fate::DROPPED),
        waiting,
        most: most_waiting(),
    };
    let mut builder = SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource());
    if let Some(ratio) = config.ratio {
        builder = builder.with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))));
    }
    let provider = builder.build();
    let tracer = provider.tracer("tollgate");
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
        // The address has been looked at; what is left is whom to trust.
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

/// As many as the queue behind it holds, by the same variable.
fn most_waiting() -> usize {
    let told = std::env::var("OTEL_BSP_MAX_QUEUE_SIZE").ok().and_then(|word| word.parse().ok());
    told.filter(|most| *most > 0).unwrap_or(2_048)
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
    waiting: Arc<AtomicUsize>,
    sent: Counter,
    lost: Counter,
}

impl SpanExporter for Watched {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len() as u64;
        self.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
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

/// The queue, and how many came to it. It would drop in silence what it has no room for, so that is done here.
#[derive(Debug)]
struct Counting {
    inner: BatchSpanProcessor,
    made: Counter,
    dropped: Counter,
    /// Handed over and not yet on their way.
    waiting: Arc<AtomicUsize>,
    most: usize,
}

impl SpanProcessor for Counting {
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
            tracing::warn!(
                "more spans are made than the trace collector takes; the rest is dropped and counted (said once)"
            );
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

/// What became of spans.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct Fate {
    outcome: &'static str,
}

impl Fate {
    const MADE: Self = Self { outcome: "made" };
    const SENT: Self = Self { outcome: "sent" };
    const LOST: Self = Self { outcome: "lost" };
    const DROPPED: Self = Self { outcome: "dropped" };
}

/// How long the last spans may take.
pub(super) const GOODBYE: Duration = Duration::from_secs(3);
