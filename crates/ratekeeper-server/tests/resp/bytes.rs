//! Replies of the RESP wire, compared byte by byte.

use ratekeeper_core::Span;
use ratekeeper_server::engine::Throttle;

use crate::support::{Server, array, five};

#[test]
fn cl_throttle_replies_as_redis_cell() {
    let server = Server::start();
    let mut client = server.client();
    let call = ["CL.THROTTLE", "u", "2", "30", "60"];
    client.exchange(&call, five([0, 3, 2, -1, 2]));
    client.exchange(&call, five([0, 3, 1, -1, 4]));
    client.exchange(&call, five([0, 3, 0, -1, 6]));
    client.exchange(&call, five([1, 3, 0, 2, 6]));
    server.clock.advance(Span::from_micros(500_000));
    client.exchange(&call, five([1, 3, 0, 2, 6])); // 1.5 s and 5.5 s, rounded up
    client.exchange(&["cl.throttle", "u", "2", "30", "60", "0"], five([0, 3, 0, -1, 6])); // a peek is always allowed
    client.exchange(&["CL.THROTTLE", "u", "2", "30", "60", "4"], five([1, 3, 0, -1, 6])); // more than the burst
    server.clock.advance(Span::from_micros(5_500_000));
    client.exchange(&["CL.THROTTLE", "u", "2", "30", "60", "2"], five([0, 3, 1, -1, 4]));
}

#[test]
fn throttle_replies_in_the_order_of_throttlecrab() {
    let server = Server::start();
    let mut client = server.client();
    client.exchange(&["THROTTLE", "u", "3", "30", "60", "2"], five([1, 3, 1, 4, 0]));
    client.exchange(&["THROTTLE", "u", "3", "30", "60", "2"], five([0, 3, 1, 4, 2]));
    client.exchange(&["THROTTLE", "u", "3", "30", "60", "4"], five([0, 3, 1, 4, -1]));
}

#[test]
fn gcra_takes_decimals_and_tokens() {
    let server = Server::start();
    let mut client = server.client();
    client.exchange(&["GCRA", "u", "1", "1", "1.5"], five([0, 2, 1, -1, 2]));
    client.exchange(&["GCRA", "u", "1", "1", "1.5", "TOKENS", "2"], five([1, 2, 1, 2, 2]));
    client.exchange(&["GCRA", "u", "1", "1", "1.5", "tokens", "1"], five([0, 2, 0, -1, 3]));
    client.send(array(&["GCRA", "u", "1", "1", "1.5", "NUM", "0"]));
    client.expect_error("ERR syntax error at 'NUM'");
}

/// The cases of Redis' tests of `GCRA`, and amounts at the limits of 64 bits.
#[test]
fn gcra_has_the_errors_of_redis() {
    const MOST: &str = "9223372036854775807";
    let server = Server::start();
    let mut client = server.client();
    let between = "ERR value is out of range, value must between 1 and 9223372036854775807";
    let no_integer = "ERR value is not an integer or out of range";
    let overflow = "would cause an overflow";
    for (arguments, words) in [
        (&[][..], "ERR wrong number of arguments for 'gcra' command"),
        (&["10"], "ERR wrong number of arguments for 'gcra' command"),
        (&["10", "5"], "ERR wrong number of arguments for 'gcra' command"),
        (&["10", "5", "10", "TOKENS", "1", "1"], "ERR wrong number of arguments for 'gcra' command"),
        (&["-1", "5", "10"], "ERR value is out of range, must be positive"),
        (&["x", "5", "10"], "ERR value is out of range, must be positive"),
        (&["9223372036854775808", "5", "10"], "ERR value is out of range, must be positive"),
        (&["10", "0", "10"], between),
        (&["10", "-1", "10"], between),
        (&["10", "x", "10"], no_integer),
        (&["10", "5", "0"], "ERR period must be > 0 and < 1e12"),
        (&["10", "5", "-1"], "ERR period must be > 0 and < 1e12"),
        (&["10", "5", "1e12"], "ERR period must be > 0 and < 1e12"),
        (&["10", "5", "x"], "ERR value is not a valid float"),
        (&["10", "5", "10", "NUM", "1"], "ERR syntax error"),
        (&["10", "5", "10", "TOKENS"], "ERR Missing TOKENS value"),
        (&["10", "5", "10", "TOKENS", "0"], between),
        (&["10", "5", "10", "TOKENS", "-1"], between),
        (&["10", "5", "10", "TOKENS", "x"], no_integer),
        (&["10", "5", "10", "TOKENS", "9223372036854775808"], no_integer),
        (&["1", "1", "86400", "TOKENS", "200000000"], overflow),
        (&["1", "1", "86400", "TOKENS", MOST], "period, tokens_per_period and TOKENS would cause an overflow"),
        (&["200000000", "1", "86400"], "period, tokens_per_period and max_burst would cause an overflow"),
        (&[MOST, "1", "86400"], overflow),
        (&["1", "1", "2147483647", "TOKENS", "2147483647"], overflow),
    ] {
        client.send(array(&[&["GCRA", "u"], arguments].concat()));
        client.expect_error(words);
    }
    // A cost far above the burst that does not overflow is never allowed, and nothing is charged.
    client.exchange(&["GCRA", "u", "2", "1", "1", "TOKENS", "2000000000000"], five([1, 3, 3, -1, 0]));
    // An emission interval below one microsecond is rounded up to one.
    client.exchange(&["GCRA", "u", "2", MOST, "1"], five([0, 3, 2, -1, 1]));
}

