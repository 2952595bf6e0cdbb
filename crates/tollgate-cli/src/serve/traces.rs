//! Where traces go: as the flag says, else as OpenTelemetry's own variables do.

use std::env;

use tollgate_server::telemetry::{TraceConfig, TraceTls};

use super::args::ServeArgs;

/// What was asked for. Variables that every program of a fleet may have are no reason to fail: a build that cannot make
/// traces does not look at them, and one that can only warns of what they say wrongly.
pub(super) fn wanted(args: &ServeArgs) -> Option<TraceConfig> {
    let endpoint = args.otel.clone().or_else(|| if cfg!(feature = "otel") { from_environment() } else { None })?;
    let file = |name: &str| setting(name).map(Into::into);
    let tls = TraceTls { ca: file("CERTIFICATE"), identity: file("CLIENT_CERTIFICATE").zip(file("CLIENT_KEY")) };
    Some(TraceConfig { endpoint, ratio: args.otel_ratio, tls, is_wanted: args.otel.is_some() })
}

fn from_environment() -> Option<String> {
    let says = |name: &str, word: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    let is_off = says("OTEL_SDK_DISABLED", "true") || says("OTEL_TRACES_EXPORTER", "none");
    // Whoever is said to speak HTTP would not understand us.
    let speaks_grpc = setting("PROTOCOL").is_none_or(|protocol| protocol == "grpc");
    let endpoint = setting("ENDPOINT").filter(|_| speaks_grpc && !is_off)?;
    if endpoint.contains("://") {
        return Some(endpoint);
    }
    // Without a scheme another variable says which.
    let is_plain = setting("INSECURE").is_some_and(|word| word.eq_ignore_ascii_case("true"));
    Some(format!("{}://{endpoint}", if is_plain { "http" } else { "https" }))
}

/// One of the exporter's settings: that for traces comes before that for everything.
fn setting(name: &str) -> Option<String> {
    variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}")).or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
