//! Admin port: health checks, metrics, switches, overrides, dashboard.

use std::time::Duration;

use ratekeeper_server::telemetry::DecisionLogConfig;
use ratekeeper_testkit::servers::wait_until;
use serde_json::{Value, json};

use crate::{
    client::ask,
    fixture::{Fixture, RULES},
};

const U: &str = r#"{"domain":"api","key":"u"}"#;

fn spend(fixture: &Fixture) {
    for _ in 0..3 {
        fixture.check(U);
    }
    assert_eq!(fixture.check(U)["verdict"], "deny");
}

#[test]
fn health_checks_report_alive_and_ready() {
    let fixture = Fixture::new();
    assert_eq!(fixture.admin_get("/healthz").status, 200);
    let ready = fixture.admin_get("/readyz");
    assert_eq!((ready.status, &ready.json()["ready"]), (200, &json!(true)));
}

#[test]
fn decisions_are_counted_by_rule_verdict_and_source_and_never_by_key() {
    let fixture = Fixture::new();
    let who = r#"{"domain":"api","key":"a-very-private-key"}"#;
    for _ in 0..4 {
        fixture.check(who);
    }
    let labels = |verdict: &str| {
        format!(
            "ratekeeper_decisions_total{{domain=\"api\",policy=\"per-key\",rule=\"few\",verdict=\"{verdict}\",source=\"store\"}}"
        )
    };
    assert_eq!((fixture.metric(&labels("allow")), fixture.metric(&labels("deny"))), (Some(3.0), Some(1.0)));
    assert_eq!(fixture.metric("ratekeeper_request_duration_seconds_count{wire=\"http\"}"), Some(4.0));
    assert_eq!(fixture.metric("ratekeeper_keys"), Some(1.0));
    assert_eq!(fixture.metric("ratekeeper_store_up"), Some(1.0));
    let page = fixture.admin_get("/metrics");
    assert!(page.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    assert!(page.body.contains("# TYPE ratekeeper_decisions_total counter\n"), "{}", page.body);
    assert!(!page.body.contains("# EOF") && !page.body.contains("private"), "{}", page.body);
    let page = ask(
        fixture.admin,
        "GET",
        "/metrics",
        &[("accept", "application/openmetrics-text;version=1.0.0,*/*;q=0.1")],
        b"",
    );
    assert!(page.header("content-type").unwrap().starts_with("application/openmetrics-text; version=1.0.0"));
    assert!(page.body.contains("# TYPE ratekeeper_decisions counter\n"), "{}", page.body);
    assert!(page.body.ends_with("# EOF\n") && !page.body.contains("private"), "{}", page.body);
}

#[test]
fn the_keys_refused_most_are_listed_here_and_nowhere_else() {
    let fixture = Fixture::new();
    spend(&fixture);
    let top = &fixture.admin_get("/api/state").json()["top_denied"][0];
    assert_eq!((&top["key"], &top["denied"], &top["policy"]), (&json!("u"), &json!(1), &json!("per-key")));
    assert_eq!(top["kind"], "refused");
    fixture.get("/api/state", &[]).is_problem(404, "no resource at /api/state");
}

/// Refusals by bans and by shadow rules are listed, each with its kind.
#[test]
fn bans_and_shadow_refusals_are_listed_and_marked() {
    let fixture = Fixture::start(|folder, config| {
        let banned = "domain: edge\ndescriptors:\n  - key: ip\n    value: 10.0.0.1\n    rate_limit: { unit: hour, requests_per_unit: 0 }\n\
                      \x20 - key: agent\n    rate_limit: { unit: hour, requests_per_unit: 0 }\n    shadow_mode: true\n";
        std::fs::write(folder.path().join("edge.yaml"), banned).unwrap();
        config.rules.push(folder.path().join("edge.yaml"));
    });
    let check = |domain: &str, entry: &str, value: &str| {
        fixture.check(&format!(r#"{{"domain":"{domain}","descriptor":{{"{entry}":"{value}"}},"cost":1}}"#))["verdict"]
            .clone()
    };
    for _ in 0..3 {
        assert_eq!(check("edge", "ip", "10.0.0.1"), "never");
    }
    for _ in 0..2 {
        assert_eq!(check("edge", "agent", "curl"), "allow");
    }
    assert_eq!((check("api", "user", "u"), check("api", "user", "u")), (json!("allow"), json!("allow")));
    fixture.post("/v1/peek", r#"{"domain":"edge","descriptor":{"ip":"10.0.0.1"}}"#);
    let state = fixture.admin_get("/api/state").json();
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
    let fixture = Fixture::new();
    spend(&fixture);
    let turned = fixture.admin_send("POST", "/api/switches", r#"{"set":"off"}"#);
    assert_eq!(turned.json()["everything_off"], true);
    assert_eq!(fixture.check(U)["source"], "switched_off");
    fixture.admin_send("POST", "/api/switches", r#"{"set":"on"}"#);
    assert_eq!(fixture.check(U)["verdict"], "deny");
    fixture.admin_send("POST", "/api/switches", r#"{"set":"shadow"}"#);
    assert_eq!(fixture.check(U)["verdict"], "allow");
    fixture.admin_send("POST", "/api/switches", r#"{"set":"enforce"}"#);
    assert_eq!(fixture.check(U)["verdict"], "deny");
}

#[test]
fn one_rule_can_be_set_to_shadow_mode() {
    let fixture = Fixture::new();
    spend(&fixture);
    let target = r#""domain":"api","policy":"per-key","rule":"few""#;
    fixture.admin_send("POST", "/api/switches", &format!(r#"{{"set":"shadow",{target}}}"#));
    assert_eq!(fixture.check(U)["verdict"], "allow");
    assert_eq!(fixture.admin_get("/api/switches").json()["shadow"][0]["rule"], "few");
    fixture.admin_send("POST", "/api/switches", &format!(r#"{{"set":"off",{target}}}"#));
    assert_eq!(fixture.check(U)["source"], "switched_off");
    fixture.admin_send("POST", "/api/switches", &format!(r#"{{"set":"on",{target}}}"#));
    assert_eq!(fixture.check(U)["rules"][0]["shadow"], true);
}

/// The rule `watched` is a shadow rule in its file.
#[test]
fn enforce_makes_a_shadow_rule_refuse_until_it_is_undone() {
    let fixture = Fixture::new();
    let who = r#"{"domain":"api","descriptor":{"user":"u"},"cost":1}"#;
    let turn = |how: &str, rest: &str| {
        let body = format!(r#"{{"set":"{how}","domain":"api","policy":"two-rules"{rest}}}"#);
        fixture.admin_send("POST", "/api/switches", &body).json()
    };
    let verdict = || fixture.check(who)["verdict"].clone();
    assert_eq!((verdict(), verdict()), (json!("allow"), json!("allow")), "a shadow");
    for rest in [r#","rule":"watched""#, ""] {
        let body = turn("enforce", rest);
        assert_eq!(body["enforce"].as_array().map(Vec::len), Some(1), "{body}");
        assert_eq!(verdict(), "deny", "{rest}");
        assert_eq!(fixture.metric("ratekeeper_switches{kind=\"enforce\"}"), Some(1.0));
        assert!(fixture.admin_get("/readyz").body.contains("1 switch is set"));
        let state = fixture.admin_get("/api/state").json();
        assert_eq!(state["switches"]["enforce"][0]["policy"], "two-rules");
        let rules = state["policies"].as_array().unwrap().iter().find(|one| one["policy"] == "two-rules").unwrap();
        assert_eq!(rules["rules"][1]["shadow"], false);
        let body = turn("shadow", rest);
        assert_eq!((&body["enforce"], &body["shadow"]), (&json!([]), &json!([])), "as in the file");
        assert_eq!(verdict(), "allow");
    }
    // An enforced rule refuses although its policy is in shadow. A later switch of the policy replaces those of its
    // rules.
    turn("shadow", "");
    turn("enforce", r#","rule":"watched""#);
    assert_eq!(verdict(), "deny");
    let body = turn("shadow", "");
    assert_eq!((&body["enforce"], body["shadow"].as_array().map(Vec::len)), (&json!([]), Some(1)));
    assert_eq!(verdict(), "allow");
    let body = turn("enforce", r#","rule":"hour""#);
    assert_eq!(body["enforce"][0]["rule"], "hour", "{body}");
    assert_eq!(fixture.check(who)["rules"][0]["shadow"], Value::Null, "it refuses again");
    turn("enforce", "");
    fixture.admin_send("POST", "/api/switches", r#"{"set":"shadow"}"#);
    assert_eq!(verdict(), "allow", "the switch for everything comes first");
    fixture.admin_send("POST", "/api/switches", r#"{"set":"enforce"}"#);
    assert_eq!(verdict(), "deny");
}

#[test]
fn a_switch_for_a_misspelt_rule_is_refused() {
    let fixture = Fixture::new();
    for (target, words) in [
        (r#""domain":"api","policy":"per-kye""#, "no policy \"per-kye\""),
        (r#""domain":"api","policy":"per-key","rule":"fwe""#, "it has few"),
        (r#""domain":"api""#, "or none of them"),
    ] {
        fixture.admin_send("POST", "/api/switches", &format!(r#"{{"set":"off",{target}}}"#)).is_problem(400, words);
    }
    fixture.admin_send("POST", "/api/switches", r#"{"set":"sideways"}"#).is_problem(400, "unknown variant");
}

#[test]
fn a_set_switch_does_not_make_misspelt_ones_pass() {
    let fixture = Fixture::new();
    let turn = |how: &str, rule: &str| {
        let body = format!(r#"{{"set":"{how}","domain":"api","policy":"two-rules","rule":"{rule}"}}"#);
        fixture.admin_send("POST", "/api/switches", &body)
    };
    assert_eq!(turn("off", "hour").status, 200);
    for how in ["off", "on", "shadow", "enforce"] {
        turn(how, "huor").is_problem(400, "no such rule");
    }
    assert_eq!(turn("shadow", "hour").status, 200, "one that is off is still there");
    assert_eq!(turn("on", "hour").status, 200);
    assert_eq!(turn("on", "hour").status, 200, "twice does no harm");
}

/// A rule that was switched off and then renamed leaves a switch behind, which can be removed.
#[test]
fn a_switch_of_a_removed_rule_can_be_unset() {
    let fixture = Fixture::new();
    let turn = |how: &str, rest: &str| {
        fixture.admin_send("POST", "/api/switches", &format!(r#"{{"set":"{how}","domain":"api","policy":{rest}}}"#))
    };
    assert_eq!(turn("off", r#""shaped""#).status, 200);
    assert_eq!(turn("shadow", r#""two-rules","rule":"hour""#).status, 200);
    fixture.write("rules.yaml", &RULES.replace("shaped", "other").replace("hour", "day"));
    let is_gone = || fixture.metric("ratekeeper_reloads_total{outcome=\"ok\"}") == Some(2.0);
    wait_until("the rules are renamed", Duration::from_secs(20), is_gone);
    turn("off", r#""shaped""#).is_problem(400, "no policy");
    let left = turn("on", r#""shaped""#).json();
    assert_eq!(left["off"].as_array().map(Vec::len), Some(0), "{left}");
    assert_eq!(turn("enforce", r#""two-rules","rule":"hour""#).json()["shadow"].as_array().map(Vec::len), Some(0));
}

#[test]
fn set_switches_are_counted_and_reported() {
    let fixture = Fixture::new();
    let turned = |kind: &str| fixture.metric(&format!("ratekeeper_switches{{kind=\"{kind}\"}}"));
    let kinds = ["everything_off", "everything_shadow", "off", "shadow"];
    assert_eq!(kinds.map(turned), [Some(0.0); 4]);
    assert_eq!(turned("enforce"), Some(0.0));
    assert!(!fixture.admin_get("/readyz").body.contains("switch"));
    fixture.admin_send("POST", "/api/switches", r#"{"set":"off","domain":"api","policy":"shaped"}"#);
    fixture.admin_send("POST", "/api/switches", r#"{"set":"off","domain":"api","policy":"places"}"#);
    fixture.admin_send("POST", "/api/switches", r#"{"set":"off"}"#);
    assert_eq!(kinds.map(turned), [Some(1.0), Some(0.0), Some(2.0), Some(0.0)]);
    let ready = fixture.admin_get("/readyz");
    assert_eq!(ready.status, 200, "a switch does not end readiness");
    assert!(ready.body.contains("everything is switched off"), "{}", ready.body);
    fixture.admin_send("POST", "/api/switches", r#"{"set":"on"}"#);
    assert_eq!(kinds.map(turned), [Some(0.0), Some(0.0), Some(2.0), Some(0.0)]);
    let ready = fixture.admin_get("/readyz").body;
    assert!(ready.contains("2 switches are set") && !ready.contains("everything"), "{ready}");
}

#[test]
fn an_override_can_be_set_with_an_expiry() {
    let fixture = Fixture::new();
    spend(&fixture);
    let whom = r#""domain":"api","policy":"per-key","key":"u""#;
    let rules = r#"[{"name":"more","algorithm":"token_bucket","limit":50,"per":"1h"}]"#;
    let put =
        |more: &str| fixture.admin_send("POST", "/api/overrides", &format!(r#"{{{whom},"rules":{rules}{more}}}"#));
    let body = put(r#","expires_in":"1h""#).json();
    assert_eq!(body[0]["expires_in_seconds"], 3_600);
    assert_eq!(fixture.check(U)["limit"], 50);
    assert_eq!(put(r#","expires_in":"1us""#).status, 200);
    assert_eq!(fixture.check(U)["verdict"], "deny", "it has ended");
    put("");
    assert_eq!(fixture.admin_send("DELETE", "/api/overrides", &format!("{{{whom}}}")).status, 200);
    assert_eq!(fixture.check(U)["verdict"], "deny");
    fixture.admin_send("DELETE", "/api/overrides", &format!("{{{whom}}}")).is_problem(400, "has no override");
    put(r#","expires_in":"soon""#).is_problem(400, "no span of time");
    let bad = format!(r#"{{{whom},"rules":[{{"name":"more","algorithm":"token_bucket","limit":0,"per":"1h"}}]}}"#);
    fixture.admin_send("POST", "/api/overrides", &bad).is_problem(400, "limit is 0");
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let fixture = Fixture::new();
    let page = fixture.admin_get("/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(!page.body.contains("http://") && !page.body.contains("https://"));
    let parts = page.body.split('"').filter(|word| word.starts_with("/page/"));
    for part in parts.chain(["/", "/page/chart.js", "/page/talk.js", "/page/view.js"]) {
        let part = fixture.admin_get(part);
        assert_eq!(part.status, 200);
        let policy = part.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
    fixture.admin_get("/page/secrets").is_problem(404, "no resource at");
    fixture.admin_send("POST", "/", "").is_problem(405, "use GET");
}

/// A page of another site can make a browser send forms and plain text here, under a host name that resolves to this
/// machine.
#[test]
fn pages_of_other_sites_cannot_set_switches() {
    let fixture = Fixture::new();
    let body = br#"{"set":"off"}"#;
    ask(fixture.admin, "POST", "/api/switches", &[("content-type", "text/plain")], body)
        .is_problem(415, "application/json");
    ask(fixture.admin, "POST", "/api/switches", &[], body).is_problem(415, "application/json");
    let request = "GET /api/state HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    crate::client::raw(fixture.admin, request.as_bytes()).unwrap().is_problem(403, "localhost");
    assert_eq!(fixture.check(U)["verdict"], "allow");
    assert_eq!(fixture.admin_get("/api/switches").json()["everything_off"], false);
}

#[test]
fn unknown_paths_and_methods_are_refused_with_a_remedy() {
    let fixture = Fixture::new();
    fixture.admin_get("/nowhere").is_problem(404, "no resource at /nowhere");
    fixture.admin_send("POST", "/metrics", "").is_problem(405, "use GET");
    fixture.admin_send("PUT", "/api/overrides", "").is_problem(405, "POST, DELETE");
}

/// The text has the words of `ratekeeper explain`; nothing is charged, and time alone changes the answer.
#[test]
fn the_next_request_of_a_key_is_explained_without_charging_it() {
    let fixture = Fixture::new();
    let explain = |body: &str| fixture.admin_send("POST", "/api/explain", body);
    for _ in 0..2 {
        let fresh = explain(r#"{"key":"u"}"#).json();
        assert_eq!(fresh["subjects"][0]["remaining"], 2, "one is taken in the explanation alone: {fresh}");
    }
    spend(&fixture);
    let reply = explain(r#"{"domain":"api","key":"u","cost":2}"#);
    assert_eq!(reply.status, 200, "{reply:?}");
    let view = reply.json();
    let text = view["text"].as_str().unwrap();
    for part in [
        "domain \"api\", policy \"per-key\", at ",
        "ms: key \"u\" asks for 2\nDenied by rule few. The same request passes in ",
        "\n\nrule few (token_bucket 3 per 1h, burst 3): deny\n  one permit is ",
        "  so this rule admits 2 in ",
        "  afterwards 0 of 3 would pass at once; the key is in its initial state in ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let subject = &view["subjects"][0];
    assert_eq!((&subject["verdict"], &subject["policy"]), (&json!("deny"), &json!("per-key")));
    assert_eq!(subject["rules"][0]["retry_after_us"], subject["retry_after_us"]);

    // Every kind of state.
    let descriptor = |entry: &str| format!(r#"{{"domain":"api","descriptor":{{{entry}}}}}"#);
    fixture.check(&descriptor(r#""job":"j""#));
    fixture.check(&descriptor(r#""user":"7""#));
    let places = explain(&descriptor(r#""job":"j""#)).json();
    assert!(places["text"].as_str().unwrap().contains("before: 1 used, in 1 lease"), "{places}");
    let windows = explain(&descriptor(r#""user":"7""#)).json();
    assert!(windows["text"].as_str().unwrap().contains("2 of 10 used before"), "{windows}");
    assert!(
        windows["text"].as_str().unwrap().contains("rule watched (sliding_log 1 per 1h, shadow): never; not enforced")
    );

    let unmatched = explain(&descriptor(r#""colour":"red""#)).json();
    assert_eq!(unmatched["text"], "domain \"api\": no policy matches; the request is allowed.\n");
    for (body, part) in [
        ("{}", "give a key or a descriptor"),
        (r#"{"key":"u","descriptor":{"a":"b"}}"#, "and not both"),
        (r#"{"kay":"u"}"#, "unknown field"),
        (r#"{"key":""}"#, "the key is empty"),
    ] {
        let refused = explain(body);
        assert!(refused.status == 400 && refused.body.contains(part), "{body}: {refused:?}");
    }
    assert_eq!(fixture.admin_get("/api/explain").status, 405);
    assert_eq!(fixture.post("/api/explain", r#"{"key":"u"}"#).status, 404, "not on the data port");
}

#[test]
fn an_override_and_a_switch_are_explained() {
    let fixture = Fixture::new();
    let put = r#"{"domain":"api","policy":"per-key","key":"vip","rules":[{"name":"wide","algorithm":"sliding_counter","limit":500,"per":"1m"}]}"#;
    assert_eq!(fixture.admin_send("POST", "/api/overrides", put).status, 200);
    let view = fixture.admin_send("POST", "/api/explain", r#"{"key":"vip"}"#).json();
    assert!(
        view["text"].as_str().unwrap().contains("rule wide (sliding_counter 500 per 1m in 10 buckets): allow"),
        "{view}"
    );
    assert_eq!(fixture.admin_send("POST", "/api/switches", r#"{"set":"off"}"#).status, 200);
    let off = fixture.admin_send("POST", "/api/explain", r#"{"key":"vip"}"#).json();
    assert_eq!(off["text"], "domain \"api\": a switch turns all limits off; the request is allowed.\n");
}

#[test]
fn recent_callers_and_refusals_are_listed_with_their_reasons() {
    let fixture = Fixture::new();
    spend(&fixture);
    fixture.check(r#"{"domain":"api","descriptor":{"job":"j"}}"#);
    let recent = fixture.admin_get("/api/recent").json();
    let refusal = &recent["refusals"][0];
    assert_eq!(recent["refusals"].as_array().unwrap().len(), 1);
    let fields = ["domain", "policy", "rule", "key", "kind", "verdict", "source"].map(|field| &refusal[field]);
    assert_eq!(fields, ["api", "per-key", "few", "u", "refused", "deny", "store"]);
    let reason = refusal["reason"].as_str().unwrap();
    assert!(reason.starts_with("rule few: 0 of 3 left for a cost of 1, passes in "), "{reason}");
    assert!(refusal["retry_after_us"].as_u64().unwrap() > 0);
    let callers: Vec<_> =
        recent["callers"].as_array().unwrap().iter().map(|one| (&one["policy"], &one["keys"][0]["key"])).collect();
    assert_eq!(callers, [(&json!("per-key"), &json!("u")), (&json!("places"), &json!("j"))]);
    assert_eq!(fixture.admin_get("/api/state").json()["recent_refusals"][0]["key"], "u");
    assert_eq!(fixture.admin_send("POST", "/api/recent", "{}").status, 405);
    assert_eq!(fixture.get("/api/recent", &[]).status, 404, "not on the data port");
}

/// Refusals are logged, admissions by their share; a line that exceeds the rate is counted.
#[test]
fn decisions_are_logged_as_json_lines() {
    let fixture = Fixture::start(|folder, config| {
        config.decision_log =
            Some(DecisionLogConfig { file: folder.path().join("decisions.jsonl"), sample: 1.0, per_second: 1_000 });
    });
    spend(&fixture);
    wait_until("four lines are written", Duration::from_secs(30), || {
        std::fs::read_to_string(fixture.path("decisions.jsonl")).is_ok_and(|text| text.lines().count() == 4)
    });
    let text = std::fs::read_to_string(fixture.path("decisions.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let verdicts: Vec<_> = lines.iter().map(|line| line["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["allow", "allow", "allow", "deny"]);
    assert_eq!(
        (&lines[3]["denial"], &lines[3]["rule"], &lines[3]["key"]),
        (&json!("refused"), &json!("few"), &json!("u"))
    );
    assert_eq!(fixture.metric("ratekeeper_decision_log_lines_total"), Some(4.0));
}
