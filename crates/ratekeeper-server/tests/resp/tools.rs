//! redis-cli and redis-benchmark of the distribution as clients.

use std::process::{Command, Output};

use ratekeeper_server::wiring::StoreHealth;
use ratekeeper_testkit::servers::{Part, require};

use crate::support::Server;

fn run(part: Part, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = Command::new(require(part)).args(arguments).output().unwrap();
    let (output, complaints) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{arguments:?}: {output}{complaints}");
    assert_eq!(complaints, "", "{arguments:?}");
    output.into_owned()
}

#[test]
fn redis_cli_reads_every_answer() {
    let server = Server::start();
    let cli = |words: &[&str]| run(Part::RedisCli, &[&["-p", &server.port()], words].concat());
    assert_eq!(cli(&["CL.THROTTLE", "u", "2", "30", "60"]), "0\n3\n2\n-1\n2\n");
    assert_eq!(cli(&["--no-raw", "RK.CHECK", "nowhere", "u"]).lines().nth(1), Some(" 2) \"allow\""));
    let map = cli(&["-3", "--no-raw", "RK.CHECK", "api", "u"]);
    assert_eq!(map.lines().next(), Some(" 1# \"verdict\" => \"allow\""), "{map}");
    assert!(cli(&["INFO"]).contains("ratekeeper_version:0.1.0"));
    assert!(cli(&["-3", "INFO"]).contains("store:memory"));
    assert!(cli(&["COMMAND", "DOCS"]).trim().is_empty());
    assert!(cli(&["NO.SUCH"]).starts_with("ERR unknown command 'NO.SUCH'"));
}

/// A session of several commands on one connection, from standard input.
#[test]
fn redis_cli_runs_a_session() {
    use std::{io::Write, process::Stdio};
    let server = Server::start();
    let mut cli = Command::new(require(Part::RedisCli))
        .args(["-p", &server.port()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    cli.stdin.take().unwrap().write_all(b"PING\nGCRA u 0 1 60\nGCRA u 0 1 60\nQUIT\n").unwrap();
    let output = String::from_utf8(cli.wait_with_output().unwrap().stdout).unwrap();
    assert!(output.starts_with("PONG\n0\n1\n0\n-1\n60\n1\n1\n0\n60\n60\n"), "{output}");
}

#[test]
fn redis_benchmark_completes() {
    let server = Server::start();
    let port = server.port();
    for pipeline in ["1", "16"] {
        let common = ["-p", &port, "-c", "20", "-n", "10000", "-P", pipeline, "-r", "1000", "--csv"];
        let output =
            run(Part::RedisBenchmark, &[&common[..], &["CL.THROTTLE", "key:__rand_int__", "9", "10", "60"]].concat());
        assert!(output.lines().count() == 2, "{output}");
        let output = run(Part::RedisBenchmark, &[&common[..], &["-t", "ping"]].concat());
        assert!(output.contains("PING_INLINE") && output.contains("PING_MBULK"), "{output}");
    }
    let keys = StoreHealth::of(server.engine.store()).keys;
    assert_eq!(keys, 1_000, "every key was used");
}
