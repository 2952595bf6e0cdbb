//! The admin port: health, metrics, switches, overrides, the page.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::servers::wait_until;

use crate::{
    client::ask,
    desk::{Desk, RULES},
};

const U: &str = r#"{"domain":"api","key":"u"}"#;

fn spend(desk: &Desk) {
    for _ in 0..3 {
        desk.check(U);
    }
    assert_eq!(desk.check(U)["verdict"], "deny");
}

#[test]
fn it_is_alive_and_ready() {
    let desk = Desk::new();
    assert_eq!(desk.admin_get("/healthz").status, 200);
    let ready = desk.admin_get("/readyz");
    assert_eq!((ready.status, &ready.json()["ready"]), (200, &json!(true)));
}

#[test]
fn decisions_are_counted_by_rule_verdict_and_source_and_never_by_key() {
    let desk = Desk::new();
    let who = r#"{"domain":"api","key":"a-very-private-key"}"#;
    for _ in 0..4 {
        desk.check(who);
    }
    let labels = |verdict: &str| {
        format!(
            "tollgate_decisions_total{{domain=\"api\",policy=\"per-key\",rule=\"few\",verdict=\"{verdict}\",source=\"store\"}}"
        )
    };
    assert_eq!((desk.metric(&labels("allow")), desk.metric(&labels("deny"))), (Some(3.0), Some(1.0)));
    assert_eq!(desk.metric("tollgate_request_duration_seconds_count{wire=\"http\"}"), Some(4.0));
    assert_eq!(desk.metric("tollgate_keys"), Some(1.0));
    assert_eq!(desk.metric("tollgate_store_up"), Some(1.0));
    let page = desk.admin_get("/metrics");
    assert!(page.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    assert!(page.body.contains("# TYPE tollgate_decisions_total counter\n"), "{}", page.body);
    assert!(!page.body.contains("# EOF") && !page.body.contains("private"), "{}", page.body);
    let page =
        ask(desk.admin, "GET", "/metrics", &[("accept", "application/openmetrics-text;version=1.0.0,*/*;q=0.1")], b"");
    assert!(page.header("content-type").unwrap().starts_with("application/openmetrics-text; version=1.0.0"));
    assert!(page.body.contains("# TYPE tollgate_decisions counter\n"), "{}", page.body);
    assert!(page.body.ends_with("# EOF\n") && !page.body.contains("private"), "{}", page.body);
}

#[test]
fn the_keys_refused_most_are_listed_here_and_nowhere_else() {
    let desk = Desk::new();
    spend(&desk);
    let top = &desk.admin_get("/api/state").json()["top_denied"][0];
    assert_eq!((&top["key"], &top["denied"], &top["policy"]), (&json!("u"), &json!(1), &json!("per-key")));
    assert_eq!(top["kind"], "refused");
    desk.get("/api/state", &[]).is_problem(404, "nothing at /api/state");
}

/// Bans and what rules that only watch would refuse, each marked as what it is.
#[test]
fn bans_and_shadow_refusals_are_listed_and_marked() {
    let desk = Desk::start(|folder, config| {
        let banned = "domain: edge\ndescriptors:\n  - key: ip\n    value: 10.0.0.1\n    rate_limit: { unit: hour, requests_per_unit: 0 }\n\
                      \x20 - key: agent\n    rate_limit: { unit: hour, requests_per_unit: 0 }\n    shadow_mode: true\n";
        std::fs::write(folder.path().join("edge.yaml"), banned).unwrap();
        config.rules.push(folder.path().join("edge.yaml"));
    });
    let check = |domain: &str, entry: &str, value: &str| {
        desk.check(&format!(r#"{{"domain":"{domain}","descriptor":{{"{entry}":"{value}"}},"cost":1}}"#))["verdict"]
            .clone()
    };
    for _ in 0..3 {
        assert_eq!(check("edge", "ip", "10.0.0.1"), "never");
    }
    for _ in 0..2 {
        assert_eq!(check("edge", "agent", "curl"), "allow");
    }
    assert_eq!((check("api", "user", "u"), check("api", "user", "u")), (json!("allow"), json!("allow")));
    desk.post("/v1/peek", r#"{"domain":"edge","descriptor":{"ip":"10.0.0.1"}}"#);
    let state = desk.admin_get("/api/state").json();
    let listed: Vec<_> = state["top_denied"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["kind"].as_str().unwrap(), one["domain"].as_str().unwrap(), one["denied"].as_u64().unwrap()))
        .collect();
    assert_eq!(listed, [("banned", "edge", 3), ("shadow", "edge", 2), ("shadow", "api", 1)], "{}", state["top_denied"]);
    let named = |at: usize| (&state["top_denied"][at]["policy"], &state["top_denied"][at]["key"]);
    assert_eq!(named(0), (&json!("ip=10.0.0.1"), &json!("")), "one value, so all of it together");
    assert_eq!(named(1), (&json!("agent"), &json!("curl")));
    assert_eq!(state["top_denied"][2]["key"], "u");
}

#[test]
fn everything_can_be_switched_off_and_on() {
    let desk = Desk::new();
    spend(&desk);
    let turned = desk.admin_send("POST", "/api/switches", r#"{"turn":"off"}"#);
    assert_eq!(turned.json()["everything_off"], true);
    assert_eq!(desk.check(U)["source"], "switched_off");
    desk.admin_send("POST", "/api/switches", r#"{"turn":"on"}"#);
    assert_eq!(desk.check(U)["verdict"], "deny");
    desk.admin_send("POST", "/api/switches", r#"{"turn":"watch"}"#);
    assert_eq!(desk.check(U)["verdict"], "allow");
    desk.admin_send("POST", "/api/switches", r#"{"turn":"enforce"}"#);
    assert_eq!(desk.check(U)["verdict"], "deny");
}

#[test]
fn one_rule_can_be_made_to_watch() {
    let desk = Desk::new();
    spend(&desk);
    let target = r#""domain":"api","policy":"per-key","rule":"few""#;
    desk.admin_send("POST", "/api/switches", &format!(r#"{{"turn":"watch",{target}}}"#));
    assert_eq!(desk.check(U)["verdict"], "allow");
    assert_eq!(desk.admin_get("/api/switches").json()["watching"][0]["rule"], "few");
    desk.admin_send("POST", "/api/switches", &format!(r#"{{"turn":"off",{target}}}"#));
    assert_eq!(desk.check(U)["source"], "switched_off");
    desk.admin_send("POST", "/api/switches", &format!(r#"{{"turn":"on",{target}}}"#));
    assert_eq!(desk.check(U)["rules"][0]["shadow"], true);
}

/// The rule `watched` is a shadow in its file.
#[test]
fn enforce_makes_a_shadow_rule_refuse_until_it_is_turned_back() {
    let desk = Desk::new();
    let who = r#"{"domain":"api","descriptor":{"user":"u"},"cost":1}"#;
    let turn = |how: &str, rest: &str| {
        let body = format!(r#"{{"turn":"{how}","domain":"api","policy":"two-rules"{rest}}}"#);
        desk.admin_send("POST", "/api/switches", &body).json()
    };
    let verdict = || desk.check(who)["verdict"].clone();
    assert_eq!((verdict(), verdict()), (json!("allow"), json!("allow")), "a shadow");
    for rest in [r#","rule":"watched""#, ""] {
        let told = turn("enforce", rest);
        assert_eq!(told["enforcing"].as_array().map(Vec::len), Some(1), "{told}");
        assert_eq!(verdict(), "deny", "{rest}");
        assert_eq!(desk.metric("tollgate_switches{kind=\"enforcing\"}"), Some(1.0));
        assert!(desk.admin_get("/readyz").body.contains("1 switch is turned"));
        let state = desk.admin_get("/api/state").json();
        assert_eq!(state["switches"]["enforcing"][0]["policy"], "two-rules");
        let rules = state["policies"].as_array().unwrap().iter().find(|one| one["policy"] == "two-rules").unwrap();
        assert_eq!(rules["rules"][1]["shadow"], false);
        let told = turn("watch", rest);
        assert_eq!((&told["enforcing"], &told["watching"]), (&json!([]), &json!([])), "as the file says");
        assert_eq!(verdict(), "allow");
    }
    // A switch of the whole policy does not hold a rule back that is to refuse, and replaces those of its rules.
    turn("watch", "");
    turn("enforce", r#","rule":"watched""#);
    assert_eq!(verdict(), "deny");
    let told = turn("watch", "");
    assert_eq!((&told["enforcing"], told["watching"].as_array().map(Vec::len)), (&json!([]), Some(1)));
    assert_eq!(verdict(), "allow");
    let told = turn("enforce", r#","rule":"hour""#);
    assert_eq!(told["enforcing"][0]["rule"], "hour", "{told}");
    assert_eq!(desk.check(who)["rules"][0]["shadow"], Value::Null, "it refuses again");
    turn("enforce", "");
    desk.admin_send("POST", "/api/switches", r#"{"turn":"watch"}"#);
    assert_eq!(verdict(), "allow", "the switch for everything comes first");
    desk.admin_send("POST", "/api/switches", r#"{"turn":"enforce"}"#);
    assert_eq!(verdict(), "deny");
}

#[test]
fn a_switch_for_a_misspelt_rule_is_refused() {
    let desk = Desk::new();
    for (target, words) in [
        (r#""domain":"api","policy":"per-kye""#, "no policy \"per-kye\""),
        (r#""domain":"api","policy":"per-key","rule":"fwe""#, "it has few"),
        (r#""domain":"api""#, "or none of them"),
    ] {
        desk.admin_send("POST", "/api/switches", &format!(r#"{{"turn":"off",{target}}}"#)).is_problem(400, words);
    }
    desk.admin_send("POST", "/api/switches", r#"{"turn":"sideways"}"#).is_problem(400, "unknown variant");
}

#[test]
fn a_switch_that_is_turned_does_not_make_misspelt_ones_pass() {
    let desk = Desk::new();
    let turn = |how: &str, rule: &str| {
        let body = format!(r#"{{"turn":"{how}","domain":"api","policy":"two-rules","rule":"{rule}"}}"#);
        desk.admin_send("POST", "/api/switches", &body)
    };
    assert_eq!(turn("off", "hour").status, 200);
    for how in ["off", "on", "watch", "enforce"] {
        turn(how, "huor").is_problem(400, "no such rule");
    }
    assert_eq!(turn("watch", "hour").status, 200, "one that is off is still there");
    assert_eq!(turn("on", "hour").status, 200);
    assert_eq!(turn("on", "hour").status, 200, "twice does no harm");
}

/// Whoever was switched off and then renamed away leaves a switch behind; it has to be possible to clear it up.
#[test]
fn a_switch_for_what_is_gone_can_be_turned_back() {
    let desk = Desk::new();
    let turn = |how: &str, rest: &str| {
        desk.admin_send("POST", "/api/switches", &format!(r#"{{"turn":"{how}","domain":"api","policy":{rest}}}"#))
    };
    assert_eq!(turn("off", r#""shaped""#).status, 200);
    assert_eq!(turn("watch", r#""two-rules","rule":"hour""#).status, 200);
    desk.write("rules.yaml", &RULES.replace("shaped", "other").replace("hour", "day"));
    let is_gone = || desk.metric("tollgate_reloads_total{outcome=\"ok\"}") == Some(2.0);
    wait_until("the rules are renamed", Duration::from_secs(20), is_gone);
    turn("off", r#""shaped""#).is_problem(400, "no policy");
    let left = turn("on", r#""shaped""#).json();
    assert_eq!(left["off"].as_array().map(Vec::len), Some(0), "{left}");
    assert_eq!(turn("enforce", r#""two-rules","rule":"hour""#).json()["watching"].as_array().map(Vec::len), Some(0));
}

#[test]
fn switches_that_are_turned_are_counted_and_told() {
    let desk = Desk::new();
    let turned = |kind: &str| desk.metric(&format!("tollgate_switches{{kind=\"{kind}\"}}"));
    let kinds = ["everything_off", "everything_watches", "off", "watching"];
    assert_eq!(kinds.map(turned), [Some(0.0); 4]);
    assert_eq!(turned("enforcing"), Some(0.0));
    assert!(!desk.admin_get("/readyz").body.contains("switch"));
    desk.admin_send("POST", "/api/switches", r#"{"turn":"off","domain":"api","policy":"shaped"}"#);
    desk.admin_send("POST", "/api/switches", r#"{"turn":"off","domain":"api","policy":"places"}"#);
    desk.admin_send("POST", "/api/switches", r#"{"turn":"off"}"#);
    assert_eq!(kinds.map(turned), [Some(1.0), Some(0.0), Some(2.0), Some(0.0)]);
    let ready = desk.admin_get("/readyz");
    assert_eq!(ready.status, 200, "whoever turned it off wants requests to come");
    assert!(ready.body.contains("everything is switched off"), "{}", ready.body);
    desk.admin_send("POST", "/api/switches", r#"{"turn":"on"}"#);
    assert_eq!(kinds.map(turned), [Some(0.0), Some(0.0), Some(2.0), Some(0.0)]);
    let ready = desk.admin_get("/readyz").body;
    assert!(ready.contains("2 switches are turned") && !ready.contains("everything"), "{ready}");
}

#[test]
fn a_key_can_be_given_numbers_of_its_own_for_a_while() {
    let desk = Desk::new();
    spend(&desk);
    let whom = r#""domain":"api","policy":"per-key","key":"u""#;
    let rules = r#"[{"name":"more","algorithm":"token_bucket","limit":50,"per":"1h"}]"#;
    let put = |more: &str| desk.admin_send("POST", "/api/overrides", &format!(r#"{{{whom},"rules":{rules}{more}}}"#));
    let told = put(r#","expires_in":"1h""#).json();
    assert_eq!(told[0]["expires_in_seconds"], 3_600);
    assert_eq!(desk.check(U)["limit"], 50);
    assert_eq!(put(r#","expires_in":"1us""#).status, 200);
    assert_eq!(desk.check(U)["verdict"], "deny", "it has ended");
    put("");
    assert_eq!(desk.admin_send("DELETE", "/api/overrides", &format!("{{{whom}}}")).status, 200);
    assert_eq!(desk.check(U)["verdict"], "deny");
    desk.admin_send("DELETE", "/api/overrides", &format!("{{{whom}}}")).is_problem(400, "no numbers of its own");
    put(r#","expires_in":"soon""#).is_problem(400, "no span of time");
    let bad = format!(r#"{{{whom},"rules":[{{"name":"more","algorithm":"token_bucket","limit":0,"per":"1h"}}]}}"#);
    desk.admin_send("POST", "/api/overrides", &bad).is_problem(400, "limit is 0");
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let desk = Desk::new();
    let page = desk.admin_get("/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(!page.body.contains("http://") && !page.body.contains("https://"));
    let parts = page.body.split('"').filter(|word| word.starts_with("/page/"));
    for part in parts.chain(["/", "/page/chart.js", "/page/talk.js", "/page/view.js"]) {
        let part = desk.admin_get(part);
        assert_eq!(part.status, 200);
        let policy = part.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
    desk.admin_get("/page/secrets").is_problem(404, "nothing at");
    desk.admin_send("POST", "/", "").is_problem(405, "use GET");
}

/// A page of another site can make a browser send forms and plain text here, and call this machine by its own name.
#[test]
fn browsers_cannot_be_made_to_turn_switches() {
    let desk = Desk::new();
    let body = br#"{"turn":"off"}"#;
    ask(desk.admin, "POST", "/api/switches", &[("content-type", "text/plain")], body)
        .is_problem(415, "application/json");
    ask(desk.admin, "POST", "/api/switches", &[], body).is_problem(415, "application/json");
    let request = "GET /api/state HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    crate::client::raw(desk.admin, request.as_bytes()).unwrap().is_problem(403, "localhost");
    assert_eq!(desk.check(U)["verdict"], "allow");
    assert_eq!(desk.admin_get("/api/switches").json()["everything_off"], false);
}

#[test]
fn unknown_paths_and_methods_are_told_what_would_do() {
    let desk = Desk::new();
    desk.admin_get("/nowhere").is_problem(404, "nothing at /nowhere");
    desk.admin_send("POST", "/metrics", "").is_problem(405, "use GET");
    desk.admin_send("PUT", "/api/overrides", "").is_problem(405, "POST, DELETE");
}
