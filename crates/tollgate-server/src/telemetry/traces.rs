//! Traces: where the time of one request went, for whoever follows it through many services.
//!
//! ```text
//! caller's span (traceparent) ─▶ span of the request ─▶ span of the store call ─queue─▶ batches ─OTLP─▶ collector
//! ```
//!
//! Only with the feature `otel`, and only where an endpoint is named: otherwise nothing is made, kept or looked up. The
//! queue has an end. When the collector is away, spans are lost and counted; no decision ever waits for one. A span tells
//! domain, policy, verdict, source and cost, and never a user's key.

use std::{fmt, path::PathBuf};

use tollgate_core::Verdict;

// Its own test is for both kinds of programs.
#[cfg(any(test, not(feature = "otel")))]
#[cfg_attr(feature = "otel", allow(dead_code, unreachable_pub, reason = "only its test wants it there"))]
mod absent;
#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod spans;

#[cfg(not(feature = "otel"))]
use absent as kind;
#[cfg(feature = "otel")]
use spans as kind;

pub(crate) use kind::Trace;
pub use kind::Traces;

/// Where spans go, and how many.
#[derive(Clone, PartialEq)]
pub struct TraceConfig {
    /// A collector that speaks OTLP over gRPC, such as `http://127.0.0.1:4317`.
    pub endpoint: String,
    /// The share of requests that are traced, where the caller has not decided; nothing: as `OTEL_TRACES_SAMPLER` says,
    /// which is all of them unless it is set.
    pub ratio: Option<f64>,
    /// Authorities and a certificate other than the usual ones, for `https://`.
    pub tls: TraceTls,
    /// Whether it was asked for by name. What variables of a whole fleet say wrongly is no reason to stop.
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

/// Files of PEM for a collector behind TLS.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TraceTls {
    /// Who vouches for the collector; nothing: whom the system trusts.
    pub ca: Option<PathBuf>,
    /// Who we are: a certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// An endpoint as it may be shown: of what precedes its last `@`, only the scheme if it is one of HTTP.
pub fn shown_endpoint(endpoint: &str) -> String {
    let Some((before, host)) = endpoint.rsplit_once('@') else { return endpoint.to_owned() };
    let scheme = ["http://", "https://"].into_iter().find(|scheme| before.starts_with(scheme)).unwrap_or_default();
    format!("{scheme}***@{host}")
}

/// Why there can be no traces.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// This program cannot make them.
    #[error(
        "this tollgate was built without traces; build one that has them with \
         `cargo build --release -p tollgate-cli --features otel`"
    )]
    NotBuilt,
    /// The endpoint is none.
    #[error("\"{endpoint}\" is no address of a collector: {cause}; use one such as http://127.0.0.1:4317")]
    Endpoint {
        /// What was named.
        endpoint: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A certificate for it cannot be used.
    #[error("{what}: {cause}")]
    Certificate {
        /// Which file, or whose.
        what: String,
        /// What is wrong with it.
        cause: String,
    },
}

/// What the span of a request tells of its answer.
#[cfg_attr(not(feature = "otel"), allow(dead_code, reason = "nobody is told"))]
pub(crate) struct Told<'a> {
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
