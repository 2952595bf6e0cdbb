//! `MULTI` and `EXEC`, which libraries put around pipelines.

use tollgate_testkit::servers::RedisServer;

use crate::support::{Client, RULES, Server, array, five};

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";

fn begin(client: &mut Client) {
    client.asks(&["MULTI"], "+OK\r\n");
}

#[test]
fn commands_are_kept_and_carried_out_together() {
    let server = Server::start();
    let mut client = server.client();
    begin(&mut client);
    client.asks(&["CL.THROTTLE", "u", "4", "1", "60"], "+QUEUED\r\n");
    client.asks(&["cl.throttle", "u", "4", "1", "60", "2"], "+QUEUED\r\n");
    client.asks(&["ECHO", "a\r\nb"], "+QUEUED\r\n");
    client.asks(&["CL.THROTTLE", "u", "4", "no", "60"], "+QUEUED\r\n");
    // Nothing has been charged so far.
    server.client().asks(&["CL.THROTTLE", "u", "4", "1", "60", "0"], five([0, 5, 5, -1, 0]));
    client.send(array(&["EXEC"]));
    client.hears(format!("*4\r\n{}{}$4\r\na\r\nb\r\n", five([0, 5, 4, -1, 60]), five([0, 5, 2, -1, 180])));
    client.hears_error("count 'no' is not a whole number");
    client.asks(&["CL.THROTTLE", "u", "4", "1", "60"], five([0, 5, 1, -1, 240]));
    begin(&mut client);
    client.asks(&["EXEC"], "*0\r\n");
}

#[test]
fn what_is_discarded_or_broken_charges_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let throttle = ["CL.THROTTLE", "u", "4", "1", "60"];
    begin(&mut client);
    client.asks(&throttle, "+QUEUED\r\n");
    client.asks(&["DISCARD"], "+OK\r\n");

    begin(&mut client);
    client.asks(&throttle, "+QUEUED\r\n");
    client.send(array(&["SET", "a", "b"]));
    client.hears_error("unknown command 'SET'");
    client.asks(&["EXEC"], ABORTED);

    begin(&mut client);
    client.send(array(&["CL.THROTTLE", "u"]));
    client.hears_error("wrong number of arguments");
    client.send(array(&["MULTI"]));
    client.hears_error("can not be nested");
    client.asks(&["EXEC"], ABORTED);

    begin(&mut client);
    client.asks(&throttle, "+QUEUED\r\n");
    client.asks(&["RESET"], "+RESET\r\n");
    for (words, error) in [(["EXEC"], "EXEC without MULTI"), (["DISCARD"], "DISCARD without MULTI")] {
        client.send(array(&words));
        client.hears_error(error);
    }
    client.asks(&throttle, five([0, 5, 4, -1, 60]));
    begin(&mut client);
    client.asks(&["QUIT"], "+OK\r\n");
    assert_eq!(client.hears_the_end(), "");
}

#[test]
fn what_may_be_kept_has_an_end() {
    let server = Server::start();
    let mut client = server.client();
    begin(&mut client);
    for _ in 0..128 {
        client.asks(&["PING"], "+QUEUED\r\n");
    }
    client.send(array(&["PING"]));
    client.hears_error("128 commands");
    client.asks(&["EXEC"], ABORTED);

    begin(&mut client);
    let long = "x".repeat(40_000);
    client.asks(&["ECHO", &long], "+QUEUED\r\n");
    client.send(array(&["ECHO", &long]));
    client.hears_error("65536 bytes");
    client.asks(&["EXEC"], ABORTED);
}

/// The same bytes where every decision has to be waited for.
#[test]
fn over_a_redis_the_answers_are_the_same() {
    let redis = RedisServer::start();
    let (server, _clock) = Server::sharing_by_hand(&redis.url(), &[RULES]);
    let mut client = server.client();
    let mut asked = array(&["CL.THROTTLE", "before", "4", "1", "60"]);
    for words in
        [&["MULTI"][..], &["CL.THROTTLE", "u", "4", "1", "60"], &["PING"], &["CL.THROTTLE", "u", "4", "1", "60"]]
    {
        asked.extend(array(words));
    }
    asked.extend(array(&["EXEC"]));
    asked.extend(array(&["CL.THROTTLE", "u", "4", "1", "60"]));
    client.send(asked);
    client.hears(five([0, 5, 4, -1, 60]));
    client.hears("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n");
    client.hears(five([0, 5, 4, -1, 60]));
    client.hears("+PONG\r\n");
    client.hears(five([0, 5, 3, -1, 120]));
    client.hears(five([0, 5, 2, -1, 180]));
}
