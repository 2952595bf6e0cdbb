//! What `tollgate serve` does when it is signalled: reads its files again, or ends in good order.

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

use serde_json::Value;
use tollgate_testkit::servers::{leashed, spawn, wait_until};

use crate::{
    desk::Desk,
    running::{PATIENCE, Running},
    serve::RULES,
};

fn ready(server: &Running) -> Value {
    serde_json::from_str(&server.ask_admin("/readyz").body).unwrap()
}

/// The limit that a new key meets.
fn limit(server: &Running) -> String {
    let reply = server.ask("/v1/auth?cost=0&entry=user:value:u");
    let policy = reply.header("ratelimit-policy").unwrap();
    policy.split(';').find_map(|part| part.strip_prefix("q=")).unwrap().to_owned()
}

/// Files that did not change are not read by themselves, so this one was the signal's doing.
#[test]
fn sighup_reads_the_files_again_even_if_they_look_the_same() {
    let desk = Desk::new().file("rules.yaml", RULES);
    let server = Running::start(&desk, &["--rules", "rules.yaml"]);
    assert_eq!(ready(&server)["rules_generation"], 1);
    server.signal("HUP");
    wait_until("the second reading", PATIENCE, || ready(&server)["rules_generation"] == 2);
    assert!(server.log().contains("read again"), "{}", server.log());
}

#[test]
fn a_reload_with_mistakes_keeps_the_rules_and_says_so() {
    let desk = Desk::new().file("rules.yaml", RULES);
    let server = Running::start(&desk, &["--rules", "rules.yaml"]);
    assert_eq!(limit(&server), "2");

    let desk = desk.file("rules.yaml", RULES.replace("limit: 2", "limit: 7"));
    server.signal("HUP");
    wait_until("the new rules", PATIENCE, || limit(&server) == "7");

    let desk = desk.file("rules.yaml", RULES.replace("limit: 2", "limit: 0"));
    server.signal("HUP");
    wait_until("the complaint", PATIENCE, || ready(&server)["rules_current"] == false);
    let told = ready(&server);
    assert_eq!(told["ready"], true, "the rules before it are good enough to serve");
    let detail = told["details"][0].as_str().unwrap();
    assert!(detail.contains("rules.yaml:3") && detail.contains("limit is 0"), "{detail}");
    assert!(server.log().contains("rules.yaml:3"), "{}", server.log());
    assert!(server.ask_admin("/metrics").body.contains("tollgate_rules_stale 1"));
    assert_eq!(limit(&server), "7");

    let desk = desk.file("rules.yaml", RULES.replace("limit: 2", "limit: 8"));
    server.signal("HUP");
    wait_until("the way back", PATIENCE, || limit(&server) == "8");
    assert_eq!(ready(&server)["rules_current"], true);
    drop(desk);
}

