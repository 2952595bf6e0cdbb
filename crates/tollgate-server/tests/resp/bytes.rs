//! Bytes in, bytes out.

use tollgate_core::Micros;
use tollgate_server::engine::Throttle;

use crate::support::{Server, array, five};

#[test]
fn cl_throttle_answers_as_redis_cell_does() {
    let server = Server::start();
    let mut client = server.client();
    let call = ["CL.THROTTLE", "u", "2", "30", "60"];
    client.asks(&call, five([0, 3, 2, -1, 2]));
    client.asks(&call, five([0, 3, 1, -1, 4]));
    client.asks(&call, five([0, 3, 0, -1, 6]));
    client.asks(&call, five([1, 3, 0, 2, 6]));
    server.clock.advance(Micros(500_000));
    client.asks(&call, five([1, 3, 0, 2, 6])); // 1.5 s and 5.5 s, rounded up
    client.asks(&["cl.throttle", "u", "2", "30", "60", "0"], five([0, 3, 0, -1, 6])); // a look is always allowed
    client.asks(&["CL.THROTTLE", "u", "2", "30", "60", "4"], five([1, 3, 0, -1, 6])); // more than there can be
    server.clock.advance(Micros(5_500_000));
    client.asks(&["CL.THROTTLE", "u", "2", "30", "60", "2"], five([0, 3, 1, -1, 4]));
}

#[test]
fn throttle_answers_in_throttlecrabs_order() {
    let server = Server::start();
    let mut client = server.client();
    client.asks(&["THROTTLE", "u", "3", "30", "60", "2"], five([1, 3, 1, 4, 0]));
    client.asks(&["THROTTLE", "u", "3", "30", "60", "2"], five([0, 3, 1, 4, 2]));
    client.asks(&["THROTTLE", "u", "3", "30", "60", "4"], five([0, 3, 1, 4, -1]));
}

#[test]
fn gcra_takes_decimals_and_tokens() {
    let server = Server::start();
    let mut client = server.client();
    client.asks(&["GCRA", "u", "1", "1", "1.5"], five([0, 2, 1, -1, 2]));
    client.asks(&["GCRA", "u", "1", "1", "1.5", "TOKENS", "2"], five([1, 2, 1, 2, 2]));
    client.asks(&["GCRA", "u", "1", "1", "1.5", "tokens", "1"], five([0, 2, 0, -1, 3]));
    client.send(array(&["GCRA", "u", "1", "1", "1.5", "NUM", "0"]));
    client.hears_error("ERR syntax error at 'NUM'");
}

/// The table of Redis' own tests of the command, and amounts at the edges of 64 bits.
#[test]
fn gcra_refuses_what_redis_refuses_in_its_words() {
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
        client.hears_error(words);
    }
    // Far more than the burst, and no overflow: never, and nothing is charged.
    client.asks(&["GCRA", "u", "2", "1", "1", "TOKENS", "2000000000000"], five([1, 3, 3, -1, 0]));
    // An interval below a microsecond is one.
    client.asks(&["GCRA", "u", "2", MOST, "1"], five([0, 3, 2, -1, 1]));
}

/// One meter per key: what is kept is the moment at which it is as good as new.
#[test]
fn a_key_asked_with_other_numbers_is_the_same_key() {
    let server = Server::start();
    let mut client = server.client();
    client.asks(&["CL.THROTTLE", "u", "9", "60", "60", "5"], five([0, 10, 5, -1, 5]));
    client.asks(&["CL.THROTTLE", "u", "1", "60", "60"], five([1, 2, 0, 4, 5]));
    client.asks(&["CL.THROTTLE", "u", "1", "60", "60", "0"], five([1, 2, 0, 3, 5]));
    client.asks(&["THROTTLE", "u", "20", "600", "60"], five([0, 20, 0, 5, 4]));
    server.clock.advance(Micros(4_000_000));
    client.asks(&["CL.THROTTLE", "u", "1", "60", "60"], five([0, 2, 0, -1, 2]));
    client.asks(&["GCRA", "u", "29", "600", "60", "TOKENS", "10"], five([0, 30, 0, -1, 3]));
}

const ALLOWED: [&str; 3] = [
    "$7\r\nverdict\r\n$5\r\nallow\r\n$7\r\nwait_us\r\n:0\r\n$14\r\nretry_after_us\r\n:0\r\n",
    "$9\r\nremaining\r\n:4\r\n$5\r\nlimit\r\n:5\r\n$14\r\nreset_after_us\r\n:1000000\r\n",
    "$10\r\ndecided_by\r\n$5\r\nburst\r\n$6\r\nsource\r\n$5\r\nstore\r\n",
];

