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
    assert!(server.metric("tollgate_spans_total{outcome=\"lost\"}") < 4_000, "most never got as far");
    assert_eq!(server.process.stop(), Some(0), "{}", server.process.log());
}

#[test]
fn an_endpoint_that_is_none_is_refused_at_the_start() {
    for (endpoint, words) in [("nowhere", "neither http:// nor https://"), ("http://", "no address of a collector")] {
        let words_given = ["serve", "--http", "off", "--grpc", "off", "--resp", "off", "--admin", "off"];
        let run =
            Command::new(env!("CARGO_BIN_EXE_tollgate")).args(words_given).args(["--otel", endpoint]).output().unwrap();
        let complaint = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.code() == Some(2) && complaint.contains(words), "{endpoint}: {complaint}");
    }
}
