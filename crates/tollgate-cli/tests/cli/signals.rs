//! What `tollgate serve` does when it is signalled: reads its files again, or ends in good order.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::Value;
use tollgate_testkit::servers::wait_until;

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
    stream.write_all(b"GET /v1/auth?cost=0 HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
    stream.write_all(b"POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 26\r\n\r\n{\"domain\":\"api\",").unwrap();
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
