//! Tokens: who may ask, and about what.

use tollgate_server::{
    config::Bounds,
    security::{Access, Tokens},
    telemetry::Wire,
};

use crate::support::{Server, array, five};

const TOKENS: &str = "all  canary-for-everything  *\nedge canary-for-the-edge    api,edge\n";

#[test]
fn without_a_token_nothing_is_answered_but_greetings() {
    let server = Server::with_tokens(TOKENS);
    let mut client = server.client();
    for words in [
        &["CL.THROTTLE", "u", "1", "1", "1"][..],
        &["TG.CHECK", "api", "u"],
        &["HELLO", "3"],
        &["INFO"],
        &["ECHO", "x"],
        &["COMMAND"],
        &["CLIENT", "ID"],
    ] {
        client.send(array(words));
        client.hears_error("NOAUTH");
    }
    client.asks(&["PING"], "+PONG\r\n");
    client.asks(&["QUIT"], "+OK\r\n");
}

#[test]
fn a_token_opens_its_domains_and_no_other() {
    let server = Server::with_tokens(TOKENS);
    let mut client = server.client();
    for wrong in ["canary-for-everythinG", "", "canary"] {
        client.send(array(&["AUTH", wrong]));
        client.hears_error("WRONGPASS");
        client.send(array(&["CL.THROTTLE", "u", "1", "1", "1"]));
        client.hears_error("NOAUTH");
    }
    client.asks(&["AUTH", "canary-for-the-edge"], "+OK\r\n");
    client.send(array(&["TG.CHECK", "api", "u"]));
    client.hears("*16\r\n$7\r\nverdict\r\n$5\r\nallow\r\n");
    let mut client = server.client();
    client.asks(&["AUTH", "default", "canary-for-the-edge"], "+OK\r\n");
    client.send(array(&["TG.CHECK", "billing", "u"]));
    client.hears_error("NOPERM the token of 'edge' is not good for domain 'billing'");
    client.send(array(&["CL.THROTTLE", "u", "1", "1", "1"]));
    client.hears_error("NOPERM");
    // A better one takes its place, a wrong one does not take it away, and RESET does.
    client.send(array(&["HELLO", "3", "AUTH", "default", "canary-for-everything", "SETNAME", "me"]));
    client.hears("%7\r\n$6\r\nserver\r\n$8\r\ntollgate\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:2\r\n");
    client.hears("$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
    client.send(array(&["AUTH", "wrong"]));
    client.hears_error("WRONGPASS");
    client.asks(&["CL.THROTTLE", "u", "1", "1", "1"], five([0, 2, 1, -1, 1]));
    client.asks(&["RESET"], "+RESET\r\n");
    client.send(array(&["CL.THROTTLE", "u", "1", "1", "1"]));
    client.hears_error("NOAUTH");
}

/// A token that is taken back is of no use on connections that stand, either.
#[test]
fn a_token_that_is_taken_back_stops_working_at_once() {
    let access = Access::by(Tokens::parse("tokens", TOKENS).unwrap());
    let server = Server::with(Bounds::default(), access.clone());
    let (mut edge, mut all) = (server.client(), server.client());
    edge.asks(&["AUTH", "canary-for-the-edge"], "+OK\r\n");
    all.asks(&["AUTH", "canary-for-everything"], "+OK\r\n");
    access.renew(Tokens::parse("tokens", "all canary-for-everything api\n").unwrap());
    edge.send(array(&["ECHO", "x"]));
    edge.hears_error("NOAUTH");
    all.asks(&["ECHO", "x"], "$1\r\nx\r\n");
    all.send(array(&["CL.THROTTLE", "u", "1", "1", "1"]));
    all.hears_error("NOPERM");
}

#[test]
fn a_greeting_that_is_refused_changes_nothing() {
    let server = Server::with_tokens(TOKENS);
    let mut client = server.client();
    client.send(array(&["HELLO", "3", "AUTH", "a", "canary-for-everything", "SETNAME", "a b"]));
    client.hears_error("printable");
    client.send(array(&["ECHO", "x"]));
    client.hears_error("NOAUTH");
    client.send(array(&["AUTH", "wrong"]));
    client.hears_error("WRONGPASS");
    let refused = server.engine.telemetry().refused_tokens.get(&Wire::Resp.label()).map(|count| count.get());
    assert_eq!(refused, Some(1));
}
