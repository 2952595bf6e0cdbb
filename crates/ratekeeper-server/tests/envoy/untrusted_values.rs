//! Untrusted header values cannot bypass a limit, although the example lets requests pass on errors, Envoy's default.

use ratekeeper_testkit::servers::http_get_bytes;

use crate::edge::{ALLOWED, EDGE, ERROR, Edge};

#[test]
fn no_header_value_turns_a_denial_into_an_error_that_passes() {
    let edge = Edge::start();
    let port = edge.envoy.port(EDGE);
    let status = |path: &str, headers: &[(&str, &[u8])]| http_get_bytes(port, path, headers).unwrap().status;
    let before = (edge.envoy.counter(ERROR), edge.envoy.counter(ALLOWED));
    let bob: (&str, &[u8]) = ("x-user", b"bob");
    for _ in 0..10 {
        assert_eq!(status("/", &[bob]), 200);
    }
    assert_eq!(status("/", &[bob]), 429);

    let long = vec![b'a'; 5_000];
    // Close to the longest header that Envoy accepts. Each value is in two descriptors.
    let longest = vec![b'a'; 50_000];
    for (what, odd) in [
        ("a long value", ("x-budget", long.as_slice())),
        ("bytes that are no text", ("x-budget", b"\xff\xfe")),
        ("nothing", ("x-budget", b"")),
        ("more than a message of the usual length holds", ("x-bytes-of", longest.as_slice())),
    ] {
        assert_eq!(status("/", &[bob, odd]), 429, "{what} elsewhere does not help");
    }
    for bytes in [b"99999999999999999999999".as_slice(), b"1000000000", b"9999999999", b"-1", b"many", b"\xff"] {
        let odd = [bob, ("x-bytes-of", b"zed"), ("x-bytes", bytes)];
        assert_eq!(status("/", &odd), 429, "nor does an amount of {}", bytes.escape_ascii());
    }
    let query = format!("/export?{}", "a".repeat(5_000));
    assert_eq!(status(&query, &[bob]), 429, "nor does a long path");

    for value in [long.as_slice(), b"\xff\xfe", b"bob\xff", &longest] {
        for _ in 0..10 {
            assert_eq!(status("/", &[("x-user", value)]), 200);
        }
        assert_eq!(status("/", &[("x-user", value)]), 429, "{} bytes are limited like any name", value.len());
    }
    assert_eq!((edge.envoy.counter(ERROR), edge.envoy.counter(ALLOWED)), before, "every question had an answer");
}
