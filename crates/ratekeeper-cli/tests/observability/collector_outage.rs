//! A trace collector that is unreachable or never answers: only spans are lost.

use std::{net::TcpListener, process::Command};

use ratekeeper_testkit::servers::{Process, wait_until};

use crate::server::{Server, TIMEOUT};

/// Batches are sent at once, with a short timeout.
const SOON: [(&str, &str); 2] = [("OTEL_BSP_SCHEDULE_DELAY", "50"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "300")];

#[test]
fn without_a_collector_lost_spans_are_counted() {
    let closed_port = format!("http://127.0.0.1:{}", Process::free_port());
    let server = Server::start(&["--otel", &closed_port], &SOON);
    for _ in 0..20 {
        server.check("u", &[]);
    }
    wait_until("the loss is counted", TIMEOUT, || server.metric("ratekeeper_spans_total{outcome=\"lost\"}") == 40);
    assert_eq!(server.metric("ratekeeper_spans_total{outcome=\"made\"}"), 40);
    assert_eq!(server.metric("ratekeeper_spans_total{outcome=\"sent\"}"), 0);
    assert_eq!(server.process.stop(), Some(0), "{}", server.process.log());
    let log = server.process.log();
    assert_eq!(log.matches("does not accept spans").count(), 1, "{log}");
}

/// The queue holds 8 spans here and the rest is dropped at once; a full queue blocks no request.
#[test]
fn the_span_queue_is_bounded() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let small = [SOON[0], SOON[1], ("OTEL_BSP_MAX_QUEUE_SIZE", "8"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")];
    let server = Server::start(&["--otel", &endpoint], &small);
    let flood = "CL.THROTTLE u 5 1 60\r\n".repeat(2_000);
    let answers = server.command(flood.trim_end());
    assert_eq!(answers.matches("*5").count(), 2_000);
    assert_eq!(server.metric("ratekeeper_spans_total{outcome=\"made\"}"), 4_000);
    let dropped = server.metric("ratekeeper_spans_total{outcome=\"dropped\"}");
    assert!((3_000..=4_000 - 8).contains(&dropped), "{dropped}: most never got as far");
    assert_eq!(server.process.stop(), Some(0), "{}", server.process.log());
    let log = server.process.log();
    assert_eq!(log.matches("the queue of spans is full").count(), 1, "{log}");
}

#[test]
fn an_invalid_endpoint_fails_at_the_start() {
    for (endpoint, words) in [
        ("nowhere", "neither http:// nor https://"),
        ("http://", "no address of a collector"),
        ("http://user:canary@localhost:1", "OTEL_EXPORTER_OTLP_HEADERS"),
    ] {
        let words_given = ["serve", "--http", "0", "--grpc", "off", "--resp", "off", "--admin", "off"];
        let run = Command::new(env!("CARGO_BIN_EXE_ratekeeper"))
            .args(words_given)
            .args(["--otel", endpoint])
            .output()
            .unwrap();
        let complaint = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.code() == Some(2) && complaint.contains(words), "{endpoint}: {complaint}");
        assert!(!complaint.contains("canary"), "{complaint}");
    }
}

/// Variables may be set for all programs of a machine; invalid values must not stop the server.
#[test]
fn invalid_variables_are_logged() {
    let server = Server::start(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://user:canary@nowhere")]);
    server.check("u", &[]);
    let log = server.process.log();
    assert!(log.contains("traces are disabled") && !log.contains("canary"), "{log}");
}
