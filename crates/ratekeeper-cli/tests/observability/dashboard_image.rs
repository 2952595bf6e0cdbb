//! The image of the dashboard in the documentation.
//!
//! `RATEKEEPER_RENEW=1 cargo test -p ratekeeper-cli --test observability image` renews it, after two and a half minutes of
//! traffic. Without the variable the page is rendered after a few requests, and nothing is written.

use std::{env, fs, path::Path, thread, time::Duration};

use ratekeeper_testkit::servers::{Browser, wait_until};

use crate::server::{Server, TIMEOUT};

const RULES: &str = r#"
domain: shop
policies:
  - name: per-key
    match: { key: "*" }
    rules: [{ name: burst, algorithm: token_bucket, limit: 5, per: 1s, burst: 10 }]
  - name: per-user
    match: { user: "*" }
    rules:
      - { name: burst, algorithm: token_bucket, limit: 20, per: 1s, burst: 40 }
      - { name: day, algorithm: sliding_log, limit: 10000, per: 1d, shadow: true }
    overrides:
      - { key: acme, rules: [{ name: burst, algorithm: token_bucket, limit: 500, per: 1s }] }
  - name: login
    match: { path: /login, ip: "*" }
    rules: [{ name: minute, algorithm: fixed_window, limit: 5, per: 1m, shadow: true }]
  - name: reports
    match: { path: /reports, user: "*" }
    rules: [{ name: at-once, algorithm: concurrency, limit: 4, lease: 30s }]
"#;

/// One second of traffic: a steady part, and a peak twice a minute.
fn second(server: &Server, second: u32) {
    let height = 15 - (second % 30).abs_diff(15);
    let rounds = 4 + height.pow(3) / 200;
    for round in 0..rounds {
        server.check_as(&format!(r#""descriptor":{{"user":"{}"}}"#, ["ann", "bob", "acme"][round as usize % 3]), &[]);
        server.check_as(r#""descriptor":{"user":"ann"},"cost":6"#, &[]);
        server.check_as(&format!(r#""key":"batch-{}""#, round % 2), &[]);
        if round % 2 == 0 {
            server.check_as(r#""descriptor":{"path":"/login","ip":"198.51.100.7"}"#, &[]);
            server.check_as(r#""descriptor":{"method":"GET"}"#, &[]);
        }
        thread::sleep(Duration::from_millis(u64::from(900 / rounds)));
    }
}

#[test]
fn the_dashboard_image_can_be_renewed() {
    let renew = env::var_os("RATEKEEPER_RENEW").is_some();
    let server = Server::start(&[], &[]);
    server.write_rules(RULES);
    let browser = Browser::start_with(&["--window-size=1200,1060", "--hide-scrollbars"]);
    browser.open(&format!("http://127.0.0.1:{}/", server.admin));
    for number in 0..if renew { 150 } else { 2 } {
        second(&server, number);
    }
    for words in ["per-user", "login", "reports", "shadow"] {
        wait_until("the policies are shown", TIMEOUT, || {
            browser.text("#policies").is_some_and(|text| text.contains(words))
        });
    }
    let picture = browser.screenshot();
    assert_eq!(picture.get(..8), Some(b"\x89PNG\r\n\x1a\n".as_slice()), "a PNG");
    assert_eq!(picture.get(16..20), Some(1200_u32.to_be_bytes().as_slice()), "its width");
    if renew {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/img/dashboard.png");
        fs::write(file, picture).unwrap();
    }
}
