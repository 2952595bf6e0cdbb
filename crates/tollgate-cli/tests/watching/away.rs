//! A collector that is not there, or takes and never answers: nobody but the spans notices.

use std::{net::TcpListener, process::Command};

use tollgate_testkit::servers::{Process, wait_until};

use crate::server::{PATIENCE, Server};

/// Batches leave at once, and an answer is not waited for long.
const SOON: [(&str, &str); 2] = [("OTEL_BSP_SCHEDULE_DELAY", "50"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "300")];

#[test]
fn without_a_collector_requests_are_answered_and_lost_spans_counted() {
    let nobody = format!("http://127.0.0.1:{}", Process::free_port());
    let server = Server::start(&["--otel", &nobody], &SOON);
    for _ in 0..20 {
        server.check("u", &[]);
    }
    wait_until("the loss is counted", PATIENCE, || server.metric("tollgate_spans_total{outcome=\"lost\"}") == 40);
    assert_eq!(server.metric("tollgate_spans_total{outcome=\"made\"}"), 40);
    assert_eq!(server.metric("tollgate_spans_total{outcome=\"sent\"}"), 0);
    assert_eq!(server.process.stop(), Some(0), "{}", server.process.log());
    let log = server.process.log();
    assert_eq!(log.matches("does not take spans").count(), 1, "{log}");
}

/// The queue holds what fits, 8 here, and the rest is let go at once; a full one keeps nobody waiting.
#[test]
fn a_collector_that_never_answers_fills_a_queue_that_has_an_end() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let small = [SOON[0], SOON[1], ("OTEL_BSP_MAX_QUEUE_SIZE", "8"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")];
    let server = Server::start(&["--otel", &endpoint], &small);
    let flood = "CL.THROTTLE u 5 1 60\r\n".repeat(2_000);
    let answers = server.command(flood.trim_end());
    assert_eq!(answers.matches("*5").count(), 2_000);
    assert_eq!(server.metric("tollgate_spans_total{outcome=\"made\"}"), 4_000);
    let dropped = server.metric("tollgate_spans_total{outcome=\"dropped\"}");
    assert!((3_000..=4_000 - 8).contains(&dropped), "{dropped}: most never got as far");
    assert_eq!(server.process.stop(), Some(0), "{}", server.process.log());
    let log = server.process.log();
    assert_eq!(log.matches("more spans are made than").count(), 1, "{log}");
}

#[test]
fn an_endpoint_that_is_none_is_refused_at_the_start() {
    for (endpoint, words) in [
        ("nowhere", "neither http:// nor https://"),
        ("http://", "no address of a collector"),
        ("http://user:canary@localhost:1", "OTEL_EXPORTER_OTLP_HEADERS"),
    ] {
        let words_given = ["serve", "--http", "0", "--grpc", "off", "--resp", "off", "--admin", "off"];
        let run =
            Command::new(env!("CARGO_BIN_EXE_tollgate")).args(words_given).args(["--otel", endpoint]).output().unwrap();
        let complaint = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.code() == Some(2) && complaint.contains(words), "{endpoint}: {complaint}");
        assert!(!complaint.contains("canary"), "{complaint}");
    }
}

/// Variables are set for a whole fleet; what they say wrongly must not stop a limiter.
#[test]
fn what_the_environment_says_wrongly_is_logged_and_no_more() {
    let server = Server::start(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://user:canary@nowhere")]);
    server.check("u", &[]);
    let log = server.process.log();
    assert!(log.contains("there are no traces") && !log.contains("canary"), "{log}");
}
