//! Scale tests of reloads and overrides: no change consumes a resource that only a restart would free.

use std::{fmt::Write as _, sync::Arc};

use ratekeeper_core::{Effect, Policy, Quota, Rule, Span, Timestamp};
use ratekeeper_memory::{ManualClock, MemoryStore};
use ratekeeper_rules::{RuleFile, Rules, read_paths};
use ratekeeper_server::{
    engine::Engine,
    request::Subject,
    rulebook::Override,
    telemetry::Telemetry,
    wiring::{AnyStore, StorageSettings, StoreHealth, WhenFull, open_store},
};

use crate::{Bench, block_on, remaining};

const START: Timestamp = Timestamp::from_micros(1_768_212_847_000_000);

fn store(bench: &Bench) -> &MemoryStore<ManualClock> {
    match bench.0.store() {
        AnyStore::Manual(store) => store,
        other => panic!("not a store with a manual clock: {other:?}"),
    }
}

/// A rule file with one policy for each number, each for one tenant.
fn rules(policies: std::ops::Range<u32>) -> String {
    let mut text = "domain: api\npolicies:\n".to_owned();
    for number in policies {
        writeln!(
            text,
            "  - {{ name: t{number}, match: {{ tenant: t{number}, user: \"*\" }}, rules: [{{ name: day, algorithm: fixed_window, limit: 9, per: 1d }}] }}"
        )
        .unwrap();
    }
    text
}

/// The same files with this limit in every policy.
fn with_limit(files: &[RuleFile], limit: u64) -> Vec<RuleFile> {
    let mut files = files.to_vec();
    for file in &mut files {
        let Rules::Policies(entries) = &mut file.rules else { panic!("policies were written") };
        for entry in entries {
            let rule = Rule::fixed_window("day", Quota::per_day(limit));
            entry.policy = Policy::new(entry.policy.name(), [rule]).unwrap().in_domain("api").unwrap();
        }
    }
    files
}

/// Every reload changes all of two thousand policies, some of which have stored keys.
#[test]
fn a_hundred_reloads_of_two_thousand_changed_policies_are_all_accepted() {
    let (bench, _clock) = Bench::by_clock(&rules(0..1), START);
    let file = ratekeeper_rules::read_str("rules.yaml", &rules(0..2_000), ratekeeper_rules::Format::Yaml).unwrap();
    let files = [file];
    for reload in 0..100 {
        bench.0.load(Ok(with_limit(&files, 200 + reload))).unwrap();
        let tenant = format!("t{}", reload * 7);
        assert_eq!(remaining(&bench.take("api", &[("tenant", &tenant), ("user", "u")])), 199 + reload);
        assert_eq!(remaining(&bench.take("api", &[("tenant", "t1999"), ("user", "u")])), 199, "used stays used");
    }
    let versions = store(&bench).policy_versions();
    assert!(versions < 2_000 + 4_096, "{versions} versions are kept");
}

/// Each override has different numbers, and its key is used before the override is removed.
#[test]
fn forty_thousand_overrides_are_added_and_removed() {
    let (bench, clock) = Bench::by_clock(
        "domain: api\npolicies:\n  - { name: user, match: { user: \"*\" }, rules: [{ name: second, algorithm: token_bucket, limit: 5, per: 1s }] }\n",
        START,
    );
    let mut most = 0;
    for number in 0..40_000_u64 {
        let key = format!("u{number}");
        let exempt = Override {
            domain: "api".to_owned(),
            policy: "user".to_owned(),
            key: key.clone(),
            rules: vec![Rule::token_bucket("second", Quota::per_second(100 + number))],
            effect: Effect::Limit,
            until: None,
        };
        bench.0.add_override(exempt).unwrap();
        assert_eq!(remaining(&bench.take("api", &[("user", &key)])), 99 + number);
        assert!(bench.0.remove_override("api", "user", &key).unwrap());
        assert_eq!(remaining(&bench.take("api", &[("user", &key)])), 4);
        clock.advance(Span::from_millis(100));
        most = most.max(store(&bench).policy_versions());
    }
    assert!(most < 1_000, "{most} versions at a time");
    clock.advance(Span::HOUR);
    store(&bench).sweep(usize::MAX);
    assert_eq!(store(&bench).policy_versions(), 1);
}

/// The engine loads a hundred thousand policies in several files of one domain, which `config check` accepts.
#[test]
fn a_hundred_thousand_policies_in_several_files_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    for part in 0..4 {
        std::fs::write(folder.path().join(format!("{part}.yaml")), rules(part * 25_000..(part + 1) * 25_000)).unwrap();
    }
    let files = read_paths([folder.path()]).unwrap();
    let (bench, _clock) = Bench::by_clock(&rules(0..1), START);
    bench.0.load(Ok(files.clone())).unwrap();
    assert_eq!(store(&bench).policy_versions(), 100_000);
    for tenant in ["t0", "t33000", "t99999"] {
        assert_eq!(remaining(&bench.take("api", &[("tenant", tenant), ("user", "u")])), 8);
    }
    bench.0.load(Ok(files)).unwrap();
    assert_eq!(store(&bench).policy_versions(), 100_000, "what is unchanged is not installed again");
    assert_eq!(remaining(&bench.take("api", &[("tenant", "t99999"), ("user", "u")])), 7);
}

/// New keys without room are refused or admitted according to the settings, and the statistics distinguish the two.
#[test]
fn decisions_on_keys_without_room_are_configurable() {
    for (when_full, least, most) in [(WhenFull::Refuse, 0, 100), (WhenFull::Admit, 500, 500)] {
        let settings = StorageSettings { memory_bytes: 64 << 10, when_full, ..StorageSettings::default() };
        let store = block_on(open_store("memory", &settings)).unwrap();
        let telemetry = Telemetry::default();
        let bench = Bench(Engine::new(store, Arc::new(telemetry)));
        bench.load(&rules(0..1)).unwrap();
        let used_up = |key: &str| {
            let entries = [("tenant", "t0"), ("user", key)];
            let answer = bench.ask("api", &[Subject::descriptor(&entries).costing(9)]).unwrap();
            answer.decision.unwrap().is_allowed()
        };
        for number in 0..5_000 {
            let _ = used_up(&format!("u{number}"));
        }
        let before = StoreHealth::of(bench.0.store());
        let admitted = (0..500).filter(|number| used_up(&format!("new {number}"))).count();
        let after = StoreHealth::of(bench.0.store());
        assert!((least..=most).contains(&admitted), "{when_full:?}: {admitted} of 500 admitted");
        assert_eq!(after.overflowed - before.overflowed, 500);
        assert_eq!(after.unenforced - before.unenforced, if when_full == WhenFull::Admit { 500 } else { 0 });
        assert!(!used_up("u0"), "a known key is limited either way");
    }
}
