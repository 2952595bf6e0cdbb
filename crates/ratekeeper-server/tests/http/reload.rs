//! Reload of rule files while the server runs: on a change, and on request.

use std::time::Duration;

use ratekeeper_testkit::servers::wait_until;
use serde_json::{Value, json};

use crate::{
    client::ask,
    fixture::{Fixture, RULES},
};

const U: &str = r#"{"domain":"api","key":"u"}"#;

#[track_caller]
fn wait(what: &str, done: impl FnMut() -> bool) {
    wait_until(what, Duration::from_secs(20), done);
}

fn look(fixture: &Fixture) -> Value {
    fixture.post("/v1/peek", U).json()
}

#[test]
fn an_edit_is_loaded_and_counts_are_kept() {
    let fixture = Fixture::new();
    fixture.check(U);
    fixture.write("rules.yaml", &RULES.replace("limit: 3,", "limit: 30,"));
    wait("the new limit", || look(&fixture)["limit"] == 30);
    assert_eq!(look(&fixture)["remaining"], 29, "what was used stays used");
    wait("it is counted", || fixture.metric("ratekeeper_reloads_total{outcome=\"ok\"}") == Some(2.0));
}

#[test]
fn an_error_keeps_the_previous_rules_and_is_reported() {
    let fixture = Fixture::new();
    fixture.check(U);
    fixture.write("rules.yaml", &RULES.replace("limit: 3,", "limit: 0,"));
    wait("the mistake is noticed", || fixture.metric("ratekeeper_rules_stale") == Some(1.0));
    assert_eq!(look(&fixture)["remaining"], 2);
    let ready = fixture.admin_get("/readyz");
    assert_eq!(ready.status, 200, "old rules are rules");
    assert!(ready.body.contains("rules.yaml:4") && ready.body.contains("limit is 0"), "{}", ready.body);
    assert_eq!(ready.json()["rules_current"], false);
    assert_eq!(fixture.metric("ratekeeper_reloads_total{outcome=\"failed\"}"), Some(1.0));

    fixture.write("rules.yaml", &RULES.replace("limit: 3,", "limit: 5,"));
    wait("the file is mended", || fixture.metric("ratekeeper_rules_stale") == Some(0.0));
    assert_eq!(look(&fixture)["remaining"], 4);
}

#[test]
fn a_deleted_file_keeps_its_rules() {
    let fixture = Fixture::new();
    std::fs::remove_file(fixture.path("rules.yaml")).unwrap();
    wait("the loss is noticed", || fixture.metric("ratekeeper_rules_stale") == Some(1.0));
    assert!(fixture.admin_get("/readyz").body.contains("there is no such file"));
    assert_eq!(fixture.check(U)["limit"], 3);
}

#[test]
fn a_directory_is_watched_for_files_that_come_and_go() {
    let fixture = Fixture::start(|folder, config| {
        let rules = folder.path().join("rules");
        std::fs::create_dir(&rules).unwrap();
        std::fs::write(rules.join("api.yaml"), RULES).unwrap();
        config.rules = vec![rules];
    });
    let other = r#"{"domain":"other","key":"u"}"#;
    assert_eq!(fixture.check(other)["source"], "unknown_domain");
    fixture.write("rules/other.yaml", &RULES.replace("domain: api", "domain: other"));
    wait("the new file", || fixture.check(other)["limit"] == 3);
    std::fs::remove_file(fixture.path("rules/other.yaml")).unwrap();
    wait("it is gone", || fixture.check(other)["source"] == "unknown_domain");
}

/// Kubernetes volumes: the directory holds symbolic links, and a rename replaces their target.
#[cfg(unix)]
#[test]
fn a_replaced_symbolic_link_is_detected() {
    use std::os::unix::fs::symlink;
    let fixture = Fixture::start(|folder, config| {
        let home = folder.path();
        std::fs::create_dir_all(home.join("v1")).unwrap();
        std::fs::write(home.join("v1/rules.yaml"), RULES).unwrap();
        symlink("v1", home.join("..data")).unwrap();
        std::fs::create_dir(home.join("mounted")).unwrap();
        symlink("../..data/rules.yaml", home.join("mounted/rules.yaml")).unwrap();
        config.rules = vec![home.join("mounted")];
    });
    assert_eq!(look(&fixture)["limit"], 3);
    std::fs::create_dir(fixture.path("v2")).unwrap();
    fixture.write("v2/rules.yaml", &RULES.replace("limit: 3,", "limit: 8,"));
    symlink("v2", fixture.path("..next")).unwrap();
    std::fs::rename(fixture.path("..next"), fixture.path("..data")).unwrap();
    wait("the other version", || look(&fixture)["limit"] == 8);
}

#[test]
fn a_reload_can_be_requested() {
    let fixture = Fixture::with(|config| config.poll_interval = Duration::from_secs(3_600));
    fixture.write("rules.yaml", &RULES.replace("limit: 3,", "limit: 4,"));
    assert_eq!(fixture.admin_send("POST", "/api/reload", "").status, 200);
    assert_eq!(look(&fixture)["limit"], 4, "the answer comes after the files are read");
}

/// No content type is required, because `curl -X POST` sends none. The response lists what changed.
#[test]
fn a_reload_lists_what_changed() {
    let fixture = Fixture::with(|config| config.poll_interval = Duration::from_secs(3_600));
    let reload = |fields: &[(&str, &str)]| ask(fixture.admin, "POST", "/api/reload", fields, b"");
    let policies = |names: &[&str]| json!({ "count": names.len(), "names": names });
    let none = policies(&[]);
    let same = reload(&[]);
    assert_eq!(same.status, 200, "{same:?}");
    assert_eq!(same.json(), json!({ "rules_generation": 2, "added": none, "removed": none, "changed": none }));
    fixture.write(
        "rules.yaml",
        &RULES.replace("limit: 3,", "limit: 4,").replace("shaped", "evened").replace("cost: 2", "cost: 1"),
    );
    assert_eq!(
        reload(&[]).json(),
        json!({
            "rules_generation": 3,
            "added": policies(&["api/evened"]),
            "removed": policies(&["api/shaped"]),
            "changed": policies(&["api/per-key", "api/two-rules"]),
        })
    );
    reload(&[("origin", "https://evil.example")]).is_problem(403, "another site");
    reload(&[("content-type", "text/plain")]).is_problem(415, "application/json");
}

#[test]
fn a_failed_reload_lists_every_error_with_its_location() {
    let fixture = Fixture::with(|config| config.poll_interval = Duration::from_secs(3_600));
    fixture.write("rules.yaml", &RULES.replace("limit: 3,", "limit: 0,").replace("limit: 10,", "limit: 0,"));
    let reply = ask(fixture.admin, "POST", "/api/reload", &[], b"");
    reply.is_problem(422, "rules.yaml:4:");
    let detail = reply.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("rules.yaml:9:") && detail.lines().count() == 2, "{detail}");
    assert_eq!(look(&fixture)["limit"], 3, "the rules before stay in force");
}

/// Concurrent requests for a reload all succeed.
#[test]
fn concurrent_reloads_are_all_answered() {
    let fixture = Fixture::with(|config| config.poll_interval = Duration::from_secs(3_600));
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert_eq!(ask(fixture.admin, "POST", "/api/reload", &[], b"").status, 200));
        }
    });
}
