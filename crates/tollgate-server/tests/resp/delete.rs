//! `DEL` and `UNLINK` reset keys whose limits come with the call; a reset that would do nothing is an error.

use redis::{Client, cmd, pipe};
use tollgate_testkit::servers::RedisServer;

use crate::support::{Server, array, five};

const CALL: [&str; 5] = ["CL.THROTTLE", "u", "3", "1", "5400"];

/// Whatever numbers a key was used with, and whatever command: afterwards it is full.
fn keys_are_reset_by(server: &Server) {
    let mut client = server.client();
    client.asks(&["DEL", "u"], ":0\r\n");
    for (command, used, fresh) in [
        (&["CL.THROTTLE", "u", "3", "1", "5400", "4"][..], [0, 4, 0, -1], [0, 4, 0, -1]),
        (&["GCRA", "u", "3", "1", "5400", "TOKENS", "4"], [0, 4, 0, -1], [0, 4, 0, -1]),
        (&["THROTTLE", "u", "4", "1", "5400", "4"], [1, 4, 0, 21_600], [1, 4, 0, 21_600]),
    ] {
        client.send(array(command));
        assert_eq!(client.hears_integers()[..4], used, "{command:?}");
        client.send(array(command));
        assert_ne!(client.hears_integers()[0], used[0], "{command:?}: used up");
        client.asks(&["DEL", "u"], ":1\r\n");
        client.asks(&["DEL", "u"], ":0\r\n");
        client.send(array(command));
        assert_eq!(client.hears_integers()[..4], fresh, "{command:?}");
        client.asks(&["unlink", "u"], ":1\r\n");
    }
    // Others are left alone; a key named twice counts once.
    for key in ["a", "b", "c"] {
        client.send(array(&["CL.THROTTLE", key, "3", "1", "5400"]));
        assert_eq!(client.hears_integers()[2], 3);
    }
    client.asks(&["DEL", "a", "missing", "b", "a"], ":2\r\n");
    client.send(array(&["CL.THROTTLE", "c", "3", "1", "5400"]));
    assert_eq!(client.hears_integers()[2], 2, "c was not named");
}

#[test]
fn a_key_is_reset_in_memory() {
    keys_are_reset_by(&Server::start());
}

#[test]
fn a_key_is_reset_in_redis_also_by_a_server_that_has_not_seen_it() {
    let redis = RedisServer::start();
    let (one, other) = (Server::sharing(&redis.url()), Server::sharing(&redis.url()));
    keys_are_reset_by(&one);
    one.client().asks(&["DEL", "c"], ":1\r\n");
    one.client().asks(&CALL, five([0, 4, 3, -1, 5_400]));
    other.client().asks(&["DEL", "u"], ":1\r\n");
    one.client().asks(&CALL, five([0, 4, 3, -1, 5_400]));
}

/// In one pipeline, on both stores, every answer depends on the one before it.
#[test]
fn a_pipeline_and_a_transaction_are_carried_out_in_order() {
    let redis = RedisServer::start();
    for server in [Server::start(), Server::sharing(&redis.url())] {
        let mut client = server.client();
        let take = array(&["CL.THROTTLE", "u", "0", "1", "5400"]);
        let mut asked = Vec::new();
        for _ in 0..20 {
            asked.extend_from_slice(&take);
            asked.extend(array(&["DEL", "other", "u"]));
        }
        client.send(asked);
        for round in 0..20 {
            assert_eq!(client.hears_integers()[0], 0, "round {round}");
            client.hears(":1\r\n");
        }
        client.asks(&["MULTI"], "+OK\r\n");
        client.asks(&["CL.THROTTLE", "u", "0", "1", "5400"], "+QUEUED\r\n");
        client.asks(&["DEL", "u", "other"], "+QUEUED\r\n");
        client.asks(&["CL.THROTTLE", "u", "0", "1", "5400"], "+QUEUED\r\n");
        client.asks(
            &["EXEC"],
            "*3\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:5400\r\n:1\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:5400\r\n",
        );
    }
}

/// As a client library sends it: the plain command, and among others in a pipeline it wraps in a transaction.
#[test]
fn a_client_library_deletes_keys() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::open(format!("redis://{}", server.address)).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let throttle = || cmd("CL.THROTTLE").arg("u").arg(0).arg(1).arg(60).to_owned();
        let _: [i64; 5] = throttle().query_async(&mut connection).await.unwrap();
        let gone: i64 = redis::AsyncCommands::del(&mut connection, "u").await.unwrap();
        assert_eq!(gone, 1);
        let (first, gone, second): ([i64; 5], i64, [i64; 5]) = pipe()
            .atomic()
            .add_command(throttle())
            .del(&["u", "v"])
            .add_command(throttle())
            .query_async(&mut connection)
            .await
            .unwrap();
        assert_eq!((first[0], gone, second[0]), (0, 1, 0));
    });
}

#[test]
fn a_reset_that_would_do_nothing_is_an_error() {
    let server = Server::start();
    let mut client = server.client();
    let mut refused = |words: &[&str], part: &str| {
        client.send(array(words));
        client.hears_error(part);
    };
    refused(&["TG.RESET", "tollgate:throttle", "u"], "DEL key");
    refused(&["TG.RESET", "nowhere", "u"], "no rule file is about the domain");
    refused(&["DEL"], "wrong number of arguments");
    refused(&["DEL", &"x".repeat(5_000)], "4096");
    client.asks(&["TG.RESET", "api", "u"], "+OK\r\n");
    server.engine.switch(|switches| switches.everything_off = true).unwrap();
    client.send(array(&["TG.RESET", "api", "u"]));
    client.hears_error("switched off");
}

/// Limits that come with calls belong to no domain: deleting them takes a token for all, as using them does.
#[test]
fn deleting_needs_the_rights_of_throttling() {
    let server = Server::with_tokens("app 0123456789abcdef api\nops fedcba9876543210 *\n");
    let mut client = server.client();
    client.send(array(&["DEL", "u"]));
    client.hears_error("NOAUTH");
    client.asks(&["AUTH", "0123456789abcdef"], "+OK\r\n");
    client.send(array(&["DEL", "u"]));
    client.hears_error("NOPERM");
    client.asks(&["AUTH", "fedcba9876543210"], "+OK\r\n");
    client.asks(&["DEL", "u"], ":0\r\n");
}

/// Clients of clusters ask where a command's keys are.
#[test]
fn the_command_table_lists_both() {
    let server = Server::start();
    let mut client = server.client();
    for name in ["del", "unlink"] {
        let length = name.len();
        client.asks(
            &["COMMAND", "INFO", name],
            format!(
                "*1\r\n*10\r\n${length}\r\n{name}\r\n:-2\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:-1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n"
            ),
        );
    }
}
