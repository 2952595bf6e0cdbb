//! Requests with ids over RESP: sent again, committed, cancelled; partial grants.

use crate::support::{Server, array, load};

const RULES: &str = r#"
domain: ids
policies:
  - { name: day, match: { key: "*" }, rules: [{ name: day, algorithm: fixed_window, limit: 10, per: 1d }] }
"#;

fn start() -> Server {
    let server = Server::start();
    load(&server.engine, &[RULES]);
    server
}

/// The reply as text, without frames.
fn reply(server: &Server, words: &str) -> String {
    let mut client = server.client();
    client.send(array(&words.split(' ').collect::<Vec<_>>()));
    client.send(array(&["QUIT"]));
    let reply = client.expect_end();
    let values = reply.lines().filter(|line| !line.starts_with(['$', '*']));
    values.map(|line| line.strip_prefix(':').unwrap_or(line)).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_reservation_is_charged_once_and_finished_once() {
    let server = start();
    for source in ["store", "repeated", "repeated"] {
        let text = reply(&server, "RK.RESERVE ids k ID job COST 4 LIFETIME 1000 ONEXPIRY refund");
        assert!(text.contains("remaining 6") && text.contains(&format!("source {source}")), "{text}");
    }
    for _ in 0..2 {
        let text = reply(&server, "RK.COMMIT ids k ID job ACTUAL 1");
        assert!(text.contains("remaining 9") && text.contains("granted 1"), "{text}");
    }
    let text = reply(&server, "RK.CANCEL ids k ID other");
    assert!(text.starts_with("-ERR no request with this id is known"), "{text}");
    let text = reply(&server, "RK.CHECK ids k COST 20 ATLEAST 2");
    assert!(text.contains("verdict allow") && text.contains("granted 9"), "{text}");
}

#[test]
fn mistakes_are_named() {
    let server = start();
    for (words, part) in [
        ("RK.RESERVE ids k COST 4", "wrong number of arguments"),
        ("RK.CHECK ids k LIFETIME 5", "LIFETIME is that of an ID"),
        ("RK.CHECK ids k ID a ONEXPIRY keep", "syntax error at 'ONEXPIRY'"),
        ("RK.RESERVE ids k ID a ONEXPIRY later", "syntax error at 'later'"),
        ("RK.CHECK ids k ID a ID b", "syntax error at 'ID'"),
        ("RK.COMMIT ids k ID a", "wrong number of arguments"),
        ("RK.COMMIT ids k ID a ACTUAL x", "ACTUAL"),
        ("RK.CANCEL ids k", "wrong number of arguments"),
    ] {
        let text = reply(&server, words);
        assert!(text.starts_with("-ERR") && text.contains(part), "{words}: {text}");
    }
}
