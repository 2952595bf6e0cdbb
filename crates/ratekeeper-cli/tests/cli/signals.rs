//! Signals of `ratekeeper serve`: reload and graceful stop.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use ratekeeper_testkit::servers::{leashed, spawn, wait_until};
use serde_json::Value;

use crate::{
    fixture::Fixture,
    serve::RULES,
    server_process::{ServerProcess, TIMEOUT},
};

fn ready(server: &ServerProcess) -> Value {
    serde_json::from_str(&server.ask_admin("/readyz").body).unwrap()
}

/// The limit of a new key.
fn limit(server: &ServerProcess) -> String {
    let reply = server.ask("/v1/auth?cost=0&entry=user:value:u");
    let policy = reply.header("ratelimit-policy").unwrap();
    policy.split(';').find_map(|part| part.strip_prefix("q=")).unwrap().to_owned()
}

/// Unchanged files are not reloaded otherwise, so the reload is caused by the signal.
#[test]
fn sighup_reloads_unchanged_files() {
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let server = ServerProcess::start(&fixture, &["--rules", "rules.yaml"]);
    assert_eq!(ready(&server)["rules_generation"], 1);
    server.signal("HUP");
    wait_until("the second reading", TIMEOUT, || ready(&server)["rules_generation"] == 2);
    assert!(server.log().contains("reloaded"), "{}", server.log());
}

#[test]
fn a_failed_reload_keeps_the_rules_and_is_reported() {
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let server = ServerProcess::start(&fixture, &["--rules", "rules.yaml"]);
    assert_eq!(limit(&server), "2");

    let fixture = fixture.file("rules.yaml", RULES.replace("limit: 2", "limit: 7"));
    server.signal("HUP");
    wait_until("the new rules", TIMEOUT, || limit(&server) == "7");

    let fixture = fixture.file("rules.yaml", RULES.replace("limit: 2", "limit: 0"));
    server.signal("HUP");
    wait_until("the complaint", TIMEOUT, || ready(&server)["rules_current"] == false);
    let printed = ready(&server);
    assert_eq!(printed["ready"], true, "the rules before it are good enough to serve");
    let detail = printed["details"][0].as_str().unwrap();
    assert!(detail.contains("rules.yaml:3") && detail.contains("limit is 0"), "{detail}");
    assert!(server.log().contains("rules.yaml:3"), "{}", server.log());
    assert!(server.ask_admin("/metrics").body.contains("ratekeeper_rules_stale 1"));
    assert_eq!(limit(&server), "7");

    let fixture = fixture.file("rules.yaml", RULES.replace("limit: 2", "limit: 8"));
    server.signal("HUP");
    wait_until("the way back", TIMEOUT, || limit(&server) == "8");
    assert_eq!(ready(&server)["rules_current"], true);
    drop(fixture);
}

/// A connection with a half-sent request that the server has begun to read.
fn half_sent(server: &ServerProcess) -> TcpStream {
    let mut stream = TcpStream::connect(server.http()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    // A complete request first, so that the connection is accepted.
    stream.write_all(b"GET /v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
    stream
        .write_all(b"POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: 26\r\n\r\n{\"domain\":\"api\",")
        .unwrap();
    stream
}

#[test]
fn sigterm_lets_in_flight_requests_finish() {
    let fixture = Fixture::new();
    let server = ServerProcess::start(&fixture, &[]);
    let mut stream = half_sent(&server);
    server.signal("TERM");
    wait_until("the beginning of the end", TIMEOUT, || server.ask_admin("/readyz").status == 503);
    assert!(ready(&server)["details"][0].as_str().unwrap().contains("stopping"));
    stream.write_all(b"\"key\":\"u\"}").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("\"verdict\":\"allow\""), "{reply}");
    assert!(reply.contains("connection: close"), "{reply}");
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("stopping") && log.contains("stopped"), "{log}");
}

/// Sends one request on a persistent connection; whether the response has `Connection: close`.
fn is_last(stream: &mut TcpStream) -> std::io::Result<bool> {
    stream.write_all(b"GET /v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    let mut reply = Vec::new();
    while !reply.ends_with(b"\r\n\r\n") {
        let mut piece = [0; 4096];
        match stream.read(&mut piece)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => reply.extend_from_slice(&piece[..count]),
        }
    }
    let reply = String::from_utf8_lossy(&reply);
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    Ok(reply.contains("connection: close"))
}

