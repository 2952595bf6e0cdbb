//! Cross-site requests and DNS rebinding: pages of other sites change no limit, and unknown host names reach no port
//! on loopback.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    thread,
};

use ratekeeper_server::{
    config::AllowedHosts,
    security::{RequiredSecret, Secret},
};
use ratekeeper_testkit::servers::Browser;
use serde_json::Value;

use crate::{
    client::{ask, raw},
    fixture::Fixture,
    http2::Http2Client,
};

const U: &str = r#"{"domain":"api","key":"u"}"#;
/// A body for each path that changes state.
const CHANGES: [(&str, &str); 7] = [
    ("/v1/check", U),
    ("/v1/penalize", r#"{"domain":"api","key":"u","cost":3}"#),
    ("/v1/refund", U),
    ("/v1/settle", r#"{"domain":"api","key":"u","reserved":0,"actual":2}"#),
    ("/v1/reset", U),
    ("/v1/release", r#"{"domain":"api","descriptor":{"job":"j"}}"#),
    ("/v1/heartbeat", r#"{"domain":"api","descriptor":{"job":"j"},"lease":1}"#),
];
/// Header fields that browsers add to a request of a page of another site.
const FOREIGN: [&[(&str, &str)]; 6] = [
    &[("sec-fetch-site", "cross-site"), ("origin", "https://evil.example"), ("content-type", "text/plain")],
    &[("sec-fetch-site", "same-site"), ("origin", "http://localhost:3000"), ("content-type", "application/json")],
    &[("sec-fetch-site", "cross-site")],
    &[("origin", "null")],
    &[("origin", "https://evil.example"), ("content-type", "application/x-www-form-urlencoded")],
    &[("origin", "http://localhost:1")],
];

fn remaining(fixture: &Fixture) -> Value {
    fixture.post("/v1/peek", U).json()["remaining"].clone()
}

#[test]
fn what_a_browser_sends_for_another_site_changes_nothing() {
    let fixture = Fixture::new();
    fixture.check(U);
    for (path, body) in CHANGES.into_iter().chain([("/v1/peek", U)]) {
        for fields in FOREIGN {
            let reply = ask(fixture.http, "POST", path, fields, body.as_bytes());
            reply.is_problem(403, "page of another site");
            assert_eq!(reply.header("access-control-allow-origin"), None);
        }
        for kind in ["text/plain", "text/plain;charset=UTF-8", "multipart/form-data; boundary=b", "TEXT/PLAIN"] {
            let reply = ask(fixture.http, "POST", path, &[("content-type", kind)], body.as_bytes());
            reply.is_problem(415, "application/json");
        }
    }
    assert_eq!(remaining(&fixture), 2);
    assert_eq!(fixture.metric("ratekeeper_bad_requests_total{wire=\"http\"}"), Some(80.0), "each is counted");
}

#[test]
fn the_same_holds_over_http_2() {
    let fixture = Fixture::new();
    fixture.check(U);
    fixture.runtime.block_on(async {
        let mut data = Http2Client::connect(fixture.http).await;
        for (path, body) in CHANGES {
            let uri = format!("http://localhost{path}");
            for fields in FOREIGN {
                let response = data.ask_with("POST", &uri, fields, body.as_bytes()).await.unwrap();
                assert_eq!(response.status, 403, "{path} {fields:?}");
            }
            for host in ["evil.example", "evil.example:80"] {
                let uri = format!("http://{host}{path}");
                assert_eq!(data.ask("POST", &uri, body.as_bytes()).await.unwrap().status, 403, "{uri}");
            }
        }
        let own = [("sec-fetch-site", "same-origin"), ("origin", "http://localhost")];
        let response = data.ask_with("POST", "http://localhost/v1/check", &own, U.as_bytes()).await.unwrap();
        assert_eq!(response.status, 200, "a page of this server itself");
    });
    assert_eq!(remaining(&fixture), 1);
}

/// Programs send none of those fields. The content type of curl, none, and JSON pass.
#[test]
fn programs_are_not_affected() {
    let fixture = Fixture::new();
    let json = ("content-type", "application/json; charset=utf-8");
    let curl = ("content-type", "application/x-www-form-urlencoded");
    for fields in [&[json][..], &[curl], &[], &[("user-agent", "curl/8"), ("sec-fetch-mode", "cors")]] {
        assert_eq!(ask(fixture.http, "POST", "/v1/peek", fields, U.as_bytes()).status, 200, "{fields:?}");
    }
}

fn by_name(server: SocketAddr, method: &str, path: &str, host: &str, body: &str) -> crate::client::Reply {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    raw(server, request.as_bytes()).unwrap()
}

/// DNS rebinding: the host name of the page resolves to this machine, so its requests are same-origin.
#[test]
fn a_port_on_loopback_answers_to_names_of_this_machine_only() {
    let fixture = Fixture::new();
    for host in ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.1.2.3"] {
        for (path, body) in CHANGES {
            by_name(fixture.http, "POST", path, host, body).is_problem(403, "--allowed-hosts");
        }
        by_name(fixture.http, "GET", "/v1/openapi.json", host, "").is_problem(403, "--allowed-hosts");
        by_name(fixture.admin, "GET", "/api/state", host, "").is_problem(403, "--allowed-hosts");
        by_name(fixture.admin, "POST", "/api/switches", host, r#"{"set":"off"}"#).is_problem(403, "--allowed-hosts");
        assert_eq!(by_name(fixture.admin, "GET", "/healthz", host, "").status, 200, "probes excepted");
    }
    by_name(fixture.http, "POST", "/v1/peek", "evil.example\u{202e}", U).is_problem(400, "the Host field");
    for host in ["localhost", "LocalHost:1", "127.0.0.1:8080", "127.8.8.8", "[::1]:8080"] {
        assert_eq!(by_name(fixture.http, "POST", "/v1/peek", host, U).status, 200, "{host}");
    }
    assert_eq!(remaining(&fixture), 3);
}

#[test]
fn allowed_hosts_are_answered_to_and_a_star_allows_all() {
    let fixture = Fixture::with(|config| config.allowed_hosts = AllowedHosts::new(["limits.internal"]).unwrap());
    assert_eq!(by_name(fixture.http, "POST", "/v1/peek", "Limits.Internal:8080", U).status, 200);
    assert_eq!(by_name(fixture.admin, "GET", "/api/state", "limits.internal", "").status, 200);
    by_name(fixture.http, "POST", "/v1/peek", "evil.example", U).is_problem(403, "evil.example");
    let fixture = Fixture::with(|config| config.allowed_hosts = AllowedHosts::new(["*"]).unwrap());
    assert_eq!(by_name(fixture.http, "POST", "/v1/peek", "evil.example", U).status, 200);
}

/// A port that is open to a network is reached by names that the server does not know.
#[test]
fn other_ports_check_names_only_if_some_are_given() {
    let everywhere = Some(SocketAddr::from(([0, 0, 0, 0], 0)));
    let local = |bound: SocketAddr| SocketAddr::from(([127, 0, 0, 1], bound.port()));
    let fixture = Fixture::with(|config| config.http = everywhere);
    assert_eq!(by_name(local(fixture.http), "POST", "/v1/peek", "ratekeeper.svc.cluster.local", U).status, 200);
    let fixture = Fixture::with(|config| {
        config.http = everywhere;
        config.allowed_hosts = AllowedHosts::new(["limits.internal"]).unwrap();
    });
    assert_eq!(by_name(local(fixture.http), "POST", "/v1/peek", "limits.internal", U).status, 200);
    assert_eq!(
        by_name(local(fixture.http), "POST", "/v1/peek", "10.1.2.3:8080", U).status,
        200,
        "an address is no name"
    );
    by_name(local(fixture.http), "POST", "/v1/peek", "evil.example", U).is_problem(403, "--allowed-hosts");
}

/// The response to a CORS preflight grants nothing.
#[test]
fn a_preflight_gets_no_permission() {
    let fixture = Fixture::new();
    let fields = [
        ("origin", "https://evil.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type"),
    ];
    for (server, path) in
        [(fixture.http, "/v1/check"), (fixture.http, "/v1/penalize"), (fixture.admin, "/api/switches")]
    {
        let reply = ask(server, "OPTIONS", path, &fields, b"");
        assert_eq!(reply.status, 405, "{path}");
        assert!(!reply.headers.iter().any(|(name, _)| name.starts_with("access-control-")), "{reply:?}");
    }
}

#[test]
fn the_admin_port_refuses_other_sites_as_well() {
    let fixture = Fixture::new();
    for fields in FOREIGN {
        let fields: Vec<_> = fields
            .iter()
            .copied()
            .filter(|field| field.0 != "content-type")
            .chain([("content-type", "application/json")])
            .collect();
        ask(fixture.admin, "POST", "/api/switches", &fields, br#"{"set":"off"}"#)
            .is_problem(403, "page of another site");
    }
    assert_eq!(fixture.check(U)["verdict"], "allow");
}

/// A proxy forwards the header fields of its client's browser, so `/v1/auth` ignores them and checks a secret.
#[test]
fn proxies_present_a_secret_where_one_is_required() {
    let fixture = Fixture::new();
    let browser = [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")];
    assert_eq!(fixture.get("/v1/auth", &browser).status, 200);
    assert_eq!(by_name(fixture.http, "GET", "/v1/auth", "shop.example", "").status, 200, "nginx may pass the name on");
    let fixture = Fixture::with(|config| config.auth.secret = RequiredSecret::new(Some(Secret::new("s3cret"))));
    for fields in [&browser[..], &[], &[("x-ratekeeper-secret", "wrong")], &[("x-ratekeeper-secret", "")]] {
        let reply = fixture.get("/v1/auth", fields);
        reply.is_problem(403, "X-Ratekeeper-Secret");
        assert!(!reply.body.contains("s3cret"));
    }
    assert_eq!(fixture.metric("ratekeeper_refused_tokens_total{wire=\"http\"}"), Some(4.0));
    let with_secret: Vec<_> = browser.into_iter().chain([("x-ratekeeper-secret", "s3cret")]).collect();
    assert_eq!(fixture.get("/v1/auth", &with_secret).status, 200);
    assert_eq!(fixture.post("/v1/check", U).status, 200, "the other paths need none");
}

/// Serves an empty page on another port, which is another origin.
fn page() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let page = "<!doctype html><title>another site</title><body></body>";
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{page}",
                    page.len()
                );
            });
        }
    });
    port
}

