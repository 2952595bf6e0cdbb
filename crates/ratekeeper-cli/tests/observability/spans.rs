//! Spans: attributes, parents, sampling, and no keys in them.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use ratekeeper_server::grpc::wire::{Entry, RateLimitDescriptor, RateLimitRequest, RateLimitServiceClient};
use ratekeeper_testkit::servers::{Certificates, RedisServer, wait_until};
use tonic::transport::Endpoint;

use crate::{
    collector::{Collector, printed},
    server::{Server, TIMEOUT},
};

/// The `traceparent` of a caller, from the W3C recommendation.
const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: [u8; 16] =
    [0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36];
const CALLERS_SPAN: [u8; 8] = [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7];
const KEY: &str = "private-key-value";

fn called<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

/// The store call below a request.
#[track_caller]
fn below<'a>(spans: &'a [Span], request: &Span) -> &'a Span {
    let child = spans.iter().find(|span| span.parent_span_id == request.span_id);
    let child = child.unwrap_or_else(|| panic!("nothing below {request:?}"));
    assert_eq!((child.name.as_str(), &child.trace_id), ("store", &request.trace_id));
    assert!(request.start_time_unix_nano <= child.start_time_unix_nano);
    assert!(child.start_time_unix_nano <= child.end_time_unix_nano);
    assert!(child.end_time_unix_nano <= request.end_time_unix_nano);
    child
}

#[track_caller]
fn assert_attributes(span: &Span, expected: &[(&str, &str)]) {
    let all = printed(&span.attributes);
    let found: BTreeMap<&str, &str> =
        expected.iter().map(|(name, _)| (*name, all.get(*name).map_or("nothing", String::as_str))).collect();
    assert_eq!(found, expected.iter().copied().collect(), "{span:?}");
}

fn send_rls_request(server: &Server) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", server.grpc)).unwrap();
        let mut client = RateLimitServiceClient::new(endpoint.connect().await.unwrap());
        let entries = vec![Entry { key: "key".into(), value: KEY.into() }];
        let descriptors = vec![RateLimitDescriptor { entries, ..Default::default() }];
        let asked = RateLimitRequest { domain: "shop".into(), descriptors, hits_addend: 3 };
        let mut request = tonic::Request::new(asked);
        request.metadata_mut().insert("traceparent", CALLER.parse().unwrap());
        let _ = client.should_rate_limit(request).await.unwrap();
    });
}

#[test]
fn each_wire_makes_a_span_with_a_store_span_and_no_key() {
    let collector = Collector::start();
    let server = Server::start(&["--otel", &collector.endpoint()], &[]);
    assert!(server.check(KEY, &[("traceparent", CALLER)]).contains("\"allow\""));
    send_rls_request(&server);
    assert!(server.command(&format!("CL.THROTTLE {KEY} 5 1 60")).starts_with("*5"));
    assert!(server.command(&format!("RK.CHECK shop {KEY} COST 1")).contains("allow"));
    server.command("PING");
    // Sent at the latest when the server stops.
    assert_eq!(server.process.stop(), Some(0), "{}", server.process.log());

    let spans = collector.spans();
    let store = [("ratekeeper.store", "memory"), ("ratekeeper.source", "store")];
    let [http] = called(&spans, "POST /v1/check")[..] else { panic!("{spans:?}") };
    assert_eq!(
        (http.kind(), &*http.trace_id, &*http.parent_span_id),
        (SpanKind::Server, &TRACE[..], &CALLERS_SPAN[..])
    );
    assert_attributes(
        http,
        &[
            ("ratekeeper.wire", "http"),
            ("ratekeeper.domain", "shop"),
            ("ratekeeper.policy", "per-user"),
            ("ratekeeper.rule", "few"),
            ("ratekeeper.verdict", "allow"),
            ("ratekeeper.source", "store"),
            ("ratekeeper.cost", "2"),
            ("http.request.method", "POST"),
            ("http.route", "/v1/check"),
            ("http.response.status_code", "200"),
        ],
    );
    assert_attributes(below(&spans, http), &store);

    let [grpc] = called(&spans, "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")[..] else {
        panic!("{spans:?}")
    };
    assert_eq!((&*grpc.trace_id, &*grpc.parent_span_id), (&TRACE[..], &CALLERS_SPAN[..]));
    assert_attributes(
        grpc,
        &[
            ("ratekeeper.wire", "grpc"),
            ("ratekeeper.verdict", "deny"),
            ("ratekeeper.cost", "3"),
            ("rpc.method", "ShouldRateLimit"),
            ("rpc.grpc.status_code", "0"),
        ],
    );
    assert_attributes(below(&spans, grpc), &store);

    let [throttle] = called(&spans, "CL.THROTTLE")[..] else { panic!("{spans:?}") };
    assert!(throttle.parent_span_id.is_empty() && throttle.trace_id != TRACE, "it has no caller to name");
    assert_attributes(
        throttle,
        &[("ratekeeper.wire", "resp"), ("ratekeeper.policy", "throttle"), ("ratekeeper.verdict", "allow")],
    );
    assert_attributes(below(&spans, throttle), &store);
    let [check] = called(&spans, "RK.CHECK")[..] else { panic!("{spans:?}") };
    assert_attributes(check, &[("ratekeeper.policy", "per-user"), ("ratekeeper.cost", "1")]);

    assert_eq!(spans.len(), 8, "a greeting is no decision: {spans:?}");
    assert_eq!(collector.sender()["service.name"], "ratekeeper");
    let bytes = collector.bytes();
    assert!(!bytes.windows(KEY.len()).any(|part| part == KEY.as_bytes()), "the key was sent");
}

