//! Store outages as the admin port reports them.

use std::{
    fs,
    time::{Duration, Instant},
};

use ratekeeper_server::security::Secret;
use ratekeeper_testkit::servers::{Process, RedisServer, wait_until};

use crate::{client::Reply, fixture::Fixture};

/// One rule that fails closed: while the store is unreachable, the server is not ready.
const RULES: &str = r#"
domain: api
policies:
  - name: strict
    match: { key: "*" }
    rules: [{ name: few, algorithm: token_bucket, limit: 1000, per: 1h, on_store_failure: closed }]
"#;

const U: &str = r#"{"domain":"api","key":"u"}"#;

fn fixture(url: &str) -> Fixture {
    Fixture::start(|folder, config| {
        fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
        config.store = Secret::new(url);
        config.storage.deadline = Duration::from_millis(200);
    })
}

const NOTICED: Duration = Duration::from_secs(3);

#[track_caller]
fn wait_ready(fixture: &Fixture, status: u16) -> Reply {
    let mut ready = fixture.admin_get("/readyz");
    wait_until("readiness", Duration::from_secs(20), || {
        ready = fixture.admin_get("/readyz");
        ready.status == status
    });
    assert_eq!(ready.json()["store_answers"], status == 200, "{}", ready.body);
    ready
}

#[test]
fn an_outage_is_detected_without_traffic_and_lasts_as_long_as_the_store_is_down() {
    let server = RedisServer::start();
    let fixture = fixture(&server.url());
    wait_ready(&fixture, 200);
    assert_eq!(fixture.metric("ratekeeper_store_up"), Some(1.0));
    server.kill();
    let down = wait_ready(&fixture, 503);
    assert!(down.body.contains("no connection") && down.body.contains("`on_store_failure: closed`"), "{}", down.body);
    assert_eq!(fixture.metric("ratekeeper_store_up"), Some(0.0));
    server.restart();
    wait_ready(&fixture, 200);
    wait_until("the metric", Duration::from_secs(20), || fixture.metric("ratekeeper_store_up") == Some(1.0));
}

/// SIGSTOP keeps connections open without replies. Readiness and metric change without traffic, each within 2 s; the
/// bound of the test has an extra second for a busy machine.
#[test]
fn a_store_that_hangs_is_noticed_without_traffic() {
    let server = RedisServer::start();
    let fixture = fixture(&server.url());
    wait_ready(&fixture, 200);
    server.pause();
    let paused = Instant::now();
    wait_until("/readyz", NOTICED, || fixture.admin_get("/readyz").status == 503);
    wait_until("the metric", NOTICED.saturating_sub(paused.elapsed()), || {
        fixture.metric("ratekeeper_store_up") == Some(0.0)
    });
    server.resume();
    wait_ready(&fixture, 200);
    wait_until("the metric", Duration::from_secs(20), || fixture.metric("ratekeeper_store_up") == Some(1.0));
}

#[test]
fn a_store_that_was_never_reachable_is_down_from_the_start() {
    let fixture = fixture(&format!("redis://127.0.0.1:{}", Process::free_port()));
    let ready = fixture.admin_get("/readyz");
    assert_eq!(ready.status, 503, "{}", ready.body);
    assert_eq!(fixture.metric("ratekeeper_store_up"), Some(0.0));
}

#[test]
fn one_slow_reply_and_one_foreign_value_leave_the_server_ready() {
    let server = RedisServer::start();
    let fixture = fixture(&server.url());
    wait_ready(&fixture, 200);
    server.pause();
    assert_eq!(fixture.check(U)["source"], "closed", "there was no answer in time");
    server.resume();
    assert_eq!(fixture.admin_get("/readyz").status, 200);

    wait_until("it answers in time", Duration::from_secs(20), || fixture.check(U)["source"] == "store");
    let put = server.command(&["SET", "ratekeeper:1:api/strict:{u}", "garbage", "XX"]).expect_ok();
    assert_eq!(put, ratekeeper_testkit::servers::Reply::Status("OK".to_owned()), "it lay there before");
    assert_eq!(fixture.check(U)["source"], "closed");
    let ready = fixture.admin_get("/readyz");
    assert_eq!(ready.status, 200, "{}", ready.body);
    assert!(!ready.body.contains("{u}") && !ready.body.contains("garbage"), "{}", ready.body);
}