/// A key has one meter, whose state is the time at which it is back in its initial state.
#[test]
fn a_key_has_one_state_for_all_inline_limits() {
    let server = Server::start();
    let mut client = server.client();
    client.exchange(&["CL.THROTTLE", "u", "9", "60", "60", "5"], five([0, 10, 5, -1, 5]));
    client.exchange(&["CL.THROTTLE", "u", "1", "60", "60"], five([1, 2, 0, 4, 5]));
    client.exchange(&["CL.THROTTLE", "u", "1", "60", "60", "0"], five([1, 2, 0, 3, 5]));
    client.exchange(&["THROTTLE", "u", "20", "600", "60"], five([0, 20, 0, 5, 4]));
    server.clock.advance(Span::from_micros(4_000_000));
    client.exchange(&["CL.THROTTLE", "u", "1", "60", "60"], five([0, 2, 0, -1, 2]));
    client.exchange(&["GCRA", "u", "29", "600", "60", "TOKENS", "10"], five([0, 30, 0, -1, 3]));
}

const ALLOWED: [&str; 3] = [
    "$7\r\nverdict\r\n$5\r\nallow\r\n$7\r\nwait_us\r\n:0\r\n$14\r\nretry_after_us\r\n:0\r\n",
    "$9\r\nremaining\r\n:4\r\n$5\r\nlimit\r\n:5\r\n$14\r\nreset_after_us\r\n:1000000\r\n",
    "$10\r\ndecided_by\r\n$5\r\nburst\r\n$6\r\nsource\r\n$5\r\nstore\r\n",
];

/// The fields after `source`: policy, time, and the numbers of the one rule. `map` is the header of the rule's map.
fn more(map: &str, rules: &str, verdict: &str, remaining: u64, retry_after: u64) -> String {
    format!(
        "$6\r\npolicy\r\n$8\r\nper-user\r\n$5\r\nat_us\r\n:1900000000000000\r\n$5\r\nrules\r\n{rules}\r\n{map}\r\n\
         $4\r\nname\r\n$5\r\nburst\r\n$7\r\nverdict\r\n${}\r\n{verdict}\r\n$9\r\nremaining\r\n:{remaining}\r\n\
         $5\r\nlimit\r\n:5\r\n$14\r\nretry_after_us\r\n:{retry_after}\r\n$14\r\nreset_after_us\r\n:1000000\r\n",
        verdict.len()
    )
}

