//! nginx in front of the server, with `auth_request` and the configuration of `examples/nginx`.

use std::{fs, path::Path, time::Duration};

use ratekeeper_server::security::{RequiredSecret, Secret};
use ratekeeper_testkit::servers::{HttpReply, Part, Process, http_get, http_get_bytes, require, wait_until};

use crate::fixture::Fixture;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/nginx");

struct Edge {
    fixture: Fixture,
    port: u16,
    _nginx: Process,
}

/// The example, with the ports and paths of the test.
fn edge() -> Edge {
    edge_with(None, |text| text)
}

/// The example with a secret at `/v1/auth`, and with changes to its text.
fn edge_with(secret: Option<&str>, change: impl FnOnce(String) -> String) -> Edge {
    let fixture = Fixture::start(|_, config| {
        config.rules = vec![Path::new(EXAMPLE).join("rules.yaml")];
        config.auth.secret = RequiredSecret::new(secret.map(Secret::new));
    });
    let (port, upstream) = (Process::free_port(), Process::free_port());
    let text = fs::read_to_string(Path::new(EXAMPLE).join("nginx.conf")).unwrap();
    let text = text
        .replace("127.0.0.1:8080", &fixture.http.to_string())
        .replace("127.0.0.1:8000", &format!("127.0.0.1:{port}"))
        .replace("127.0.0.1:8001", &format!("127.0.0.1:{upstream}"));
    fixture.write("nginx.conf", &change(text));
    let (conf, home) = (fixture.path("nginx.conf"), fixture.folder.path().display().to_string());
    // A single process: workers would outlive a killed master.
    let alone = "daemon off; master_process off; pid nginx.pid;";
    let words = ["-p", &home, "-c", conf.to_str().unwrap(), "-e", "stderr", "-g", alone];
    let nginx = Process::new(require(Part::Nginx), words);
    nginx.start();
    let up = || http_get(port, "/free", &[]).is_ok_and(|reply| reply.status == 200);
    wait_until("nginx answers", Duration::from_secs(20), || {
        assert!(nginx.is_running(), "{}", nginx.log());
        up()
    });
    Edge { fixture, port, _nginx: nginx }
}

fn get(edge: &Edge, path: &str, key: &str) -> HttpReply {
    http_get(edge.port, path, &[("x-api-key", key)]).unwrap()
}

#[test]
fn nginx_lets_pass_and_then_answers_429_with_the_wait() {
    let edge = edge();
    for left in [4, 3, 2, 1, 0] {
        let reply = get(&edge, "/api/things", "alice");
        assert_eq!(reply.status, 200, "{reply:?}");
        let field = reply.header("ratelimit").unwrap();
        assert!(field.contains(&format!("r={left}")), "{field}");
    }
    let denied = get(&edge, "/api/things", "alice");
    assert_eq!(denied.status, 429, "{denied:?}");
    let wait: u32 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1 && denied.header("ratelimit").is_some(), "{denied:?}");
    assert_eq!(get(&edge, "/api/things", "bob").status, 200, "other keys are not limited");
    assert_eq!(get(&edge, "/free", "alice").status, 200, "unlimited requests pass");
}

/// The example lets requests pass while ratekeeper is unreachable. No header may have the same effect.
#[test]
fn no_header_makes_nginx_let_pass_what_is_over_the_limit() {
    let edge = edge();
    let status = |headers: &[(&str, &[u8])]| http_get_bytes(edge.port, "/api/things", headers).unwrap().status;
    let long = vec![b'k'; 7_000];
    for key in [long.as_slice(), b"\xff\xfe"] {
        let seen: Vec<u16> = (0..6).map(|_| status(&[("x-api-key", key)])).collect();
        assert_eq!(seen, [200, 200, 200, 200, 200, 429], "{} bytes", key.len());
    }
    // Above the server's bounds for a header block, and within those of nginx: refused with status 500.
    let (key, wide) = (("x-api-key", b"\xff\xfe".as_slice()), ("x-wide", long.as_slice()));
    assert_eq!(status(&[key, wide, wide, wide]), 500, "21 KB of fields");
    let many: Vec<_> = std::iter::repeat_n(("x-many", b"x".as_slice()), 150).chain([key]).collect();
    assert_eq!(status(&many), 500, "150 fields");
}

/// nginx forwards the header fields of its client's browser; they must not cause a refusal.
#[test]
fn requests_of_browsers_pass_nginx_and_are_limited_there() {
    let edge = edge();
    let browser = [
        ("x-api-key", "alice"),
        ("host", "shop.example"),
        ("sec-fetch-site", "cross-site"),
        ("origin", "https://other.example"),
    ];
    let seen: Vec<u16> = (0..6).map(|_| http_get(edge.port, "/api/things", &browser).unwrap().status).collect();
    assert_eq!(seen, [200, 200, 200, 200, 200, 429]);
}

/// nginx is refused without the line of the example that sends the secret. A direct request without the secret is
/// refused too.
#[test]
fn nginx_presents_the_secret_of_auth() {
    let line = "proxy_set_header X-Ratekeeper-Secret \"s3cret-0123456789\";";
    let commented = "# proxy_set_header X-Ratekeeper-Secret \"the first line of that file\";";
    let edge = edge_with(Some("s3cret-0123456789"), |text| {
        assert!(text.contains(commented));
        text.replace(commented, line)
    });
    let seen: Vec<u16> = (0..6).map(|_| get(&edge, "/api/things", "alice").status).collect();
    assert_eq!(seen, [200, 200, 200, 200, 200, 429]);
    edge.fixture.get("/v1/auth?domain=edge&entry=api_key:value:bob", &[]).is_problem(403, "X-Ratekeeper-Secret");
    let without = edge_with(Some("s3cret-0123456789"), |text| text);
    assert_eq!(get(&without, "/api/things", "alice").status, 429, "refused, not let through");
}

/// While the server is down, the example lets requests pass.
#[test]
fn nginx_continues_without_the_limiter() {
    let mut edge = edge();
    edge.fixture.stopper.stop();
    let server = edge.fixture.server.take().unwrap();
    edge.fixture.runtime.block_on(server.finished());
    assert_eq!(get(&edge, "/api/things", "alice").status, 200);
}