/// Clients on persistent connections, half of them with pauses between requests, lose no request if they close when asked to.
#[test]
fn no_request_on_a_persistent_connection_is_lost_while_the_server_stops() {
    let fixture = Fixture::new();
    let server = ServerProcess::start(&fixture, &[]);
    let (answered, lost) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let address = server.http().to_owned();
    thread::scope(|scope| {
        for client in 0..200 {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            let (answered, lost) = (&answered, &lost);
            let ask = move || loop {
                match is_last(&mut stream) {
                    Ok(false) => answered.fetch_add(1, Ordering::Relaxed),
                    Ok(true) => return,
                    Err(error) => return lost.lock().unwrap().push((client, error)),
                };
                if client % 2 == 0 {
                    thread::sleep(Duration::from_millis(300));
                }
            };
            thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, ask).unwrap();
        }
        wait_until("thousands of answers", TIMEOUT, || answered.load(Ordering::Relaxed) > 5_000);
        server.signal("TERM");
    });
    let lost = lost.into_inner().unwrap();
    assert!(lost.is_empty(), "{} of {answered:?} requests were lost: {lost:?}", lost.len());
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
}

#[test]
fn a_second_signal_stops_at_once() {
    let fixture = Fixture::new();
    let server = ServerProcess::start(&fixture, &["--drain", "600"]);
    let stream = half_sent(&server);
    server.signal("INT");
    wait_until("the beginning of the end", TIMEOUT, || server.ask_admin("/readyz").status == 503);
    server.signal("INT");
    let (code, log) = server.end();
    assert_eq!(code, 1, "{log}");
    drop(stream);
}

const TOKEN: &str = "edge canary-0123456789abcdef api\n";

/// A FIFO, whose reader blocks as on a dead mount. Tokens may come through one.
fn mkfifo(fixture: &Fixture, name: &str) {
    assert!(Command::new("mkfifo").arg(fixture.path(name)).status().unwrap().success());
}

/// Returns when the FIFO has a reader; the reader blocks while the result is kept.
fn wait_for_reader(fixture: &Fixture, name: &str) -> File {
    let (path, (opened, pipe)) = (fixture.path(name), mpsc::channel());
    thread::spawn(move || opened.send(OpenOptions::new().write(true).open(path)));
    pipe.recv_timeout(TIMEOUT).unwrap().unwrap()
}

#[test]
fn a_start_that_blocks_on_a_file_can_be_stopped() {
    let fixture = Fixture::new();
    mkfifo(&fixture, "tokens");
    let mut command = leashed(env!("CARGO_BIN_EXE_ratekeeper").into());
    let log = fixture.path("log");
    command.args(["serve", "--http", "0", "--grpc", "off", "--resp", "off", "--admin", "off", "--tokens", "tokens"]);
    command.current_dir(fixture.path("")).stderr(File::create(&log).unwrap()).stdout(File::create(&log).unwrap());
    let mut server = spawn(command).unwrap();
    let pipe = wait_for_reader(&fixture, "tokens");
    let kill = format!("kill -TERM {}", server.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let mut ended = None;
    wait_until("the end of the server", TIMEOUT, || {
        ended = server.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(0), "it ended by itself: {}", fs::read_to_string(&log).unwrap());
    drop(pipe);
}

#[test]
fn the_exit_does_not_wait_for_a_blocking_read() {
    let fixture = Fixture::new().file("tokens", TOKEN);
    let server = ServerProcess::start(&fixture, &["--tokens", "tokens"]);
    fs::remove_file(fixture.path("tokens")).unwrap();
    mkfifo(&fixture, "tokens");
    let pipe = wait_for_reader(&fixture, "tokens");
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("stopped"), "{log}");
    drop(pipe);
}

/// A FIFO in the rules directory is reported as an error until it is removed.
#[test]
fn a_fifo_among_the_rules_is_reported_and_blocks_nothing() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("rules")).unwrap();
    let fixture = fixture.file("rules/api.yaml", RULES);
    let server = ServerProcess::start(&fixture, &["--rules", "rules"]);
    mkfifo(&fixture, "rules/f.yaml");
    wait_until("the complaint", TIMEOUT, || ready(&server)["rules_current"] == false);
    assert!(server.log().contains("f.yaml: it is a named pipe"), "{}", server.log());
    fs::remove_file(fixture.path("rules/f.yaml")).unwrap();
    let fixture = fixture.file("rules/api.yaml", RULES.replace("limit: 2", "limit: 9"));
    wait_until("the new rules", TIMEOUT, || limit(&server) == "9");
    assert_eq!(ready(&server)["rules_current"], true);
    drop(fixture);
}
