//! One server: its lives, its pauses, its data, its clock.

use std::{
    env, fs, io,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use ratekeeper_testkit::servers::{Binary, RedisServer, Reply, wait_until};

use crate::client::Client;

/// The test knows nothing will come; it only has to look once.
const SHORT: Duration = Duration::from_millis(50);
/// Only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(10);

fn ok() -> Reply {
    Reply::Status("OK".into())
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.into())
}

#[test]
fn a_server_answers_on_its_port_and_is_gone_when_dropped() {
    let server = RedisServer::start();
    let port = server.port();
    assert_eq!(server.url(), format!("redis://127.0.0.1:{port}"));
    Client::connect(port).ask("PING", "+PONG\r\n");

    drop(server);
    assert!(Client::try_connect(port).is_err());
}

#[test]
fn servers_side_by_side_share_nothing() {
    let (one, other) = (RedisServer::start(), RedisServer::start());
    assert_eq!(one.command(&["SET", "key", "one"]), ok());
    assert_eq!(other.command(&["GET", "key"]), Reply::Null);
}

#[test]
fn valkey_is_valkey() {
    let server = RedisServer::with().binary(Binary::Valkey).start();
    assert_eq!(server.info("server_name").as_deref(), Some("valkey"));
    assert_eq!(RedisServer::start().info("server_name"), None, "Redis does not say it is Valkey");
}

#[test]
fn a_killed_server_is_down_until_it_is_restarted_on_the_same_port() {
    let server = RedisServer::start();
    let port = server.port();
    server.kill();
    assert!(!server.is_running());
    assert!(Client::try_connect(port).is_err());

    server.restart();
    assert_eq!(server.port(), port);
    Client::connect(port).ask("PING", "+PONG\r\n");
}

#[test]
fn an_append_only_server_remembers_after_a_kill_and_forgets_when_restarted_empty() {
    let server = RedisServer::with().append_only().start();
    assert_eq!(server.command(&["SET", "key", "kept"]), ok());
    server.restart();
    assert_eq!(server.command(&["GET", "key"]), bulk("kept"));
    server.restart_empty();
    assert_eq!(server.command(&["GET", "key"]), Reply::Null);
}

#[test]
fn a_server_without_persistence_forgets() {
    let server = RedisServer::start();
    assert_eq!(server.command(&["SET", "key", "lost"]), ok());
    server.restart();
    assert_eq!(server.command(&["GET", "key"]), Reply::Null);
}

/// What reaches a paused server is carried out once it goes on, which is what makes a lost answer ambiguous.
#[test]
fn a_paused_server_answers_when_it_is_resumed() {
    let server = RedisServer::start();
    let mut client = Client::connect(server.port());
    client.ask("SET key before", "+OK\r\n");

    server.pause();
    assert!(server.is_running());
    assert!(server.try_command(&["PING"], SHORT).is_err());
    client.send("APPEND key -after");
    client.expect_silence();

    server.resume();
    client.expect(":12\r\n");
    assert_eq!(server.command(&["GET", "key"]), bulk("before-after"));
}

#[test]
fn a_paused_server_can_be_killed_and_restarted() {
    let server = RedisServer::start();
    server.pause();
    server.restart();
    assert_eq!(server.command(&["PING"]), Reply::Status("PONG".into()));
}

#[test]
fn a_replica_follows_its_primary_past_a_password() {
    let primary = RedisServer::with().password("hush").start();
    let replica = RedisServer::with().replica_of(&primary).start();
    assert_eq!(primary.command(&["SET", "key", "value"]), ok());
    wait_until("the key on the replica", TIMEOUT, || replica.command(&["GET", "key"]) == bulk("value"));
}

#[test]
fn configuration_lines_reach_the_server() {
    let server = RedisServer::with().config("maxmemory-policy", "allkeys-lru").start();
    assert_eq!(server.command(&["CONFIG", "GET", "maxmemory-policy"]).items()[1], bulk("allkeys-lru"));
}

#[test]
#[should_panic(expected = "Bad directive")]
fn a_server_that_cannot_start_shows_its_log() {
    let _server = RedisServer::with().config("no-such-setting", "1").start();
}

#[test]
#[should_panic(expected = "did not start")]
fn a_port_that_is_taken_is_an_error_when_it_was_asked_for() {
    let first = RedisServer::start();
    let _second = RedisServer::with().port(first.port()).start();
}

/// The kernel kills the server of a test process that was itself killed. Were the server tied to the thread that started
/// it, as the kernel would have it, it would die here with the thread.
#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let server = thread::spawn(RedisServer::start).join().unwrap();
    assert_eq!(server.command(&["PING"]), Reply::Status("PONG".into()));
}

/// Runs this very test program once more, with a server that is never stopped, and kills the program.
#[test]
fn a_server_dies_with_a_killed_test_process() {
    if let Some(note) = env::var_os(AS_VICTIM) {
        let server = RedisServer::start();
        fs::write(note, server.port().to_string()).unwrap();
        // Until we are killed; or until the test that should do so is gone, and our input with it.
        io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    // What the victim leaves behind in its temporary directory goes with ours.
    let scratch = tempfile::tempdir().unwrap();
    let note = scratch.path().join("port");
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["--exact", "standalone::a_server_dies_with_a_killed_test_process"])
        .env(AS_VICTIM, &note)
        .env("TMPDIR", scratch.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let port = read_port(&note);
    Client::connect(port).ask("PING", "+PONG\r\n");

    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_until("the orphan to be gone (needs `setpriv` of util-linux)", TIMEOUT, || Client::try_connect(port).is_err());
}

const AS_VICTIM: &str = "RATEKEEPER_TEST_VICTIM_NOTE";

fn read_port(note: &Path) -> u16 {
    let mut port = None;
    wait_until("the victim's port", TIMEOUT, || {
        port = fs::read_to_string(note).ok().and_then(|text| text.parse().ok());
        port.is_some()
    });
    port.unwrap()
}

/// Seconds and microseconds, as `TIME` gives them.
fn time_us(server: &RedisServer) -> i64 {
    let time = server.command(&["TIME"]);
    time.items()[0].integer() * 1_000_000 + time.items()[1].integer()
}

/// One hour back, then half a second and a day forth. Real time passes as well, but less than a minute.
#[test]
fn a_fake_clock_steps_back_and_forth() {
    const SECOND: i64 = 1_000_000;
    const MINUTE: i64 = 60 * SECOND;
    let server = RedisServer::with().binary(Binary::Valkey).fake_clock().start();
    let start = time_us(&server);

    server.clock().step_back(Duration::from_secs(3600));
    let back = time_us(&server) - start + 60 * MINUTE;
    assert!((0..MINUTE).contains(&back), "{back} us off after the step back");

    server.clock().step_forward(Duration::from_secs(3600 + 86_400));
    let forth = time_us(&server) - start - 24 * 60 * MINUTE;
    assert!((0..MINUTE).contains(&forth), "{forth} us off after the step forth");

    server.restart();
    assert!(time_us(&server) - start >= 24 * 60 * MINUTE, "a restart does not reset the clock");
}

/// A step is seen by commands and by expiry alike: keys die early when the clock leaps.
#[test]
fn keys_expire_by_the_fake_clock() {
    let server = RedisServer::with().binary(Binary::Valkey).fake_clock().start();
    assert_eq!(server.command(&["SET", "key", "value", "EX", "3600"]), ok());
    assert_eq!(server.command(&["GET", "key"]), bulk("value"));
    server.clock().step_forward(Duration::from_secs(3601));
    assert_eq!(server.command(&["GET", "key"]), Reply::Null);
}
