//! Transactions (`MULTI`, `EXEC`), which client libraries put around pipelines.

use ratekeeper_testkit::servers::RedisServer;

use crate::support::{Client, RULES, Server, array, five};

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";

fn begin(client: &mut Client) {
    client.exchange(&["MULTI"], "+OK\r\n");
}

#[test]
fn queued_commands_are_executed_at_exec() {
    let server = Server::start();
    let mut client = server.client();
    begin(&mut client);
    client.exchange(&["CL.THROTTLE", "u", "4", "1", "60"], "+QUEUED\r\n");
    client.exchange(&["cl.throttle", "u", "4", "1", "60", "2"], "+QUEUED\r\n");
    client.exchange(&["ECHO", "a\r\nb"], "+QUEUED\r\n");
    client.exchange(&["CL.THROTTLE", "u", "4", "no", "60"], "+QUEUED\r\n");
    // Nothing has been charged so far.
    server.client().exchange(&["CL.THROTTLE", "u", "4", "1", "60", "0"], five([0, 5, 5, -1, 0]));
    client.send(array(&["EXEC"]));
    client.expect(format!("*4\r\n{}{}$4\r\na\r\nb\r\n", five([0, 5, 4, -1, 60]), five([0, 5, 2, -1, 180])));
    client.expect_error("count 'no' is not a whole number");
    client.exchange(&["CL.THROTTLE", "u", "4", "1", "60"], five([0, 5, 1, -1, 240]));
    begin(&mut client);
    client.exchange(&["EXEC"], "*0\r\n");
}

#[test]
fn discarded_and_aborted_transactions_charge_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let throttle = ["CL.THROTTLE", "u", "4", "1", "60"];
    begin(&mut client);
    client.exchange(&throttle, "+QUEUED\r\n");
    client.exchange(&["DISCARD"], "+OK\r\n");

    begin(&mut client);
    client.exchange(&throttle, "+QUEUED\r\n");
    client.send(array(&["SET", "a", "b"]));
    client.expect_error("unknown command 'SET'");
    client.exchange(&["EXEC"], ABORTED);

    begin(&mut client);
    client.send(array(&["CL.THROTTLE", "u"]));
    client.expect_error("wrong number of arguments");
    client.send(array(&["MULTI"]));
    client.expect_error("can not be nested");
    client.exchange(&["EXEC"], ABORTED);

    begin(&mut client);
    client.exchange(&throttle, "+QUEUED\r\n");
    client.exchange(&["RESET"], "+RESET\r\n");
    for (words, error) in [(["EXEC"], "EXEC without MULTI"), (["DISCARD"], "DISCARD without MULTI")] {
        client.send(array(&words));
        client.expect_error(error);
    }
    client.exchange(&throttle, five([0, 5, 4, -1, 60]));
    begin(&mut client);
    client.exchange(&["QUIT"], "+OK\r\n");
    assert_eq!(client.expect_end(), "");
}

#[test]
fn the_queue_is_bounded() {
    let server = Server::start();
    let mut client = server.client();
    begin(&mut client);
    for _ in 0..128 {
        client.exchange(&["PING"], "+QUEUED\r\n");
    }
    client.send(array(&["PING"]));
    client.expect_error("128 commands");
    client.exchange(&["EXEC"], ABORTED);

    begin(&mut client);
    let long = "x".repeat(40_000);
    client.exchange(&["ECHO", &long], "+QUEUED\r\n");
    client.send(array(&["ECHO", &long]));
    client.expect_error("65536 bytes");
    client.exchange(&["EXEC"], ABORTED);
}

/// The replies are the same bytes on Redis, where every decision is a store call.
#[test]
fn replies_on_redis_are_the_same() {
    let redis = RedisServer::start();
    let (server, _clock) = Server::on_redis_with_manual_clock(&redis.url(), &[RULES]);
    let mut client = server.client();
    let mut commands = array(&["CL.THROTTLE", "before", "4", "1", "60"]);
    for words in
        [&["MULTI"][..], &["CL.THROTTLE", "u", "4", "1", "60"], &["PING"], &["CL.THROTTLE", "u", "4", "1", "60"]]
    {
        commands.extend(array(words));
    }
    commands.extend(array(&["EXEC"]));
    commands.extend(array(&["CL.THROTTLE", "u", "4", "1", "60"]));
    client.send(commands);
    client.expect(five([0, 5, 4, -1, 60]));
    client.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n");
    client.expect(five([0, 5, 4, -1, 60]));
    client.expect("+PONG\r\n");
    client.expect(five([0, 5, 3, -1, 120]));
    client.expect(five([0, 5, 2, -1, 180]));
}
