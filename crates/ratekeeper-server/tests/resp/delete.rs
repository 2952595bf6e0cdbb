//! `DEL` and `UNLINK` reset keys with inline limits; a reset that would do nothing is an error.

use ratekeeper_testkit::servers::RedisServer;
use redis::{Client, cmd, pipe};

use crate::support::{Server, array, five};

const CALL: [&str; 5] = ["CL.THROTTLE", "u", "3", "1", "5400"];

/// A deleted key has all its permits, whichever command and numbers it was used with.
fn keys_are_reset_by(server: &Server) {
    let mut client = server.client();
    client.exchange(&["DEL", "u"], ":0\r\n");
    for (command, used, fresh) in [
        (&["CL.THROTTLE", "u", "3", "1", "5400", "4"][..], [0, 4, 0, -1], [0, 4, 0, -1]),
        (&["GCRA", "u", "3", "1", "5400", "TOKENS", "4"], [0, 4, 0, -1], [0, 4, 0, -1]),
        (&["THROTTLE", "u", "4", "1", "5400", "4"], [1, 4, 0, 21_600], [1, 4, 0, 21_600]),
    ] {
        client.send(array(command));
        assert_eq!(client.read_integers()[..4], used, "{command:?}");
        client.send(array(command));
        assert_ne!(client.read_integers()[0], used[0], "{command:?}: used up");
        client.exchange(&["DEL", "u"], ":1\r\n");
        client.exchange(&["DEL", "u"], ":0\r\n");
        client.send(array(command));
        assert_eq!(client.read_integers()[..4], fresh, "{command:?}");
        client.exchange(&["unlink", "u"], ":1\r\n");
    }
    // Other keys are unchanged; a key named twice counts once.
    for key in ["a", "b", "c"] {
        client.send(array(&["CL.THROTTLE", key, "3", "1", "5400"]));
        assert_eq!(client.read_integers()[2], 3);
    }
    client.exchange(&["DEL", "a", "missing", "b", "a"], ":2\r\n");
    client.send(array(&["CL.THROTTLE", "c", "3", "1", "5400"]));
    assert_eq!(client.read_integers()[2], 2, "c was not named");
}

#[test]
fn a_key_is_reset_in_memory() {
    keys_are_reset_by(&Server::start());
}

#[test]
fn a_key_is_reset_in_redis_also_by_a_server_that_has_not_seen_it() {
    let redis = RedisServer::start();
    let (one, other) = (Server::on_redis(&redis.url()), Server::on_redis(&redis.url()));
    keys_are_reset_by(&one);
    one.client().exchange(&["DEL", "c"], ":1\r\n");
    one.client().exchange(&CALL, five([0, 4, 3, -1, 5_400]));
    other.client().exchange(&["DEL", "u"], ":1\r\n");
    one.client().exchange(&CALL, five([0, 4, 3, -1, 5_400]));
}

/// In one pipeline, on both stores, every reply depends on the one before it.
#[test]
fn pipelines_and_transactions_are_executed_in_order() {
    let redis = RedisServer::start();
    for server in [Server::start(), Server::on_redis(&redis.url())] {
        let mut client = server.client();
        let take = array(&["CL.THROTTLE", "u", "0", "1", "5400"]);
        let mut commands = Vec::new();
        for _ in 0..20 {
            commands.extend_from_slice(&take);
            commands.extend(array(&["DEL", "other", "u"]));
        }
        client.send(commands);
        for round in 0..20 {
            assert_eq!(client.read_integers()[0], 0, "round {round}");
            client.expect(":1\r\n");
        }
        client.exchange(&["MULTI"], "+OK\r\n");
        client.exchange(&["CL.THROTTLE", "u", "0", "1", "5400"], "+QUEUED\r\n");
        client.exchange(&["DEL", "u", "other"], "+QUEUED\r\n");
        client.exchange(&["CL.THROTTLE", "u", "0", "1", "5400"], "+QUEUED\r\n");
        client.exchange(
            &["EXEC"],
            "*3\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:5400\r\n:1\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:5400\r\n",
        );
    }
}

/// A client library sends `DEL` as a plain command, and in a pipeline that it wraps in a transaction.
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
fn a_reset_without_effect_is_an_error() {
    let server = Server::start();
    let mut client = server.client();
    let mut refused = |words: &[&str], part: &str| {
        client.send(array(words));
        client.expect_error(part);
    };
    refused(&["RK.RESET", "ratekeeper:throttle", "u"], "DEL key");
    refused(&["RK.RESET", "nowhere", "u"], "no rule file has the domain");
    refused(&["DEL"], "wrong number of arguments");
    refused(&["DEL", &"x".repeat(5_000)], "4096");
    client.exchange(&["RK.RESET", "api", "u"], "+OK\r\n");
    server.engine.switch(|switches| switches.everything_off = true).unwrap();
    client.send(array(&["RK.RESET", "api", "u"]));
    client.expect_error("switched off");
}

/// Inline limits belong to no domain: deleting their keys needs a token for all domains, as using them does.
#[test]
fn delete_needs_a_token_for_all_domains() {
    let server = Server::with_tokens("app 0123456789abcdef api\nops fedcba9876543210 *\n");
    let mut client = server.client();
    client.send(array(&["DEL", "u"]));
    client.expect_error("NOAUTH");
    client.exchange(&["AUTH", "0123456789abcdef"], "+OK\r\n");
    client.send(array(&["DEL", "u"]));
    client.expect_error("NOPERM");
    client.exchange(&["AUTH", "fedcba9876543210"], "+OK\r\n");
    client.exchange(&["DEL", "u"], ":0\r\n");
}

/// Cluster clients query the key positions of a command.
#[test]
fn the_command_table_lists_both() {
    let server = Server::start();
    let mut client = server.client();
    for name in ["del", "unlink"] {
        let length = name.len();
        client.exchange(
            &["COMMAND", "INFO", name],
            format!(
                "*1\r\n*10\r\n${length}\r\n{name}\r\n:-2\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:-1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n"
            ),
        );
    }
}
