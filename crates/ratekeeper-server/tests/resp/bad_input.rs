//! Malformed input: a clear error or a closed connection, without effect on other clients.

use std::time::Duration;

use ratekeeper_server::{config::Bounds, security::Access};

use crate::support::{Client, Server, array, five};

/// A second client, connected before the malformed input and still served after it.
struct Bystander(Client);

impl Bystander {
    fn of(server: &Server) -> Self {
        let mut client = server.client();
        client.exchange(&["PING"], "+PONG\r\n");
        Self(client)
    }

    #[track_caller]
    fn stays_served(mut self) {
        self.0.exchange(&["PING"], "+PONG\r\n");
    }
}

/// Expects an error and a closed connection.
#[track_caller]
fn breaks_off(bytes: impl AsRef<[u8]>, part: &str) {
    let server = Server::start();
    let bystander = Bystander::of(&server);
    let mut client = server.client();
    client.try_send(bytes);
    let received = client.expect_end();
    assert!(received.starts_with("-ERR Protocol error: ") && received.contains(part), "{received:?}");
    assert_eq!(received.matches('\n').count(), 1, "one answer and no more: {received:?}");
    bystander.stays_served();
}

/// Expects an error and an open connection.
#[track_caller]
fn is_refused<W: AsRef<[u8]>>(words: &[W], part: &str) {
    let server = Server::start();
    let mut client = server.client();
    client.send(array(words));
    client.expect_error(part);
    client.exchange(&["PING"], "+PONG\r\n");
}

#[test]
fn an_oversized_command_ends_the_connection() {
    breaks_off(format!("*1\r\n$1048576\r\n{}\r\n", "x".repeat(1 << 20)), "0 to 65536 bytes long");
    breaks_off("*6\r\n$11\r\nCL.THROTTLE\r\n$1048576\r\n", "0 to 65536 bytes long");
    breaks_off("*1000000\r\n", "64 words at most");
    breaks_off("*2147483648\r\n", "64 words at most");
    breaks_off("x".repeat(1 << 20), "8192 bytes long at most");
    breaks_off(format!("*3\r\n$40000\r\n{0}\r\n$40000\r\n{0}\r\n", "x".repeat(40_000)), "65536 bytes long at most");
}

#[test]
fn a_malformed_command_ends_the_connection() {
    breaks_off("*x\r\n", "not a number");
    breaks_off("*1\r\n:1\r\n", "expected '$', got ':'");
    breaks_off("*1\r\n$4\r\nPINGPONG\r\n", "not followed by CR LF");
    breaks_off("*1\r\n$-1\r\n", "0 to 65536");
    breaks_off("ECHO \"a\r\n", "quotes");
    breaks_off(b"*1\r\n\xff\xfe\r\n", "expected '$'");
    // Commands before the malformed frame are answered, those after it are not.
    let server = Server::start();
    let mut client = server.client();
    client.send("PING\r\n*1\r\n!\r\nPING\r\n");
    client.expect("+PONG\r\n");
    client.expect_error("Protocol error");
    assert_eq!(client.expect_end(), "");
}

#[test]
fn an_http_request_is_refused_and_closes_the_connection() {
    let server = Server::start();
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.expect_error("unknown command 'GET'");
}

