//! Where traces go: as the flag says, else as OpenTelemetry's own variables do.

use std::env;

use tollgate_server::telemetry::TraceConfig;

use super::args::ServeArgs;

/// What was asked for. Variables that every program of a fleet may have are no reason to fail: a build that cannot make
/// traces does not look at them.
pub(super) fn wanted(args: &ServeArgs) -> Option<TraceConfig> {
    let endpoint = args.otel.clone().or_else(|| if cfg!(feature = "otel") { from_environment() } else { None })?;
    Some(TraceConfig { endpoint, ratio: args.otel_ratio })
}

fn from_environment() -> Option<String> {
    let disabled = first(&["OTEL_SDK_DISABLED"]).is_some_and(|word| word.eq_ignore_ascii_case("true"));
    // Whoever is said to speak HTTP would not understand us.
    let protocol = first(&["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]);
    let speaks_grpc = protocol.is_none_or(|protocol| protocol == "grpc");
    let endpoint = first(&["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]);
    endpoint.filter(|_| speaks_grpc && !disabled)
}

fn first(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
}