#[test]
fn rk_check_returns_the_fields_of_the_http_response() {
    let server = Server::start();
    let mut client = server.client();
    client.exchange(
        &["RK.CHECK", "api", "42"],
        format!("*22\r\n{}{}", ALLOWED.concat(), more("*12", "*1", "allow", 4, 0)),
    );
    client.exchange(&["RK.RESET", "api", "42"], "+OK\r\n");
    client.send(array(&["HELLO", "3"]));
    client.expect("%7\r\n$6\r\nserver\r\n$10\r\nratekeeper\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n");
    client.expect("$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
    client.exchange(
        &["RK.CHECK", "api", "42"],
        format!("%11\r\n{}{}", ALLOWED.concat(), more("%6", "*1", "allow", 4, 0)),
    );

    client.send(array(&["RK.CHECK", "api", "42", "COST", "5"]));
    client.expect("%11\r\n$7\r\nverdict\r\n$4\r\ndeny\r\n$7\r\nwait_us\r\n:0\r\n$14\r\nretry_after_us\r\n:1000000\r\n");
    client.expect(ALLOWED[1]);
    client.expect(ALLOWED[2]);
    client.expect(more("%6", "*1", "deny", 4, 1_000_000));
    client.send(array(&["RK.CHECK", "api", "42", "WAIT", "2000", "COST", "5"]));
    client
        .expect("%11\r\n$7\r\nverdict\r\n$5\r\nallow\r\n$7\r\nwait_us\r\n:1000000\r\n$14\r\nretry_after_us\r\n:0\r\n");
    client.expect("$9\r\nremaining\r\n:0\r\n$5\r\nlimit\r\n:5\r\n$14\r\nreset_after_us\r\n:6000000\r\n");
    client.expect(ALLOWED[2]);
    client.expect(more("%6", "*1", "allow", 0, 0).replace("us\r\n:1000000\r\n", "us\r\n:6000000\r\n"));
    client.send(array(&["RK.CHECK", "api", "42", "COST", "6"]));
    client.expect("%11\r\n$7\r\nverdict\r\n$5\r\nnever\r\n$7\r\nwait_us\r\n:0\r\n$14\r\nretry_after_us\r\n_\r\n");
}

#[test]
fn a_refund_returns_permits_and_reports_the_key() {
    let server = Server::start();
    let mut client = server.client();
    client.send(array(&["RK.CHECK", "api", "42", "COST", "3"]));
    client.expect("*22\r\n$7\r\nverdict\r\n$5\r\nallow\r\n");
    let mut other = server.client();
    other.exchange(
        &["RK.REFUND", "api", "42", "COST", "2"],
        format!("*22\r\n{}{}", ALLOWED.concat(), more("*12", "*1", "allow", 4, 0)),
    );
}

#[test]
fn an_unknown_domain_is_allowed_without_numbers() {
    let server = Server::start();
    let mut client = server.client();
    client.send(array(&["RK.CHECK", "nowhere", "42"]));
    client.expect("*22\r\n$7\r\nverdict\r\n$5\r\nallow\r\n$7\r\nwait_us\r\n:0\r\n$14\r\nretry_after_us\r\n:0\r\n");
    client.expect("$9\r\nremaining\r\n$-1\r\n$5\r\nlimit\r\n$-1\r\n$14\r\nreset_after_us\r\n:0\r\n");
    client.expect("$10\r\ndecided_by\r\n$-1\r\n$6\r\nsource\r\n$14\r\nunknown_domain\r\n");
    client.expect("$6\r\npolicy\r\n$-1\r\n$5\r\nat_us\r\n$-1\r\n$5\r\nrules\r\n*0\r\n");
}

#[test]
fn connection_commands_are_answered() {
    let server = Server::start();
    let mut client = server.client();
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
    client.exchange(&["PING", "hi"], "$2\r\nhi\r\n");
    client.exchange(&["ECHO", "a\r\nb"], "$4\r\na\r\nb\r\n");
    client.exchange(&["CLIENT", "SETINFO", "LIB-NAME", "x"], "+OK\r\n");
    client.exchange(&["CLIENT", "SETNAME", "me"], "+OK\r\n");
    client.exchange(&["client", "getname"], "$2\r\nme\r\n");
    client.exchange(&["CLIENT", "ID"], ":1\r\n");
    client.exchange(&["CONFIG", "GET", "save"], "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
    client.exchange(&["CONFIG", "GET", "maxmemory"], "*0\r\n");
    client.exchange(&["SELECT", "0"], "+OK\r\n");
    client.exchange(&["COMMAND", "COUNT"], ":32\r\n");
    client.exchange(
        &["COMMAND", "INFO", "cl.throttle", "get"],
        "*2\r\n*10\r\n$11\r\ncl.throttle\r\n:-5\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n$-1\r\n",
    );
    client.exchange(&["RESET"], "+RESET\r\n");
    client.exchange(&["CLIENT", "GETNAME"], "$0\r\n\r\n");
    client.exchange(&["QUIT"], "+OK\r\n");
    assert_eq!(client.expect_end(), "");
}

/// Many commands in one packet, and one command in many packets.
#[test]
fn pipelines_are_answered_in_order() {
    let server = Server::start();
    let mut client = server.client();
    let mut commands = Vec::new();
    let mut expected = String::new();
    for round in 0..3_000 {
        commands.extend(array(&["CL.THROTTLE", &format!("key:{round}"), "9", "1", "1"]));
        commands.extend(array(&["ECHO", &round.to_string()]));
        expected.push_str(&five([0, 10, 9, -1, 1]));
        expected.push_str(&format!("${}\r\n{round}\r\n", round.to_string().len()));
    }
    commands.extend_from_slice(b"\r\n*0\r\nPING\r\n");
    expected.push_str("+PONG\r\n");
    let mut writer = client.try_clone_end();
    let sender = std::thread::spawn(move || writer.send(commands));
    client.expect(expected);
    sender.join().unwrap();

    for byte in array(&["CL.THROTTLE", "slow", "9", "1", "1"]) {
        client.send([byte]);
    }
    client.expect(five([0, 10, 9, -1, 1]));
}

#[test]
fn shutdown_answers_received_commands_and_closes() {
    let server = Server::start();
    let mut client = server.client();
    client.exchange(&["PING"], "+PONG\r\n");
    server.stop();
    assert_eq!(client.expect_end(), "");
}

/// Clients choose the limits, so the least recently used one makes room for a new one. Its counts are kept.
#[test]
fn an_inline_limit_beyond_the_4096th_takes_the_place_of_another() {
    let server = Server::start();
    let mut client = server.client();
    client.exchange(&["CL.THROTTLE", "v", "9", "1", "3600", "4"], five([0, 10, 6, -1, 14_400]));
    for count in 2..=9_000 {
        let numbers = Throttle { burst: 10, count, period: Span::HOUR };
        let _ = server.engine.now(|| server.engine.throttle("u", numbers, 0)).unwrap().unwrap();
    }
    assert!(server.engine.telemetry().evicted_inline_limits.get() > 4_000);
    client.exchange(&["CL.THROTTLE", "v", "9", "1", "3600"], five([0, 10, 5, -1, 18_000]));
}
