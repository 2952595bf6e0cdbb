//! Rule files in process: matching, overrides, replacement. The server's tests compare the decisions with the engine's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ratekeeper::{
    Descriptor, LimiterEvent, ManualClock, MemoryStore, OnQuotaChange, RequestError, RuleAnswer, RuleLimiter,
    Timestamp,
    rules::{Format, RuleFile, read_str},
};

const RULES: &str = r#"
domain: api
policies:
  - name: free
    match: { user: "*" }
    rules: [{ name: minute, algorithm: token_bucket, limit: 10, per: 1m }]
    overrides:
      - key: acme
        rules: [{ name: minute, algorithm: token_bucket, limit: 100, per: 1m }]
      - key: trial
        until: 2027-01-31T23:59:59Z
        rules: [{ name: minute, algorithm: token_bucket, limit: 50, per: 1m }]
  - name: upload
    match: { user: "*", path: /upload }
    cost: 5
    rules: [{ name: minute, algorithm: token_bucket, limit: 20, per: 1m }]
  - name: jobs
    match: { pool: "*" }
    rules: [{ name: slots, algorithm: concurrency, limit: 1, lease: 1m }]
"#;

fn file(text: &str) -> RuleFile {
    read_str("rules.yaml", text, Format::Yaml).unwrap()
}

fn limiter() -> (RuleLimiter<MemoryStore<ManualClock>>, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
    let limiter = RuleLimiter::new(&[file(RULES)], MemoryStore::with_clock(clock.clone())).unwrap();
    (limiter, clock)
}

/// Policy, limit and remaining permits of a decision.
#[track_caller]
fn numbers(answer: &RuleAnswer) -> (String, u64, u64) {
    let RuleAnswer::Decided { policy, decision, .. } = answer else { panic!("{answer:?}") };
    (policy.name().to_owned(), decision.limit(), decision.remaining())
}

#[test]
fn the_most_specific_policy_decides_at_its_cost() {
    let (limiter, _) = limiter();
    let user = limiter.check_now(("api", [("user", "42")])).unwrap();
    assert_eq!(numbers(&user), ("free".to_owned(), 10, 9));
    let upload = limiter.check_now(("api", [("path", "/upload"), ("user", "42")])).unwrap();
    assert_eq!(numbers(&upload), ("upload".to_owned(), 20, 15));
    let upload = Descriptor::new("api").entry("user", "42").entry("path", "/upload").cost(1);
    assert_eq!(numbers(&limiter.check_now(upload).unwrap()), ("upload".to_owned(), 20, 14));
}

#[test]
fn what_no_rule_is_for_is_allowed_and_reported() {
    let (limiter, _) = limiter();
    let unmatched = limiter.check_now(("api", [("color", "red")])).unwrap();
    assert!(matches!(unmatched, RuleAnswer::Unmatched) && unmatched.is_allowed() && unmatched.decision().is_none());
    let unknown = limiter.check_now(("shop", [("user", "42")])).unwrap();
    assert!(matches!(unknown, RuleAnswer::UnknownDomain) && unknown.is_allowed());
    let ambiguous = limiter.check_now(Descriptor::key("api", "42"));
    let Err(error @ RequestError::AmbiguousKey(_)) = ambiguous else { panic!("{ambiguous:?}") };
    assert!(error.to_string().contains("free, jobs"), "{error}");
}

#[test]
fn overrides_decide_until_they_end() {
    let (limiter, clock) = limiter();
    let limit = |user| numbers(&limiter.check_now(("api", [("user", user)])).unwrap()).1;
    assert_eq!([limit("other"), limit("acme"), limit("trial")], [10, 100, 50]);
    clock.set(Timestamp::from_secs(1_801_439_999)); // 2027-01-31T23:59:59Z
    assert_eq!([limit("other"), limit("acme"), limit("trial")], [10, 100, 10]);
}

/// Everything beyond a check: the limiter of the policy that matches.
#[tokio::test(start_paused = true)]
async fn all_ways_of_asking_work_on_a_match() {
    let (limiter, _) = limiter();
    let found = limiter.find(("api", [("user", "42"), ("path", "/upload")])).unwrap().unwrap();
    assert_eq!((&*found.key, found.cost), ("42", 5));
    let reservation = found.limiter.reserve((&found.key, 15)).await.unwrap();
    assert_eq!(reservation.settle(10).await.unwrap().remaining(), 10);
    assert!(limiter.find(("api", [("color", "red")])).unwrap().is_none());

    let jobs = limiter.find(("api", [("pool", "a")])).unwrap().unwrap();
    let lease = jobs.limiter.hold(&jobs.key).await.unwrap();
    let denied = limiter.check(("api", [("pool", "a")])).await.unwrap();
    assert!(!denied.is_allowed());
    drop(lease);
    assert!(limiter.check(("api", [("pool", "a")])).await.unwrap().is_allowed());
}

#[test]
fn replaced_rules_keep_the_counts_of_unchanged_policies() {
    let (limiter, _) = limiter();
    let take = |entries: &[(&str, &str)]| numbers(&limiter.check_now(("api", entries)).unwrap());
    let (user, acme, upload) = ([("user", "42")], [("user", "acme")], [("user", "42"), ("path", "/upload")]);
    assert_eq!((take(&user).2, take(&acme).2, take(&upload).2), (9, 99, 15));
    let versions = limiter.store().policy_versions();

    limiter.replace(&[file(RULES)]).unwrap();
    assert_eq!(limiter.store().policy_versions(), versions, "nothing was installed again");
    assert_eq!((take(&user).2, take(&acme).2, take(&upload).2), (8, 98, 10));

    // One policy changes: by default, used permits stay used. Its overrides have the same rules as before.
    limiter.replace(&[file(&RULES.replace("limit: 10,", "limit: 12,"))]).unwrap();
    assert_eq!((take(&user).1, take(&user).2), (12, 8));
    assert_eq!((take(&acme).2, take(&upload).2), (97, 5));

    limiter.replace_with(&[file(&RULES.replace("limit: 10,", "limit: 20,"))], OnQuotaChange::Fresh).unwrap();
    assert_eq!((take(&user).2, take(&acme).2), (19, 96));

    limiter.replace(&[]).unwrap();
    assert!(matches!(limiter.check_now(("api", user)).unwrap(), RuleAnswer::UnknownDomain));
}

#[test]
fn events_have_the_name_in_the_file() {
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&events);
    let observer = move |event: &LimiterEvent<'_>| {
        if let LimiterEvent::Decided { policy, cost, .. } = event {
            seen.lock().unwrap().push(format!("{policy} {cost}"));
        }
    };
    let limiter = RuleLimiter::with_observer(&[file(RULES)], MemoryStore::new(), observer).unwrap();
    for entries in [[("user", "42")], [("user", "acme")]] {
        assert!(limiter.check_now(("api", entries)).unwrap().is_allowed());
    }
    assert_eq!(*events.lock().unwrap(), ["free 1", "free 1"]);
}

/// Requests under old and new rules at the same time are all decided.
#[test]
fn rules_can_be_replaced_while_requests_are_decided() {
    let (limiter, clock) = limiter();
    std::thread::scope(|scope| {
        for user in ["1", "2"] {
            let limiter = limiter.clone();
            scope.spawn(move || {
                for _ in 0..5_000 {
                    let answer = limiter.check_now(("api", [("user", user)])).unwrap();
                    assert!(answer.decision().is_some());
                }
            });
        }
        for limit in 1..50 {
            limiter.replace(&[file(&RULES.replace("limit: 10,", &format!("limit: {limit},")))]).unwrap();
            clock.advance(Duration::from_secs(1));
        }
    });
}