/// Requests that a page can send, without a CORS preflight and with one. `arguments[0]` is the data port,
/// `arguments[1]` the admin port.
const ATTACK: &str = r#"
  const server = arguments[0], admin = arguments[1];
  const tried = [];
  const send = (what, promise) => promise.then(
    reply => tried.push(`${what}: ${reply.type} ${reply.status}`), error => tried.push(`${what}: ${error}`));
  const body = '{"domain":"api","key":"u","cost":3}';
  const all = [];
  for (const path of ["check", "penalize", "reset"]) {
    const url = `${server}/v1/${path}`;
    all.push(send("plain", fetch(url, { method: "POST", mode: "no-cors", body })));
    all.push(send("form type", fetch(url, { method: "POST", mode: "no-cors", body,
      headers: { "content-type": "application/x-www-form-urlencoded" } })));
    all.push(send("no type", fetch(url, { method: "POST", mode: "no-cors", body: new Blob([body]) })));
    all.push(send("no referrer", fetch(url, { method: "POST", mode: "no-cors", body, referrerPolicy: "no-referrer" })));
    all.push(send("json", fetch(url, { method: "POST", body, headers: { "content-type": "application/json" } })));
    navigator.sendBeacon(url, body);
    for (const enctype of ["text/plain", "application/x-www-form-urlencoded"]) {
      all.push(new Promise(done => {
        const frame = document.createElement("iframe");
        frame.name = `f${Math.random()}`;
        document.body.append(frame);
        const form = document.createElement("form");
        Object.assign(form, { action: url, method: "POST", enctype, target: frame.name });
        const input = document.createElement("input");
        input.name = '{"domain":"api","key":"u","cost":3,"domain2":"';
        input.value = '"}';
        form.append(input);
        document.body.append(form);
        frame.addEventListener("load", () => done());
        form.submit();
      }));
    }
  }
  all.push(send("switch", fetch(`${admin}/api/switches`, { method: "POST", mode: "no-cors", body: '{"set":"off"}' })));
  all.push(new Promise(done => {
    const image = new Image();
    image.onload = image.onerror = () => done();
    image.src = `${server}/v1/auth?domain=api&entry=key:value:u&cost=3`;
  }));
  return Promise.all(all).then(() => tried.join("\n"));
