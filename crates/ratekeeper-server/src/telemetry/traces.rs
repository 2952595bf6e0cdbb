//! Distributed tracing: OpenTelemetry spans of requests and store calls, exported over OTLP.
//!
//! ```text
//! caller's span (traceparent) ─▶ span of the request ─▶ span of the store call ─queue─▶ batches ─OTLP─▶ collector
//! ```
//!
//! Requires the feature `otel` and an endpoint; without them no span is created. The queue is bounded. While the
//! collector is unreachable, spans are lost and counted; no decision waits for an export. Attributes describe the
//! request (wire, route, status) and the decision (domain, policy, rule, verdict, source, cost), and never hold a key.

use std::{fmt, path::PathBuf};

use ratekeeper_core::Verdict;

// `noop` is also compiled for tests with `otel`, so that its test runs in both builds.
#[cfg(feature = "otel")]
mod export;
#[cfg(any(test, not(feature = "otel")))]
#[cfg_attr(feature = "otel", allow(dead_code, unreachable_pub, reason = "only its test uses it in that build"))]
mod noop;
#[cfg(feature = "otel")]
mod spans;

#[cfg(not(feature = "otel"))]
use noop as kind;
#[cfg(feature = "otel")]
use spans as kind;

pub(crate) use kind::Trace;
pub use kind::Traces;

/// Configuration of tracing: endpoint, TLS and sampling ratio.
#[derive(Clone, PartialEq)]
pub struct TraceConfig {
    /// A collector that speaks OTLP over gRPC, such as `http://127.0.0.1:4317`.
    pub endpoint: String,
    /// Sampling ratio of requests without a sampling decision by the caller. `None`: `OTEL_TRACES_SAMPLER` applies,
    /// which defaults to all requests.
    pub ratio: Option<f64>,
    /// CA and client certificate for an `https://` endpoint.
    pub tls: TraceTls,
    /// Whether tracing was requested by `--otel`. If not, the endpoint comes from environment variables, which may be
    /// set for a whole fleet, and an error is logged instead of preventing the start.
    pub is_wanted: bool,
}

impl fmt::Debug for TraceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, ratio, tls, is_wanted } = self;
        f.debug_struct("TraceConfig")
            .field("endpoint", &shown_endpoint(endpoint))
            .field("ratio", ratio)
            .field("tls", tls)
            .field("is_wanted", is_wanted)
            .finish()
    }
}

/// PEM files for TLS to the collector.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TraceTls {
    /// The CA of the collector's certificate. `None`: the root certificates of the system.
    pub ca: Option<PathBuf>,
    /// Client certificate and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The endpoint with credentials redacted: everything before the last `@` is replaced, except the scheme `http://` or
/// `https://`.
pub fn shown_endpoint(endpoint: &str) -> String {
    let Some((before, host)) = endpoint.rsplit_once('@') else { return endpoint.to_owned() };
    let scheme = ["http://", "https://"].into_iter().find(|scheme| before.starts_with(scheme)).unwrap_or_default();
    format!("{scheme}***@{host}")
}

/// Why tracing cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The program was built without the feature `otel`.
    #[error(
        "this ratekeeper was built without traces; build one that has them with \
         `cargo build --release -p ratekeeper-cli --features otel`"
    )]
    NotBuilt,
    /// The endpoint is not valid.
    #[error("\"{endpoint}\" is no address of a collector: {cause}; use one such as http://127.0.0.1:4317")]
    Endpoint {
        /// The endpoint, with credentials redacted.
        endpoint: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A certificate or the TLS configuration cannot be used.
    #[error("{what}: {cause}")]
    Certificate {
        /// The file, or the part of the configuration.
        what: String,
        /// What is wrong with it.
        cause: String,
    },
}

/// Attributes of a decision on the span of its request.
#[cfg_attr(not(feature = "otel"), allow(dead_code, reason = "only spans read the fields"))]
pub(crate) struct DecisionAttributes<'a> {
    pub(crate) domain: Option<&'a str>,
    pub(crate) policy: Option<&'a str>,
    pub(crate) rule: Option<&'a str>,
    pub(crate) verdict: Verdict,
    pub(crate) source: &'static str,
    pub(crate) cost: u64,
    pub(crate) subjects: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_shown_without_what_precedes_its_last_at_sign() {
        for (endpoint, shown) in [
            ("http://127.0.0.1:4317", "http://127.0.0.1:4317"),
            ("https://u:S3cret@h:4317", "https://***@h:4317"),
            ("http://u:S3cret/rest@h:4317/x", "http://***@h:4317/x"),
            ("http://u:S3cret?a@b@h", "http://***@h"),
            ("S3cret://u@h", "***@h"),
            ("S3cret@h", "***@h"),
        ] {
            assert_eq!(shown_endpoint(endpoint), shown);
            let config =
                TraceConfig { endpoint: endpoint.to_owned(), ratio: None, tls: TraceTls::default(), is_wanted: true };
            assert!(!format!("{config:?}").contains("S3cret"), "{config:?}");
        }
    }
}
