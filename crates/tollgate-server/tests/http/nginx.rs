//! Real nginx in front, asking by `auth_request` with the configuration that stands in `examples/nginx`.

use std::{fs, path::Path, time::Duration};

use tollgate_server::security::{RequiredSecret, Secret};
use tollgate_testkit::servers::{HttpReply, Part, Process, http_get, http_get_bytes, require, wait_until};

use crate::desk::Desk;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/nginx");

struct Edge {
    desk: Desk,
    port: u16,
    _nginx: Process,
}

/// The example as it stands, but for ports and places that are the test's own.
fn edge() -> Edge {
    edge_with(None, |text| text)
}

/// The same with a secret at `/v1/auth`, and with changes to the example.
fn edge_with(secret: Option<&str>, change: impl FnOnce(String) -> String) -> Edge {
    let desk = Desk::start(|_, config| {
        config.rules = vec![Path::new(EXAMPLE).join("rules.yaml")];
        config.auth.secret = RequiredSecret::new(secret.map(Secret::new));
    });
    let (port, upstream) = (Process::free_port(), Process::free_port());
    let text = fs::read_to_string(Path::new(EXAMPLE).join("nginx.conf")).unwrap();
    let text = text
        .replace("127.0.0.1:8080", &desk.http.to_string())
        .replace("127.0.0.1:8000", &format!("127.0.0.1:{port}"))
        .replace("127.0.0.1:8001", &format!("127.0.0.1:{upstream}"));
    desk.write("nginx.conf", &change(text));
    let (conf, home) = (desk.path("nginx.conf"), desk.folder.path().display().to_string());
    // One process: workers would outlive a master that is killed.
    let alone = "daemon off; master_process off; pid nginx.pid;";
    let words = ["-p", &home, "-c", conf.to_str().unwrap(), "-e", "stderr", "-g", alone];
    let nginx = Process::new(require(Part::Nginx), words);
    nginx.start();
    let up = || http_get(port, "/free", &[]).is_ok_and(|reply| reply.status == 200);
    wait_until("nginx answers", Duration::from_secs(20), || {
        assert!(nginx.is_running(), "{}", nginx.log());
        up()
    });
    Edge { desk, port, _nginx: nginx }
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
        let told = reply.header("ratelimit").unwrap();
        assert!(told.contains(&format!("r={left}")), "{told}");
    }
    let denied = get(&edge, "/api/things", "alice");
    assert_eq!(denied.status, 429, "{denied:?}");
    let wait: u32 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1 && denied.header("ratelimit").is_some(), "{denied:?}");
    assert_eq!(get(&edge, "/api/things", "bob").status, 200, "others are not concerned");
    assert_eq!(get(&edge, "/free", "alice").status, 200, "nor is what nobody limits");
}

/// The example lets requests pass when tollgate cannot be asked; no header may make it look like that.
#[test]
fn no_header_makes_nginx_let_pass_what_is_over_the_limit() {
    let edge = edge();
    let status = |headers: &[(&str, &[u8])]| http_get_bytes(edge.port, "/api/things", headers).unwrap().status;
    let long = vec![b'k'; 7_000];
    for key in [long.as_slice(), b"\xff\xfe"] {
        let seen: Vec<u16> = (0..6).map(|_| status(&[("x-api-key", key)])).collect();
        assert_eq!(seen, [200, 200, 200, 200, 200, 429], "{} bytes", key.len());
    }
    // Beyond our bounds for a head, and within those of nginx: refused, if not as politely.
    let (key, wide) = (("x-api-key", b"\xff\xfe".as_slice()), ("x-wide", long.as_slice()));
    assert_eq!(status(&[key, wide, wide, wide]), 500, "21 KB of fields");
    let many: Vec<_> = std::iter::repeat_n(("x-many", b"x".as_slice()), 150).chain([key]).collect();
    assert_eq!(status(&many), 500, "150 fields");
}

/// nginx passes the fields of its client's browser on: they must not turn into a refusal.
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

/// Without the line of the example that sends the secret, nginx is refused; a page at the port itself always is.
#[test]
fn nginx_presents_the_secret_of_auth() {
    let line = "proxy_set_header X-Tollgate-Secret \"s3cret-0123456789\";";
    let commented = "# proxy_set_header X-Tollgate-Secret \"the first line of that file\";";
    let edge = edge_with(Some("s3cret-0123456789"), |text| {
        assert!(text.contains(commented));
        text.replace(commented, line)
    });
    let seen: Vec<u16> = (0..6).map(|_| get(&edge, "/api/things", "alice").status).collect();
    assert_eq!(seen, [200, 200, 200, 200, 200, 429]);
    edge.desk.get("/v1/auth?domain=edge&entry=api_key:value:bob", &[]).is_problem(403, "X-Tollgate-Secret");
    let without = edge_with(Some("s3cret-0123456789"), |text| text);
    assert_eq!(get(&without, "/api/things", "alice").status, 429, "refused, not let through");
}

/// The limiter goes away: the example lets requests pass rather than stop the site.
#[test]
fn nginx_goes_on_when_the_limiter_is_gone() {
    let mut edge = edge();
    edge.desk.stopper.stop();
    let server = edge.desk.server.take().unwrap();
    edge.desk.runtime.block_on(server.finished());
    assert_eq!(get(&edge, "/api/things", "alice").status, 200);
}