/// A request that is half sent, in its server's hands: it was begun before the end was.
fn half_sent(server: &Running) -> TcpStream {
    let mut stream = TcpStream::connect(server.http()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A first request, so that the connection is known to have been taken.
    stream.write_all(b"GET /v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
    stream
        .write_all(b"POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: 26\r\n\r\n{\"domain\":\"api\",")
        .unwrap();
    stream
}

#[test]
fn sigterm_lets_requests_under_way_finish() {
    let desk = Desk::new();
    let server = Running::start(&desk, &[]);
    let mut stream = half_sent(&server);
    server.signal("TERM");
    wait_until("the beginning of the end", PATIENCE, || server.ask_admin("/readyz").status == 503);
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

/// One request on a connection that stays: whether its answer says that the connection ends.
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

/// Clients on kept connections, half of them without a pause and half of them with one: none loses a request if it leaves when it is
/// asked to.
#[test]
fn no_request_on_a_kept_connection_is_lost_while_the_server_stops() {
    let desk = Desk::new();
    let server = Running::start(&desk, &[]);
    let (answered, lost) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let address = server.http().to_owned();
    thread::scope(|scope| {
        for client in 0..200 {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
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
        wait_until("thousands of answers", PATIENCE, || answered.load(Ordering::Relaxed) > 5_000);
        server.signal("TERM");
    });
    let lost = lost.into_inner().unwrap();
    assert!(lost.is_empty(), "{} of {answered:?} requests were lost: {lost:?}", lost.len());
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
}

#[test]
fn whoever_says_it_twice_does_not_wait() {
    let desk = Desk::new();
    let server = Running::start(&desk, &["--drain", "600"]);
    let stream = half_sent(&server);
    server.signal("INT");
    wait_until("the beginning of the end", PATIENCE, || server.ask_admin("/readyz").status == 503);
    server.signal("INT");
    let (code, log) = server.end();
    assert_eq!(code, 1, "{log}");
    drop(stream);
}

const TOKEN: &str = "edge canary-0123456789abcdef api\n";

/// A file whose reader waits for ever, as on a mount that has gone away. Tokens may come through a pipe.
fn mkfifo(desk: &Desk, name: &str) {
    assert!(Command::new("mkfifo").arg(desk.path(name)).status().unwrap().success());
}

/// Comes back when somebody reads the pipe; as long as this is kept, the reader waits for more.
fn read_by_somebody(desk: &Desk, name: &str) -> File {
    let (path, (opened, pipe)) = (desk.path(name), mpsc::channel());
    thread::spawn(move || opened.send(OpenOptions::new().write(true).open(path)));
    pipe.recv_timeout(PATIENCE).unwrap().unwrap()
}

#[test]
fn a_start_that_waits_for_a_file_can_be_stopped() {
    let desk = Desk::new();
    mkfifo(&desk, "tokens");
    let mut command = leashed(env!("CARGO_BIN_EXE_tollgate").into());
    let log = desk.path("log");
    command.args(["serve", "--http", "0", "--grpc", "off", "--resp", "off", "--admin", "off", "--tokens", "tokens"]);
    command.current_dir(desk.path("")).stderr(File::create(&log).unwrap()).stdout(File::create(&log).unwrap());
    let mut server = spawn(command).unwrap();
    let pipe = read_by_somebody(&desk, "tokens");
    let kill = format!("kill -TERM {}", server.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let mut ended = None;
    wait_until("the end of the server", PATIENCE, || {
        ended = server.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(0), "it ended by itself: {}", fs::read_to_string(&log).unwrap());
    drop(pipe);
}

#[test]
fn the_end_does_not_wait_for_a_file_that_nobody_writes() {
    let desk = Desk::new().file("tokens", TOKEN);
    let server = Running::start(&desk, &["--tokens", "tokens"]);
    fs::remove_file(desk.path("tokens")).unwrap();
    mkfifo(&desk, "tokens");
    let pipe = read_by_somebody(&desk, "tokens");
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("stopped"), "{log}");
    drop(pipe);
}

/// A pipe among the rules is a mistake like any other: told, and over when it is gone.
#[test]
fn a_pipe_among_the_rules_is_told_and_holds_nothing_up() {
    let desk = Desk::new();
    fs::create_dir(desk.path("rules")).unwrap();
    let desk = desk.file("rules/api.yaml", RULES);
    let server = Running::start(&desk, &["--rules", "rules"]);
    mkfifo(&desk, "rules/f.yaml");
    wait_until("the complaint", PATIENCE, || ready(&server)["rules_current"] == false);
    assert!(server.log().contains("f.yaml: it is a named pipe"), "{}", server.log());
    fs::remove_file(desk.path("rules/f.yaml")).unwrap();
    let desk = desk.file("rules/api.yaml", RULES.replace("limit: 2", "limit: 9"));
    wait_until("the new rules", PATIENCE, || limit(&server) == "9");
    assert_eq!(ready(&server)["rules_current"], true);
    drop(desk);
}
