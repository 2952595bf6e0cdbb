//! Trace settings: the flag, else OpenTelemetry's variables.

use std::env;

use ratekeeper_server::telemetry::{TraceConfig, TraceTls};

use super::args::ServeArgs;

/// The trace settings, if traces are enabled. Variables may be set for all programs of a machine, so they are never a reason
/// to fail: a build without traces ignores them, and one with traces warns of invalid values.
pub(super) fn wanted(args: &ServeArgs) -> Option<TraceConfig> {
    let endpoint = args.otel.clone().or_else(|| if cfg!(feature = "otel") { from_environment() } else { None })?;
    let file = |name: &str| setting(name).map(Into::into);
    let tls = TraceTls { ca: file("CERTIFICATE"), identity: file("CLIENT_CERTIFICATE").zip(file("CLIENT_KEY")) };
    Some(TraceConfig { endpoint, ratio: args.otel_ratio, tls, is_wanted: args.otel.is_some() })
}

fn from_environment() -> Option<String> {
    let is_set_to = |name: &str, word: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    let is_off = is_set_to("OTEL_SDK_DISABLED", "true") || is_set_to("OTEL_TRACES_EXPORTER", "none");
    // An endpoint for OTLP over HTTP does not accept gRPC.
    let speaks_grpc = setting("PROTOCOL").is_none_or(|protocol| protocol == "grpc");
    let endpoint = setting("ENDPOINT").filter(|_| speaks_grpc && !is_off)?;
    if endpoint.contains("://") {
        return Some(endpoint);
    }
    // Without a scheme, another variable decides between http and https.
    let is_plain = setting("INSECURE").is_some_and(|word| word.eq_ignore_ascii_case("true"));
    Some(format!("{}://{endpoint}", if is_plain { "http" } else { "https" }))
}

/// A setting of the exporter; the variable for traces takes precedence over the general one.
fn setting(name: &str) -> Option<String> {
    variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}")).or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