/// Certificates by OpenTelemetry's variables: a private authority and a client certificate.
#[test]
fn tls_files_of_the_environment_are_used() {
    let certificates = Certificates::new();
    let collector = Collector::secured(&certificates);
    let name = |file: std::path::PathBuf| file.to_str().unwrap().to_owned();
    let (ca, wrong) = (name(certificates.ca()), name(certificates.wrong_ca()));
    let (cert, key) = (name(certificates.client_cert()), name(certificates.client_key()));
    let endpoint = format!("localhost:{}", collector.address.port());
    let environment = |ca: &str| {
        let names = ["ENDPOINT", "TRACES_CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"];
        let values = [endpoint.as_str(), ca, &cert, &key];
        names
            .into_iter()
            .zip(values)
            .map(|(name, value)| (format!("OTEL_EXPORTER_OTLP_{name}"), value.to_owned()))
            .collect::<Vec<_>>()
    };
    for (ca, outcome) in [(&wrong, "lost"), (&ca, "sent")] {
        let environment = environment(ca);
        let mut variables: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        variables.push(("OTEL_BSP_SCHEDULE_DELAY", "50"));
        let server = Server::start(&[], &variables);
        server.check("u", &[]);
        let count = format!("ratekeeper_spans_total{{outcome=\"{outcome}\"}}");
        wait_until(outcome, TIMEOUT, || server.metric(&count) == 2);
    }
    assert_eq!(collector.spans().len(), 2);
}

#[test]
fn the_caller_decides_sampling_and_else_the_ratio() {
    let collector = Collector::start();
    // With the variables of OpenTelemetry.
    let endpoint = collector.endpoint();
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_SERVICE_NAME", "limits")];
    let server = Server::start(&["--otel-ratio", "0"], &environment);
    server.check(KEY, &[]);
    server.check(KEY, &[("traceparent", &CALLER.replace("-01", "-00"))]);
    server.check(KEY, &[("traceparent", "nonsense")]);
    server.check(KEY, &[("traceparent", CALLER)]);
    server.command(&format!("CL.THROTTLE {KEY} 5 1 60"));
    assert_eq!(server.process.stop(), Some(0));
    let spans = collector.spans();
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert!(spans.iter().all(|span| span.trace_id == TRACE));
    assert_eq!(collector.sender()["service.name"], "limits");
}

#[test]
fn redis_calls_and_their_failures_are_spans() {
    let collector = Collector::start();
    let redis = RedisServer::start();
    // A deadline that a busy machine keeps, so that the first call is decided by the store.
    let store = redis.url();
    let args = ["--otel", &collector.endpoint(), "--store", &store, "--store-deadline", "20000"];
    let server = Server::start(&args, &[("OTEL_BSP_SCHEDULE_DELAY", "50")]);
    server.check(KEY, &[]);
    redis.kill();
    server.check("another", &[]);
    // Before the stop, which waits for a last export only so long.
    wait_until("two requests and their store calls", TIMEOUT, || collector.spans().len() >= 4);
    assert_eq!(server.process.stop(), Some(0));
    let spans = collector.spans();
    let requests = called(&spans, "POST /v1/check");
    let [first, second] = requests[..] else { panic!("{spans:?}") };
    let (reached, missed) = (below(&spans, first), below(&spans, second));
    assert_eq!((reached.kind(), missed.kind()), (SpanKind::Client, SpanKind::Client));
    assert_attributes(reached, &[("ratekeeper.store", "redis"), ("ratekeeper.source", "store")]);
    assert_attributes(missed, &[("ratekeeper.store", "redis"), ("ratekeeper.source", "local")]);
    assert_attributes(second, &[("ratekeeper.source", "local"), ("ratekeeper.verdict", "allow")]);
    assert_ne!(second.status.clone().unwrap_or_default().code(), StatusCode::Error, "it was answered all the same");
}
