//! Many policies and many changes: reloads and overrides never use up anything that only a restart gives back.

use std::{fmt::Write as _, sync::Arc};

use tollgate_core::{Micros, Policy, Quota, Rule};
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_rules::{RuleFile, Rules, read_paths};
use tollgate_server::{
    engine::{Engine, Subject},
    rulebook::Exempt,
    telemetry::Telemetry,
    wiring::{Storage, StorageSettings, WhenFull},
};

use crate::{Bench, block_on, remaining};

const START: Micros = Micros(1_768_212_847_000_000);

fn store(bench: &Bench) -> &MemoryStore<ManualClock> {
    match bench.0.store() {
        Storage::ByHand(store) => store,
        other => panic!("a clock in the test's hands was asked for: {other:?}"),
    }
}

/// Rule files of so many policies, one for each tenant.
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

/// The same files with another limit in every policy, as an edit of all of them would leave them.
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

/// Every reload changes all of two thousand policies; keys of some of them stay behind.
#[test]
fn a_hundred_reloads_of_two_thousand_changed_policies_are_all_accepted() {
    let (bench, _clock) = Bench::by_clock(&rules(0..1), START);
    let file = tollgate_rules::read_str("rules.yaml", &rules(0..2_000), tollgate_rules::Format::Yaml).unwrap();
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

/// Each override has its own numbers, and its key is counted under them before they are taken back.
#[test]
fn forty_thousand_overrides_come_and_go() {
    let (bench, clock) = Bench::by_clock(
        "domain: api\npolicies:\n  - { name: user, match: { user: \"*\" }, rules: [{ name: second, algorithm: token_bucket, limit: 5, per: 1s }] }\n",
        START,
    );
    let mut most = 0;
    for number in 0..40_000_u64 {
        let key = format!("u{number}");
        let exempt = Exempt {
            domain: "api".to_owned(),
            policy: "user".to_owned(),
            key: key.clone(),
            rules: vec![Rule::token_bucket("second", Quota::per_second(100 + number))],
            until: None,
        };
        bench.0.exempt(exempt).unwrap();
        assert_eq!(remaining(&bench.take("api", &[("user", &key)])), 99 + number);
        assert!(bench.0.unexempt("api", "user", &key).unwrap());
        assert_eq!(remaining(&bench.take("api", &[("user", &key)])), 4);
        clock.advance(Micros::from_millis(100));
        most = most.max(store(&bench).policy_versions());
    }
    assert!(most < 1_000, "{most} versions at a time");
    clock.advance(Micros::HOUR);
    store(&bench).sweep(usize::MAX);
    assert_eq!(store(&bench).policy_versions(), 1);
}

/// What `config check` accepts, `serve` puts into force: a hundred thousand policies in several files of one domain.
#[test]
fn a_hundred_thousand_policies_in_several_files_are_put_into_force() {
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

/// New keys without room are refused or admitted as the settings say, and the metrics tell which.
#[test]
fn what_new_keys_get_without_room_is_a_setting() {
    for (when_full, least, most) in [(WhenFull::Refuse, 0, 100), (WhenFull::Admit, 500, 500)] {
        let settings = StorageSettings { memory_bytes: 64 << 10, when_full, ..StorageSettings::default() };
        let store = block_on(Storage::open("memory", &settings)).unwrap();
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
        let before = bench.0.store().health();
        let admitted = (0..500).filter(|number| used_up(&format!("new {number}"))).count();
        let after = bench.0.store().health();
        assert!((least..=most).contains(&admitted), "{when_full:?}: {admitted} of 500 admitted");
        assert_eq!(after.overflowed - before.overflowed, 500);
        assert_eq!(after.unenforced - before.unenforced, if when_full == WhenFull::Admit { 500 } else { 0 });
        assert!(!used_up("u0"), "a known key is limited either way");
    }
}
