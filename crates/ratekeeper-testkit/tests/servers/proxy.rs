//! Each switch of the proxy does what it says, and nothing else.

use std::{io::ErrorKind, thread, time::Duration};

use ratekeeper_testkit::servers::{FaultProxy, RedisServer, wait_until};

use crate::client::Client;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A server, a proxy before it, and a client that has got through once.
fn set_up() -> (RedisServer, FaultProxy, Client) {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let mut client = Client::connect(proxy.port());
    client.ask("SET count 0", "+OK\r\n");
    (server, proxy, client)
}

/// What the server has counted, asked for behind the proxy's back.
fn count_at(server: &RedisServer) -> i64 {
    server.command(&["GET", "count"]).integer()
}

fn wait_for_count(server: &RedisServer, count: i64) {
    wait_until("the request to reach the server", TIMEOUT, || count_at(server) == count);
}

#[test]
fn bytes_pass_both_ways_and_are_counted() {
    let (_server, proxy, mut client) = set_up();
    client.ask("PING", "+PONG\r\n");
    assert_eq!(proxy.accepted(), 1);
    assert_eq!(proxy.bytes_to_server(), "SET count 0\r\nPING\r\n".len() as u64);
    assert_eq!(proxy.bytes_to_client(), "+OK\r\n+PONG\r\n".len() as u64);
}

#[test]
fn a_large_reply_passes_whole() {
    let (server, _proxy, mut client) = set_up();
    let value = "0123456789".repeat(100_000);
    assert_eq!(server.command(&["SET", "large", &value]).text(), "OK");
    client.ask("GET large", &format!("$1000000\r\n{value}\r\n"));
}

#[test]
fn swallowed_replies_leave_their_requests_done() {
    let (server, proxy, mut client) = set_up();
    proxy.swallow_replies();
    client.send("INCR count");
    wait_for_count(&server, 1);
    wait_until("the reply to be lost", TIMEOUT, || proxy.replies_swallowed() == 1);
    client.expect_silence();

    // A new connection is no better off until the switch is turned back.
    let mut other = Client::connect(proxy.port());
    other.send("INCR count");
    wait_until("the other reply to be lost", TIMEOUT, || proxy.replies_swallowed() == 2);
    assert_eq!(count_at(&server), 2);

    proxy.pass();
    Client::connect(proxy.port()).ask("INCR count", ":3\r\n");
}

#[test]
fn a_connection_that_lost_a_reply_never_carries_another() {
    let (server, proxy, mut client) = set_up();
    let mut bystander = Client::connect(proxy.port());
    proxy.swallow_next_replies(1);
    client.send("INCR count");
    wait_until("the reply to be lost", TIMEOUT, || proxy.replies_swallowed() == 1);

    bystander.ask("INCR count", ":2\r\n");
    client.send("INCR count");
    wait_for_count(&server, 3);
    wait_until("the next reply to be lost as well", TIMEOUT, || proxy.replies_swallowed() == 2);
    client.expect_silence();
}

#[test]
fn of_pipelined_replies_only_those_before_the_lost_one_arrive() {
    let (server, proxy, mut client) = set_up();
    client.send("INCR count");
    client.expect(":1\r\n");
    proxy.swallow_next_replies(2);
    client.send("INCR count\r\nINCR count\r\nINCR count");
    wait_until("three replies to be lost", TIMEOUT, || proxy.replies_swallowed() == 3);
    assert_eq!(count_at(&server), 4);
    // Two were asked for and the third fell silent with them; others are not affected.
    Client::connect(proxy.port()).ask("INCR count", ":5\r\n");
}

#[test]
fn a_delayed_reply_is_late_while_its_request_is_not() {
    let (server, proxy, mut client) = set_up();
    proxy.delay_replies(Duration::from_secs(3600));
    client.send("INCR count");
    wait_for_count(&server, 1);
    client.expect_silence();
    proxy.cut();
    client.expect_end();

    proxy.delay_replies(Duration::from_millis(20));
    let mut client = Client::connect(proxy.port());
    client.send("INCR count\r\nINCR count");
    client.expect(":2\r\n:3\r\n");
}

#[test]
fn refused_connections_are_refused_while_open_ones_go_on() {
    let (_server, proxy, mut client) = set_up();
    proxy.refuse_connections();
    let refused = Client::try_connect(proxy.port()).err().expect("nothing listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    client.ask("INCR count", ":1\r\n");
    assert_eq!(proxy.accepted(), 1);

    proxy.pass();
    Client::connect(proxy.port()).ask("INCR count", ":2\r\n");
}

#[test]
fn a_cut_ends_all_connections_and_new_ones_are_welcome() {
    let (_server, proxy, mut client) = set_up();
    let mut other = Client::connect(proxy.port());
    other.ask("PING", "+PONG\r\n");
    proxy.cut();
    client.expect_end();
    other.expect_end();
    Client::connect(proxy.port()).ask("PING", "+PONG\r\n");
}

#[test]
fn a_reset_is_seen_as_a_reset() {
    let (_server, proxy, mut client) = set_up();
    proxy.reset();
    client.expect_reset();
    Client::connect(proxy.port()).ask("PING", "+PONG\r\n");
}

#[test]
fn nothing_passes_a_blackhole_until_it_is_lifted() {
    let (server, proxy, mut client) = set_up();
    proxy.blackhole();
    client.send("INCR count");
    let mut late = Client::connect(proxy.port());
    late.send("INCR count");
    client.expect_silence();
    late.expect_silence();
    assert_eq!(count_at(&server), 0);

    proxy.pass();
    wait_for_count(&server, 2);
    client.expect(":");
    late.expect(":");
}

#[test]
fn a_blackhole_can_be_cut() {
    let (server, proxy, mut client) = set_up();
    proxy.blackhole();
    client.send("INCR count");
    client.expect_silence();
    proxy.cut();
    proxy.pass();
    assert_eq!(count_at(&server), 0, "what was held is lost with its connection");
    client.expect_end();
}

#[test]
fn a_reply_breaks_off_after_the_given_bytes() {
    let (server, proxy, mut client) = set_up();
    client.ask("SET word abcdefgh", "+OK\r\n");
    proxy.cut_next_reply_after(6);
    client.ask("GET word", "$8\r\nab");
    client.expect_gone();
    Client::connect(proxy.port()).ask("GET word", "$8\r\nabcdefgh\r\n");
    drop(server);
}

#[test]
fn a_dead_server_looks_like_a_connection_that_ends() {
    let (server, proxy, mut client) = set_up();
    server.kill();
    client.expect_gone();
    Client::connect(proxy.port()).expect_gone();
    server.restart();
    Client::connect(proxy.port()).ask("PING", "+PONG\r\n");
}

/// A proxy dropped in any state takes its threads along; a hanging thread would hang the test.
#[test]
fn dropping_a_proxy_ends_its_threads() {
    let (_server, proxy, mut client) = set_up();
    proxy.delay_replies(Duration::from_secs(3600));
    client.send("INCR count");
    proxy.blackhole();
    let port = proxy.port();
    thread::spawn(move || drop(proxy)).join().unwrap();
    client.expect_gone();
    assert!(Client::try_connect(port).is_err());
}
