//! `HEAD`: the header fields of `GET`, without a body.

use std::{
    io::{Read, Write},
    net::SocketAddr,
};

use crate::{
    client::{ask, connect},
    fixture::Fixture,
    http2::Http2Client,
};

/// Paths of the data port (true) and the admin port, and the status of a `GET`.
const PATHS: [(bool, &str, u16); 12] = [
    (true, "/v1/auth?cost=0", 200),
    (true, "/v1/auth?cost=9", 429),
    (true, "/v1/openapi.json", 200),
    (true, "/v1/check", 405),
    (true, "/v1/nix", 404),
    (false, "/", 200),
    (false, "/page/main.js", 200),
    (false, "/healthz", 200),
    (false, "/readyz", 200),
    (false, "/metrics", 200),
    (false, "/api/state", 200),
    (false, "/api/overrides", 200),
];

fn ports(fixture: &Fixture) -> impl Iterator<Item = (SocketAddr, &'static str, u16)> {
    let (data, admin) = (fixture.http, fixture.admin);
    PATHS.into_iter().map(move |(is_data, path, status)| (if is_data { data } else { admin }, path, status))
}

/// Whether client responses have the same length; counters change between requests.
fn is_constant(path: &str) -> bool {
    !["/metrics", "/api/state"].contains(&path)
}

#[test]
fn over_http_1_head_is_answered_wherever_get_is() {
    let fixture = Fixture::new();
    for (port, path, status) in ports(&fixture) {
        let get = ask(port, "GET", path, &[], b"");
        let mut stream = connect(port);
        write!(stream, "HEAD {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut head = String::new();
        stream.read_to_string(&mut head).unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")) && head.ends_with("\r\n\r\n"), "{path}: {head}");
        assert_eq!(get.status, status, "{path}");
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        assert_eq!(field("content-type"), get.header("content-type"), "{path}");
        assert_eq!(field("allow"), get.header("allow"), "{path}");
        assert!(field("content-length").is_some(), "{path}: {head}");
        if is_constant(path) {
            assert_eq!(field("content-length"), get.header("content-length"), "{path}");
        }
    }
}

#[test]
fn over_http_2_head_has_no_data() {
    let fixture = Fixture::new();
    fixture.runtime.block_on(async {
        for (port, path, status) in ports(&fixture) {
            let mut client = Http2Client::connect(port).await;
            let uri = format!("http://localhost{path}");
            let get = client.ask("GET", &uri, b"").await.unwrap();
            let head = client.ask("HEAD", &uri, b"").await.unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!((get.status, head.status), (status, status), "{path}");
            assert_eq!(head.body.unwrap_or_else(|error| panic!("{path}: {error}")), b"", "{path}");
            assert_eq!(head.headers.get("content-type"), get.headers.get("content-type"), "{path}");
            let length = head.headers.get("content-length").unwrap_or_else(|| panic!("{path}: no length"));
            if is_constant(path) {
                assert_eq!(length.to_str().unwrap(), get.body.unwrap().len().to_string(), "{path}");
            }
        }
    });
}

#[test]
fn allow_lists_all_methods_of_a_path() {
    let fixture = Fixture::new();
    for (port, path, allowed) in [
        (fixture.http, "/v1/openapi.json", "GET, HEAD"),
        (fixture.http, "/v1/check", "POST"),
        (fixture.admin, "/", "GET, HEAD"),
        (fixture.admin, "/metrics", "GET, HEAD"),
        (fixture.admin, "/api/switches", "GET, HEAD, POST"),
        (fixture.admin, "/api/overrides", "GET, HEAD, POST, DELETE"),
        (fixture.admin, "/api/reload", "POST"),
    ] {
        let reply = ask(port, "PUT", path, &[], b"");
        reply.is_problem(405, "use ");
        assert_eq!(reply.header("allow"), Some(allowed), "{path}");
    }
}