#[test]
fn unknown_commands_and_wrong_types_are_refused_by_name() {
    is_refused(&["SET", "a", "b"], "unknown command 'SET', with args beginning with: 'a' 'b'");
    is_refused(&["X\r\n+OK", &"y".repeat(60_000)], "unknown command 'X\\r\\n+OK'");
    is_refused(&["CL.THROTTLE"], "wrong number of arguments for 'cl.throttle'");
    is_refused(&["CL.THROTTLE", "u", "1", "1", "1", "1", "1"], "wrong number of arguments");
    is_refused(&["CL.THROTTLE", "u", "one", "1", "1"], "max_burst 'one' is not a whole number");
    is_refused(&["CL.THROTTLE", "u", "1", "1.5", "1"], "count '1.5' is not a whole number");
    is_refused(&["CL.THROTTLE", "u", "1", "0", "1"], "count is 0");
    is_refused(&["CL.THROTTLE", "u", "1", "1", "0"], "period is 0");
    is_refused(&["CL.THROTTLE", "u", "-1", "1", "1"], "max_burst '-1' is negative");
    is_refused(&["CL.THROTTLE", "u", "1", "1", "1", "-1"], "quantity '-1' is negative");
    is_refused(&["THROTTLE", "u", "0", "1", "1"], "max_burst is 0");
    is_refused(&["RK.CHECK", "api"], "wrong number of arguments for 'rk.check'");
    is_refused(&["RK.CHECK", "api", "u", "COST"], "syntax error at 'COST'");
    is_refused(&["RK.CHECK", "api", "u", "COST", "1", "COST", "1"], "syntax error at 'COST'");
    is_refused(&["RK.REFUND", "api", "u", "WAIT", "1"], "syntax error at 'WAIT'");
    is_refused(&["RK.CHECK", "", "u"], "the domain is empty");
    is_refused(&["RK.CHECK", "api", "ENTRIES", "0"], "ENTRIES is 0");
    is_refused(&["RK.CHECK", "api", "ENTRIES", "1", "user"], "ENTRIES announces 1 entries, and fewer");
    is_refused(&["RK.CHECK", "api", "ENTRIES", "9999999999", "user", "1"], "fewer names and values follow");
    is_refused(&["RK.CHECK", "api", "ENTRIES", "2", "user", "1", "user", "2"], "the entry 'user' occurs twice");
    is_refused(&["RK.CHECK", "api", "ENTRIES", "1", "", "1"], "a descriptor entry has an empty key");
    is_refused(&["RK.CHECK", "api", "ENTRIES", "1", "user", "1", "u"], "syntax error at 'u'");
    is_refused(&["RK.PEEK", "api", "u", "COST", "1"], "wrong number of arguments for 'rk.peek'");
    is_refused(&["RK.SETTLE", "api", "u", "RESERVED", "1"], "wrong number of arguments for 'rk.settle'");
    is_refused(&["RK.SETTLE", "api", "u", "RESERVED", "1", "ACTUAL", "9999999999999999999"], "actual is 99999");
    is_refused(&["RK.REFUND", "api", "u", "AT", "9007199254740993"], "AT is too late");
    is_refused(&["RK.BLOCK", "api", "u"], "wrong number of arguments for 'rk.block'");
    is_refused(&["RK.BLOCK", "api", "u", "FOR", "8640000001"], "100d is the most");
    is_refused(&["RK.BLOCK", "api", "u", "FOR", "soon"], "FOR 'soon' is not a whole number");
    is_refused(&["RK.RELEASE", "api", "u", "LEASE", "1", "COST", "1"], "syntax error at 'COST'");
    is_refused(&["RK.HEARTBEAT", "api", "u"], "wrong number of arguments for 'rk.heartbeat'");
    is_refused(&["RK.NOTHING", "api", "u"], "unknown command 'RK.NOTHING'");
    is_refused(&["HELLO", "4"], "NOPROTO");
    is_refused(&["SELECT", "1"], "DB index is out of range");
    is_refused(&["CLIENT", "KILL", "x"], "unknown subcommand");
    is_refused(&["CLIENT", "SETNAME", "a b"], "printable");
    is_refused(&["CONFIG", "SET", "a", "b"], "only CONFIG GET");
    is_refused(&["AUTH", "canary-token"], "called without any password configured for the default user");
}

