//! Files that change under a running server.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::servers::wait_until;

use crate::{
    client::ask,
    desk::{Desk, RULES},
};

const U: &str = r#"{"domain":"api","key":"u"}"#;

#[track_caller]
fn wait(what: &str, done: impl FnMut() -> bool) {
    wait_until(what, Duration::from_secs(20), done);
}

fn look(desk: &Desk) -> Value {
    desk.post("/v1/peek", U).json()
}

#[test]
fn an_edit_is_in_force_without_a_word_and_counts_stay() {
    let desk = Desk::new();
    desk.check(U);
    desk.write("rules.yaml", &RULES.replace("limit: 3,", "limit: 30,"));
    wait("the new limit", || look(&desk)["limit"] == 30);
    assert_eq!(look(&desk)["remaining"], 29, "what was used stays used");
    wait("it is counted", || desk.metric("tollgate_reloads_total{outcome=\"ok\"}") == Some(2.0));
}

#[test]
fn a_mistake_keeps_the_old_rules_and_is_told_everywhere() {
    let desk = Desk::new();
    desk.check(U);
    desk.write("rules.yaml", &RULES.replace("limit: 3,", "limit: 0,"));
    wait("the mistake is noticed", || desk.metric("tollgate_rules_stale") == Some(1.0));
    assert_eq!(look(&desk)["remaining"], 2);
    let ready = desk.admin_get("/readyz");
    assert_eq!(ready.status, 200, "old rules are rules");
    assert!(ready.body.contains("rules.yaml:4") && ready.body.contains("limit is 0"), "{}", ready.body);
    assert_eq!(ready.json()["rules_current"], false);
    assert_eq!(desk.metric("tollgate_reloads_total{outcome=\"failed\"}"), Some(1.0));

    desk.write("rules.yaml", &RULES.replace("limit: 3,", "limit: 5,"));
    wait("the file is mended", || desk.metric("tollgate_rules_stale") == Some(0.0));
    assert_eq!(look(&desk)["remaining"], 4);
}

#[test]
fn a_file_that_vanishes_keeps_its_rules() {
    let desk = Desk::new();
    std::fs::remove_file(desk.path("rules.yaml")).unwrap();
    wait("the loss is noticed", || desk.metric("tollgate_rules_stale") == Some(1.0));
    assert!(desk.admin_get("/readyz").body.contains("there is no such file"));
    assert_eq!(desk.check(U)["limit"], 3);
}

#[test]
fn a_directory_is_watched_for_files_that_come_and_go() {
    let desk = Desk::start(|folder, config| {
        let rules = folder.path().join("rules");
        std::fs::create_dir(&rules).unwrap();
        std::fs::write(rules.join("api.yaml"), RULES).unwrap();
        config.rules = vec![rules];
    });
    let other = r#"{"domain":"other","key":"u"}"#;
    assert_eq!(desk.check(other)["source"], "unknown_domain");
    desk.write("rules/other.yaml", &RULES.replace("domain: api", "domain: other"));
    wait("the new file", || desk.check(other)["limit"] == 3);
    std::fs::remove_file(desk.path("rules/other.yaml")).unwrap();
    wait("it is gone", || desk.check(other)["source"] == "unknown_domain");
}

/// As Kubernetes does it: the directory holds links, and what they point to is swapped by a rename.
#[cfg(unix)]
#[test]
fn a_link_that_is_swapped_is_noticed() {
    use std::os::unix::fs::symlink;
    let desk = Desk::start(|folder, config| {
        let home = folder.path();
        std::fs::create_dir_all(home.join("v1")).unwrap();
        std::fs::write(home.join("v1/rules.yaml"), RULES).unwrap();
        symlink("v1", home.join("..data")).unwrap();
        std::fs::create_dir(home.join("mounted")).unwrap();
        symlink("../..data/rules.yaml", home.join("mounted/rules.yaml")).unwrap();
        config.rules = vec![home.join("mounted")];
    });
    assert_eq!(look(&desk)["limit"], 3);
    std::fs::create_dir(desk.path("v2")).unwrap();
    desk.write("v2/rules.yaml", &RULES.replace("limit: 3,", "limit: 8,"));
    symlink("v2", desk.path("..next")).unwrap();
    std::fs::rename(desk.path("..next"), desk.path("..data")).unwrap();
    wait("the other version", || look(&desk)["limit"] == 8);
}

#[test]
fn a_reload_can_be_asked_for() {
    let desk = Desk::with(|config| config.look_every = Duration::from_secs(3_600));
    desk.write("rules.yaml", &RULES.replace("limit: 3,", "limit: 4,"));
    assert_eq!(desk.admin_send("POST", "/api/reload", "").status, 200);
    assert_eq!(look(&desk)["limit"], 4, "the answer comes after the files are read");
}

/// No content type is needed, as `curl -X POST` sends none; the answer says what changed.
#[test]
fn a_reload_answers_what_changed() {
    let desk = Desk::with(|config| config.look_every = Duration::from_secs(3_600));
    let reload = |fields: &[(&str, &str)]| ask(desk.admin, "POST", "/api/reload", fields, b"");
    let policies = |names: &[&str]| json!({ "count": names.len(), "names": names });
    let none = policies(&[]);
    let same = reload(&[]);
    assert_eq!(same.status, 200, "{same:?}");
    assert_eq!(same.json(), json!({ "rules_generation": 2, "added": none, "removed": none, "changed": none }));
    desk.write(
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
fn a_reload_that_fails_answers_every_mistake_with_its_place() {
    let desk = Desk::with(|config| config.look_every = Duration::from_secs(3_600));
    desk.write("rules.yaml", &RULES.replace("limit: 3,", "limit: 0,").replace("limit: 10,", "limit: 0,"));
    let reply = ask(desk.admin, "POST", "/api/reload", &[], b"");
    reply.is_problem(422, "rules.yaml:4:");
    let detail = reply.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("rules.yaml:9:") && detail.lines().count() == 2, "{detail}");
    assert_eq!(look(&desk)["limit"], 3, "the rules before stay in force");
}

/// Several at once: each is answered after a reading that began after it asked.
#[test]
fn reloads_at_once_are_all_answered() {
    let desk = Desk::with(|config| config.look_every = Duration::from_secs(3_600));
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert_eq!(ask(desk.admin, "POST", "/api/reload", &[], b"").status, 200));
        }
    });
}
