//! A store that goes away, and what the admin port says of it.

use std::{fs, time::Duration};

use tollgate_server::security::Secret;
use tollgate_testkit::servers::{Process, RedisServer, wait_until};

use crate::{client::Reply, desk::Desk};

/// One rule that turns everybody away while the store is gone: with it, the server is not ready then.
const RULES: &str = r#"
domain: api
policies:
  - name: strict
    match: { key: "*" }
    rules: [{ name: few, algorithm: token_bucket, limit: 1000, per: 1h, on_store_failure: closed }]
"#;

const U: &str = r#"{"domain":"api","key":"u"}"#;

fn desk(url: &str) -> Desk {
    Desk::start(|folder, config| {
        fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
        config.store = Secret::new(url);
        config.storage.deadline = Duration::from_millis(200);
    })
}

#[track_caller]
fn wait_ready(desk: &Desk, status: u16) -> Reply {
    let mut ready = desk.admin_get("/readyz");
    wait_until("readiness", Duration::from_secs(20), || {
        ready = desk.admin_get("/readyz");
        ready.status == status
    });
    assert_eq!(ready.json()["store_answers"], status == 200, "{}", ready.body);
    ready
}

#[test]
fn a_store_that_goes_is_missed_though_nobody_asks_and_for_as_long_as_it_is_gone() {
    let server = RedisServer::start();
    let desk = desk(&server.url());
    wait_ready(&desk, 200);
    assert_eq!(desk.metric("tollgate_store_up"), Some(1.0));
    server.kill();
    let away = wait_ready(&desk, 503);
    assert!(away.body.contains("no connection") && away.body.contains("`closed`"), "{}", away.body);
    assert_eq!(desk.metric("tollgate_store_up"), Some(0.0));
    server.restart();
    wait_ready(&desk, 200);
    wait_until("the metric", Duration::from_secs(20), || desk.metric("tollgate_store_up") == Some(1.0));
}

#[test]
fn a_store_that_was_never_there_does_not_answer_from_the_first_moment() {
    let desk = desk(&format!("redis://127.0.0.1:{}", Process::free_port()));
    let ready = desk.admin_get("/readyz");
    assert_eq!(ready.status, 503, "{}", ready.body);
    assert_eq!(desk.metric("tollgate_store_up"), Some(0.0));
}

#[test]
fn one_slow_answer_and_one_strange_value_leave_the_server_ready() {
    let server = RedisServer::start();
    let desk = desk(&server.url());
    wait_ready(&desk, 200);
    server.pause();
    assert_eq!(desk.check(U)["source"], "closed", "there was no answer in time");
    server.resume();
    assert_eq!(desk.admin_get("/readyz").status, 200);

    wait_until("it answers in time", Duration::from_secs(20), || desk.check(U)["source"] == "store");
    let put = server.command(&["SET", "tollgate:1:api/strict:{u}", "garbage", "XX"]).expect_ok();
    assert_eq!(put, tollgate_testkit::servers::Reply::Status("OK".to_owned()), "it lay there before");
    assert_eq!(desk.check(U)["source"], "closed");
    let ready = desk.admin_get("/readyz");
    assert_eq!(ready.status, 200, "{}", ready.body);
    assert!(!ready.body.contains("{u}") && !ready.body.contains("garbage"), "{}", ready.body);
}