#[test]
fn tg_check_tells_the_fields_of_the_http_answer() {
    let server = Server::start();
    let mut client = server.client();
    client.asks(&["TG.CHECK", "api", "42"], format!("*16\r\n{}", ALLOWED.concat()));
    client.asks(&["TG.RESET", "api", "42"], "+OK\r\n");
    client.send(array(&["HELLO", "3"]));
    client.hears("%7\r\n$6\r\nserver\r\n$8\r\ntollgate\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n");
    client.hears("$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
    client.asks(&["TG.CHECK", "api", "42"], format!("%8\r\n{}", ALLOWED.concat()));

    client.send(array(&["TG.CHECK", "api", "42", "COST", "5"]));
    client.hears("%8\r\n$7\r\nverdict\r\n$4\r\ndeny\r\n$7\r\nwait_us\r\n:0\r\n$14\r\nretry_after_us\r\n:1000000\r\n");
    client.hears(ALLOWED[1]);
    client.hears(ALLOWED[2]);
    client.send(array(&["TG.CHECK", "api", "42", "WAIT", "2000", "COST", "5"]));
    client.hears("%8\r\n$7\r\nverdict\r\n$5\r\nallow\r\n$7\r\nwait_us\r\n:1000000\r\n$14\r\nretry_after_us\r\n:0\r\n");
    client.hears("$9\r\nremaining\r\n:0\r\n$5\r\nlimit\r\n:5\r\n$14\r\nreset_after_us\r\n:6000000\r\n");
    client.hears(ALLOWED[2]);
    client.send(array(&["TG.CHECK", "api", "42", "COST", "6"]));
    client.hears("%8\r\n$7\r\nverdict\r\n$5\r\nnever\r\n$7\r\nwait_us\r\n:0\r\n$14\r\nretry_after_us\r\n_\r\n");
}

#[test]
fn a_refund_gives_back_and_says_how_the_key_stands() {
    let server = Server::start();
    let mut client = server.client();
    client.send(array(&["TG.CHECK", "api", "42", "COST", "3"]));
    client.hears("*16\r\n$7\r\nverdict\r\n$5\r\nallow\r\n");
    let mut other = server.client();
    other.asks(&["TG.REFUND", "api", "42", "COST", "2"], format!("*16\r\n{}", ALLOWED.concat()));
}

#[test]
fn an_unknown_domain_is_allowed_without_numbers() {
    let server = Server::start();
    let mut client = server.client();
    client.send(array(&["TG.CHECK", "nowhere", "42"]));
    client.hears("*16\r\n$7\r\nverdict\r\n$5\r\nallow\r\n$7\r\nwait_us\r\n:0\r\n$14\r\nretry_after_us\r\n:0\r\n");
    client.hears("$9\r\nremaining\r\n$-1\r\n$5\r\nlimit\r\n$-1\r\n$14\r\nreset_after_us\r\n:0\r\n");
    client.hears("$10\r\ndecided_by\r\n$-1\r\n$6\r\nsource\r\n$14\r\nunknown_domain\r\n");
}

#[test]
fn clients_are_met_with_manners() {
    let server = Server::start();
    let mut client = server.client();
    client.send("PING\r\n");
    client.hears("+PONG\r\n");
    client.asks(&["PING", "hi"], "$2\r\nhi\r\n");
    client.asks(&["ECHO", "a\r\nb"], "$4\r\na\r\nb\r\n");
    client.asks(&["CLIENT", "SETINFO", "LIB-NAME", "x"], "+OK\r\n");
    client.asks(&["CLIENT", "SETNAME", "me"], "+OK\r\n");
    client.asks(&["client", "getname"], "$2\r\nme\r\n");
    client.asks(&["CLIENT", "ID"], ":1\r\n");
    client.asks(&["CONFIG", "GET", "save"], "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
    client.asks(&["CONFIG", "GET", "maxmemory"], "*0\r\n");
    client.asks(&["SELECT", "0"], "+OK\r\n");
    client.asks(&["COMMAND", "COUNT"], ":22\r\n");
    client.asks(
        &["COMMAND", "INFO", "cl.throttle", "get"],
        "*2\r\n*10\r\n$11\r\ncl.throttle\r\n:-5\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n$-1\r\n",
    );
    client.asks(&["RESET"], "+RESET\r\n");
    client.asks(&["CLIENT", "GETNAME"], "$0\r\n\r\n");
    client.asks(&["QUIT"], "+OK\r\n");
    assert_eq!(client.hears_the_end(), "");
}

/// Many commands in one packet, and one command in many packets.
#[test]
fn pipelines_are_answered_in_order() {
    let server = Server::start();
    let mut client = server.client();
    let mut asked = Vec::new();
    let mut expected = String::new();
    for round in 0..3_000 {
        asked.extend(array(&["CL.THROTTLE", &format!("key:{round}"), "9", "1", "1"]));
        asked.extend(array(&["ECHO", &round.to_string()]));
        expected.push_str(&five([0, 10, 9, -1, 1]));
        expected.push_str(&format!("${}\r\n{round}\r\n", round.to_string().len()));
    }
    asked.extend_from_slice(b"\r\n*0\r\nPING\r\n");
    expected.push_str("+PONG\r\n");
    let mut writer = client.another_end();
    let sender = std::thread::spawn(move || writer.send(asked));
    client.hears(expected);
    sender.join().unwrap();

    for byte in array(&["CL.THROTTLE", "slow", "9", "1", "1"]) {
        client.send([byte]);
    }
    client.hears(five([0, 10, 9, -1, 1]));
}

#[test]
fn a_server_that_stops_answers_what_has_arrived_and_closes() {
    let server = Server::start();
    let mut client = server.client();
    client.asks(&["PING"], "+PONG\r\n");
    server.stop();
    assert_eq!(client.hears_the_end(), "");
}

/// Callers choose the numbers, so the table of them has an end. It is told, counted, and hurts nobody else.
#[test]
fn the_4097th_set_of_numbers_is_refused_and_the_others_go_on() {
    let server = Server::start();
    for count in 1..=4_096 {
        let numbers = Throttle { burst: 10, count, period: Micros::HOUR };
        let _ = server.engine.throttle_now("u", numbers, 0).unwrap().unwrap();
    }
    let mut client = server.client();
    for command in ["CL.THROTTLE", "THROTTLE", "GCRA"] {
        client.send(array(&[command, "u", "5", "7", "11"]));
        client.hears_error("ERR more than 4096 different limits have come with requests");
    }
    assert_eq!(server.engine.telemetry().refused_numbers.get(), 3);
    client.asks(&["CL.THROTTLE", "v", "9", "1", "3600"], five([0, 10, 9, -1, 3_600]));
    client.send(array(&["TG.CHECK", "api", "u"]));
    client.hears("*16\r\n$7\r\nverdict\r\n$5\r\nallow\r\n");
}
