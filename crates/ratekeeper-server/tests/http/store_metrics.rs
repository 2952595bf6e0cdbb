//! Metrics and state of a Redis store: calls, merged checks, cached denials, allotments.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use ratekeeper_server::security::Secret;
use ratekeeper_testkit::servers::{RedisServer, wait_until};

use crate::{
    client::{ask_on, connect},
    fixture::Fixture,
};

const RULES: &str = r#"
domain: api
policies:
  - name: prepaid
    match: { key: "*" }
    speed: prepaid
    rules: [{ name: many, algorithm: token_bucket, limit: 1000, per: 1s }]
  - name: exact
    match: { user: "*" }
    rules: [{ name: many, algorithm: token_bucket, limit: 1000, per: 1s }]
"#;

/// A server on this store, once it is connected.
fn on(url: &str) -> Fixture {
    let fixture = Fixture::start(|folder, config| {
        fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
        config.store = Secret::new(url);
        config.storage.deadline = Duration::from_secs(2);
    });
    wait_until("the store", Duration::from_secs(20), || fixture.metric("ratekeeper_store_up") == Some(1.0));
    fixture
}

/// An alert on the first event needs a value to compare with.
#[test]
fn metrics_of_calls_and_allotments_exist_from_the_start() {
    let server = RedisServer::start();
    let fixture = on(&server.url());
    let mut names: Vec<String> = [
        "merged_checks_total",
        "cached_denials_total",
        "allotment_granted_total",
        "allotment_held",
        "allotment_holders",
    ]
    .map(str::to_owned)
    .to_vec();
    names.extend(["single", "merged", "allotment"].map(|kind| format!("store_calls_total{{kind=\"{kind}\"}}")));
    names.extend(
        ["used", "returned", "expired", "lost"]
            .map(|outcome| format!("allotment_permits_total{{outcome=\"{outcome}\"}}")),
    );
    names.extend(["short", "overtaken", "unknown"].map(|event| format!("allotments_total{{event=\"{event}\"}}")));
    for name in names {
        assert_eq!(fixture.metric(&format!("ratekeeper_{name}")), Some(0.0), "{name}");
    }
    assert_eq!(on("memory").metric("ratekeeper_allotment_held"), None, "a store in memory has none");
}

/// Rates over counters that appear with their first event would miss it; gauges say what a limit is.
#[test]
fn counters_and_limits_exist_before_the_first_request() {
    let fixture = on("memory");
    let metric = |name: &str| fixture.metric(name).unwrap_or_else(|| panic!("no {name}"));
    for verdict in ["allow", "deny"] {
        let labels = format!("domain=\"api\",policy=\"exact\",rule=\"many\",verdict=\"{verdict}\",source=\"store\"");
        assert_eq!(metric(&format!("ratekeeper_decisions_total{{{labels}}}")), 0.0);
    }
    for reason in ["no_policy", "unknown_domain", "switched_off", "unlimited", "replaced"] {
        assert_eq!(metric(&format!("ratekeeper_unlimited_requests_total{{reason=\"{reason}\"}}")), 0.0);
    }
    for counter in ["refused_connections_total", "refused_tokens_total", "bad_requests_total", "refused_requests_total"]
    {
        assert_eq!(metric(&format!("ratekeeper_{counter}{{wire=\"http\"}}")), 0.0);
    }
    assert_eq!(metric("ratekeeper_connection_limit{wire=\"http\"}"), 10_000.0);
    assert_eq!(metric("ratekeeper_key_bytes_limit"), f64::from(256 << 20));
    let rule = "{domain=\"api\",policy=\"exact\",rule=\"many\",algorithm=\"token_bucket\"}";
    let of_rule = |name: &str| metric(&format!("ratekeeper_rule_{name}{rule}"));
    assert_eq!([of_rule("limit"), of_rule("period_seconds"), of_rule("shadow")], [1000.0, 1.0, 0.0]);
    assert_eq!((metric("ratekeeper_policies"), metric("ratekeeper_store_degraded")), (2.0, 0.0));

    let build = format!("ratekeeper_build_info{{version=\"{}\",commit=\"", env!("CARGO_PKG_VERSION"));
    assert!(fixture.admin_get("/metrics").body.contains(&build));
    let (memory, files) = (metric("process_resident_memory_bytes"), metric("process_open_fds"));
    assert!(memory > f64::from(1 << 20) && files > 5.0 && files < metric("process_max_fds"), "{memory} {files}");
    let started = metric("process_start_time_seconds");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!(started > now - 3600.0 && started <= now && metric("process_cpu_seconds_total") > 0.0, "{started} {now}");
}