#[test]
fn huge_numbers_are_refused_and_charge_nothing() {
    let most = u64::MAX.to_string();
    is_refused(&["CL.THROTTLE", "u", "1", "1", "1", &most], "is not a whole number");
    is_refused(&["CL.THROTTLE", "u", "1", "1", "1", "9999999999999999999"], "the most");
    is_refused(&["CL.THROTTLE", "u", "9999999999999999999", "1", "1"], "burst");
    is_refused(&["CL.THROTTLE", "u", "1", "1", "9999999999999999999"], "per");
    is_refused(&["CL.THROTTLE", "u", "1", "9999999999999999999", "1"], "limit");
    is_refused(&["RK.CHECK", "api", "u", "COST", "9999999999999999999"], "the cost is 9999999999999999999");
    is_refused(&["RK.CHECK", "api", "u", "WAIT", "9999999999999999999"], "WAIT");
    let server = Server::start();
    let mut client = server.client();
    client.send(array(&["CL.THROTTLE", "u", "1", "1", "1", "9999999999999999999"]));
    client.expect_error("the most");
    client.exchange(&["CL.THROTTLE", "u", "1", "1", "1"], five([0, 2, 1, -1, 1]));
}

#[test]
fn empty_long_and_non_utf_8_keys_are_refused() {
    is_refused(&["RK.CHECK", "api", ""], "the key is empty");
    is_refused(&["RK.CHECK", "api", &"k".repeat(4_097)], "the key is 4097 bytes long; 4096 is the most");
    is_refused(&["CL.THROTTLE", &"k".repeat(4_097), "1", "1", "1"], "the key is 4097 bytes long");
    is_refused(&[&b"CL.THROTTLE"[..], b"\xff\xfe", b"1", b"1", b"1"], "the key '\\xff\\xfe' is not UTF-8");
    for command in ["RK.CHECK", "RK.PEEK", "RK.REFUND", "RK.RESET", "RK.PENALIZE", "RK.RELEASE"] {
        is_refused(&[command, &"d".repeat(129), "u"], "the domain is 129 bytes long; 128 is the most");
    }
    is_refused(&[&b"RK.CHECK"[..], b"\xc3(", b"u"], "the domain '\\xc3(' is not UTF-8");
    let server = Server::start();
    let mut client = server.client();
    client.exchange(&["CL.THROTTLE", "", "1", "1", "1"], five([0, 2, 1, -1, 1])); // Redis allows an empty key too
    client.exchange(&["CL.THROTTLE", &"k".repeat(4_096), "1", "1", "1"], five([0, 2, 1, -1, 1]));
}

/// A web page can make a browser post to any local port. Lines of the body must not be executed.
#[test]
fn lines_of_a_posted_form_are_not_executed() {
    let server = Server::start();
    for head in ["POST / HTTP/1.1\r\n", "PUT / HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut client = server.client();
        client.send(format!("{head}\r\nCL.THROTTLE victim 0 1 60\r\nQUIT\r\n"));
        let received = client.expect_end();
        assert!(received.ends_with("-ERR this is not an HTTP port; the connection is closed\r\n"), "{received:?}");
    }
    server.client().exchange(&["CL.THROTTLE", "victim", "0", "1", "60"], five([0, 1, 0, -1, 60]));
}

/// A client that sends everything before it reads still receives the error, without a broken pipe.
#[test]
fn an_error_is_received_while_more_is_still_being_sent() {
    let server = Server::start();
    for _ in 0..20 {
        let mut client = server.client();
        client.send("*1\r\n$70000\r\n");
        for _ in 0..16 {
            client.send([b'x'; 64 << 10]);
        }
        let received = client.expect_end();
        assert!(received.starts_with("-ERR Protocol error: "), "{received:?}");
    }
}

