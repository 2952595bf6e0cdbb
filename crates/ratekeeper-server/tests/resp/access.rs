//! Token authentication and domain permissions of the RESP wire.

use ratekeeper_server::{
    config::Bounds,
    security::{Access, Tokens},
    telemetry::Wire,
};

use crate::support::{Server, array, five};

const TOKENS: &str = "all  canary-for-everything  *\nedge canary-for-the-edge    api,edge\n";

#[test]
fn without_a_token_only_connection_commands_are_answered() {
    let server = Server::with_tokens(TOKENS);
    let mut client = server.client();
    for words in [
        &["CL.THROTTLE", "u", "1", "1", "1"][..],
        &["RK.CHECK", "api", "u"],
        &["HELLO", "3"],
        &["INFO"],
        &["ECHO", "x"],
        &["COMMAND"],
        &["CLIENT", "ID"],
    ] {
        client.send(array(words));
        client.expect_error("NOAUTH");
    }
    client.exchange(&["PING"], "+PONG\r\n");
    client.exchange(&["QUIT"], "+OK\r\n");
}

#[test]
fn a_token_gives_access_to_its_domains_only() {
    let server = Server::with_tokens(TOKENS);
    let mut client = server.client();
    for wrong in ["canary-for-everythinG", "", "canary"] {
        client.send(array(&["AUTH", wrong]));
        client.expect_error("WRONGPASS");
        client.send(array(&["CL.THROTTLE", "u", "1", "1", "1"]));
        client.expect_error("NOAUTH");
    }
    client.exchange(&["AUTH", "canary-for-the-edge"], "+OK\r\n");
    client.send(array(&["RK.CHECK", "api", "u"]));
    client.expect("*22\r\n$7\r\nverdict\r\n$5\r\nallow\r\n");
    let mut client = server.client();
    client.exchange(&["AUTH", "default", "canary-for-the-edge"], "+OK\r\n");
    client.send(array(&["RK.CHECK", "billing", "u"]));
    client.expect_error("NOPERM the token of 'edge' gives no access to domain 'billing'");
    client.send(array(&["CL.THROTTLE", "u", "1", "1", "1"]));
    client.expect_error("NOPERM");
    // A valid token replaces the current one, an unknown token leaves it, and RESET removes it.
    client.send(array(&["HELLO", "3", "AUTH", "default", "canary-for-everything", "SETNAME", "me"]));
    client.expect("%7\r\n$6\r\nserver\r\n$10\r\nratekeeper\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:2\r\n");
    client.expect("$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
    client.send(array(&["AUTH", "wrong"]));
    client.expect_error("WRONGPASS");
    client.exchange(&["CL.THROTTLE", "u", "1", "1", "1"], five([0, 2, 1, -1, 1]));
    client.exchange(&["RESET"], "+RESET\r\n");
    client.send(array(&["CL.THROTTLE", "u", "1", "1", "1"]));
    client.expect_error("NOAUTH");
}

/// A revoked token loses its permissions on open connections as well.
#[test]
fn a_revoked_token_stops_working_at_once() {
    let access = Access::by(Tokens::parse("tokens", TOKENS).unwrap());
    let server = Server::with(Bounds::default(), access.clone());
    let (mut edge, mut all) = (server.client(), server.client());
    edge.exchange(&["AUTH", "canary-for-the-edge"], "+OK\r\n");
    all.exchange(&["AUTH", "canary-for-everything"], "+OK\r\n");
    access.renew(Tokens::parse("tokens", "all canary-for-everything api\n").unwrap());
    edge.send(array(&["ECHO", "x"]));
    edge.expect_error("NOAUTH");
    all.exchange(&["ECHO", "x"], "$1\r\nx\r\n");
    all.send(array(&["CL.THROTTLE", "u", "1", "1", "1"]));
    all.expect_error("NOPERM");
}

#[test]
fn a_refused_hello_changes_nothing() {
    let server = Server::with_tokens(TOKENS);
    let mut client = server.client();
    client.send(array(&["HELLO", "3", "AUTH", "a", "canary-for-everything", "SETNAME", "a b"]));
    client.expect_error("printable");
    client.send(array(&["ECHO", "x"]));
    client.expect_error("NOAUTH");
    client.send(array(&["AUTH", "wrong"]));
    client.expect_error("WRONGPASS");
    let refused = server.engine.telemetry().refused_tokens.get(&Wire::Resp.label()).map(|count| count.get());
    assert_eq!(refused, Some(1));
}