/// `docs/monitoring.md` lists every metric of both stores.
#[test]
fn every_metric_is_documented() {
    let server = RedisServer::start();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring.md");
    let page = fs::read_to_string(page).unwrap();
    let mut names = BTreeSet::new();
    for fixture in [on(&server.url()), on("memory")] {
        let metrics = fixture.admin_get("/metrics").body;
        let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(str::to_owned);
        names.extend(types.filter_map(|line| line.split(' ').next().map(str::to_owned)));
    }
    assert!(names.len() > 30, "{names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !page.contains(&format!("`{name}"))).collect();
    assert!(missing.is_empty(), "not in docs/monitoring.md: {missing:?}");
}

#[test]
fn the_state_has_sources_speeds_and_allotments() {
    let server = RedisServer::start();
    let fixture = on(&server.url());
    for body in [r#"{"domain":"api","key":"u"}"#, r#"{"domain":"api","descriptor":{"user":"u"}}"#] {
        assert_eq!(fixture.post("/v1/check", body).json()["source"], "store", "the first request of a key");
    }
    let state = fixture.admin_get("/api/state").json();
    assert_eq!(state["sources"], serde_json::json!({ "store": 2 }));
    let speeds: Vec<_> = state["policies"].as_array().unwrap().iter().map(|policy| &policy["speed"]).collect();
    assert_eq!(speeds, ["exact", "prepaid"]);
    let allotments = &state["store"]["allotments"];
    let number = |name: &str| allotments[name].as_u64().unwrap();
    let outcomes = ["used", "returned", "expired", "lost", "held"].map(number);
    assert_eq!(number("granted"), outcomes.iter().sum::<u64>());

    let memory = on("memory").admin_get("/api/state").json();
    assert_eq!(memory["store"].get("allotments"), None);
}

/// A busy key of a prepaid policy is decided by its allotment, over HTTP; every permit of it is accounted for, and a stop
/// returns what is left.
#[test]
fn a_busy_key_is_decided_by_its_allotment() {
    let server = RedisServer::start();
    let fixture = on(&server.url());
    let body = r#"{"domain":"api","key":"busy"}"#;
    let mut connection = connect(fixture.http);
    let mut by_source = std::collections::BTreeMap::<String, u64>::new();
    wait_until("an allotment", Duration::from_secs(60), || {
        for _ in 0..200 {
            let reply = ask_on(&mut connection, body).unwrap().json();
            *by_source.entry(reply["source"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        by_source.get("allotment").is_some_and(|count| *count > 200)
    });
    let metric = |name: &str| fixture.metric(&format!("ratekeeper_{name}")).unwrap();
    let outcomes = ["used", "returned", "expired", "lost"];
    wait_until("the books to agree", Duration::from_secs(20), || {
        let spent: f64 =
            outcomes.iter().map(|outcome| metric(&format!("allotment_permits_total{{outcome=\"{outcome}\"}}"))).sum();
        (metric("allotment_granted_total") - spent - metric("allotment_held")).abs() < 0.5
    });
    let used = metric("allotment_permits_total{outcome=\"used\"}");
    assert!((used - by_source["allotment"] as f64).abs() < 0.5, "{used} used, {by_source:?}");
    let calls: f64 = ["single", "merged", "allotment"]
        .map(|kind| metric(&format!("store_calls_total{{kind=\"{kind}\"}}")))
        .iter()
        .sum();
    let decided: u64 = by_source.values().sum();
    assert!(calls > 0.0 && calls < decided as f64, "{calls} calls, {by_source:?}");
    let state = fixture.admin_get("/api/state").json();
    assert!(state["sources"]["allotment"].as_u64().unwrap() >= by_source["allotment"], "{state}");
}