/// An incomplete frame times out, and so does a connection without any command.
#[test]
fn an_incomplete_command_times_out() {
    let soon = Duration::from_millis(250);
    let server = Server::with(Bounds { request: soon, ..Bounds::default() }, Access::open());
    let bystander = Bystander::of(&server);
    for half in [&b"*2\r\n$4\r\nEC"[..], b"*", b"PIN", b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI"] {
        let mut client = server.client();
        client.send(half);
        let received = client.expect_end();
        assert!(received.is_empty() || received == "+PONG\r\n", "{received:?}");
    }
    bystander.stays_served();

    let server = Server::with(Bounds { first_byte: soon, ..Bounds::default() }, Access::open());
    assert_eq!(server.client().expect_end(), "");
    let server = Server::with(Bounds { idle: soon, ..Bounds::default() }, Access::open());
    let mut client = server.client();
    client.exchange(&["PING"], "+PONG\r\n");
    assert_eq!(client.expect_end(), "");
}

/// A command that arrives byte by byte has one deadline; further bytes do not extend it.
#[test]
fn a_command_has_one_deadline_however_slowly_it_arrives() {
    let server = Server::with(Bounds { request: Duration::from_millis(300), ..Bounds::default() }, Access::open());
    let mut client = server.client();
    let began = std::time::Instant::now();
    client.send("*1\r\n$60000\r\n");
    let mut writer = client.try_clone_end();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let drip = std::thread::spawn(move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            writer.try_send("x");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    assert_eq!(client.expect_end(), "");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    drip.join().unwrap();
    assert!(began.elapsed() >= Duration::from_millis(300), "not before its time");
}

#[test]
fn a_flood_of_connections_is_refused_and_open_ones_are_served() {
    let server = Server::with(Bounds { connections: 8, ..Bounds::default() }, Access::open());
    let mut inside: Vec<Client> = (0..8)
        .map(|_| {
            let mut client = server.client();
            client.exchange(&["PING"], "+PONG\r\n");
            client
        })
        .collect();
    for _ in 0..200 {
        let mut client = server.client();
        client.try_send("PING\r\n");
        assert_eq!(client.expect_end(), "");
    }
    for client in &mut inside {
        client.exchange(&["PING"], "+PONG\r\n");
    }
    // A connection that closes makes room for another.
    inside.pop();
    let served = (0..1_000).any(|_| {
        let mut client = server.client();
        client.try_send("QUIT\r\n");
        client.expect_end() == "+OK\r\n"
    });
    assert!(served);
}

/// Backpressure: the server does not read from a client that does not read its replies.
#[test]
fn unread_replies_do_not_accumulate() {
    let server = Server::with(Bounds { idle: Duration::from_millis(200), ..Bounds::default() }, Access::open());
    let mut client = server.client();
    let word = "x".repeat(60_000);
    let command = array(&["ECHO", &word]);
    let took = (0..2_000).take_while(|_| client.can_send(&command)).count();
    assert!(took < 1_000, "{took} answers of 60 kB are somewhere");
    let mut other = server.client();
    other.exchange(&["PING"], "+PONG\r\n");
}

/// Runs the measurement in a separate process, since the memory of other tests would be counted too.
#[test]
fn a_long_pipeline_takes_no_more_memory_than_a_short_one() {
    let alone = ["--exact", "bad_input::a_long_pipeline_alone", "--ignored", "--nocapture"];
    let ended = std::process::Command::new(std::env::current_exe().unwrap()).args(alone).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ended.stderr));
}

/// Thirty megabytes of commands through one connection do not increase resident memory.
#[test]
#[ignore = "the other test runs it by itself"]
fn a_long_pipeline_alone() {
    let server = Server::start();
    let mut client = server.client();
    let batch = array(&["PING"]).repeat(10_000);
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
    };
    let mut run = |times: usize| {
        for _ in 0..times {
            let mut writer = client.try_clone_end();
            let batch = batch.clone();
            let sender = std::thread::spawn(move || writer.send(batch));
            client.expect("+PONG\r\n".repeat(10_000));
            sender.join().unwrap();
        }
    };
    run(20);
    let before = resident();
    run(200);
    let after = resident();
    assert!(after < before + (8 << 20), "{before} bytes before, {after} after");
}