"#;

/// In a real browser, a page of another site or another port neither spends nor resets permits.
#[test]
fn a_page_in_chromium_spends_nothing() {
    let fixture = Fixture::with(|config| config.auth.secret = RequiredSecret::new(Some(Secret::new("s3cret"))));
    fixture.check(U);
    let other = page();
    let browser = Browser::start();
    let (server, admin) =
        (format!("http://127.0.0.1:{}", fixture.http.port()), format!("http://127.0.0.1:{}", fixture.admin.port()));
    for site in ["localhost", "127.0.0.1"] {
        browser.open(&format!("http://{site}:{other}/"));
        let tried = browser.script(ATTACK, &[&server, &admin]);
        assert!(tried.as_str().unwrap().contains("plain: opaque"), "the requests were sent: {tried}");
        assert_eq!(remaining(&fixture), 2, "{site}: {tried}");
        assert_eq!(fixture.admin_get("/api/switches").json()["everything_off"], false);
    }
}

/// DNS rebinding in a real browser: the page is same-origin with the port, and can neither spend nor read.
#[test]
fn a_rebound_name_in_chromium_spends_and_reads_nothing() {
    let fixture = Fixture::new();
    fixture.check(U);
    let browser = Browser::start_with(&["--host-resolver-rules=MAP evil.example 127.0.0.1"]);
    browser.open(&format!("http://evil.example:{}/v1/openapi.json", fixture.http.port()));
    let script = r#"return fetch("/v1/penalize", { method: "POST", headers: { "content-type": "application/json" },
      body: '{"domain":"api","key":"u","cost":3}' }).then(reply => reply.text())"#;
    let read = browser.script(script, &[]);
    assert!(
        read.as_str().unwrap().contains("--allowed-hosts") && !read.as_str().unwrap().contains("remaining"),
        "{read}"
    );
    assert_eq!(remaining(&fixture), 2);
}
