//! Equivalence of `ratekeeper::RuleLimiter` and the engine: the same files, descriptors and clock give the same
//! answers.

use std::{path::Path, time::Duration};

use ratekeeper::{Descriptor, RuleAnswer, RuleLimiter};
use ratekeeper_core::{Decision, Timestamp};
use ratekeeper_memory::{ManualClock, MemoryStore};
use ratekeeper_rules::{EnvoyDescriptor, EnvoyValue, Format, MatchValue, RuleFile, read_path, read_str};
use ratekeeper_server::{
    engine::{Answer, Engine, Resolution},
    request::{Request, Subject},
    wiring::AnyStore,
};
use ratekeeper_testkit::random::Random;

use crate::TRY;

/// Before the overrides of `rules/good/overrides.yaml` expire.
const START: Timestamp = Timestamp::from_secs(1_801_439_900);

/// An engine and a limiter with the same rules, on one clock.
struct Pair {
    engine: Engine,
    limiter: RuleLimiter<MemoryStore<ManualClock>>,
    clock: ManualClock,
}

impl Pair {
    fn new(files: Vec<RuleFile>) -> Self {
        let clock = ManualClock::at(START);
        let limiter = RuleLimiter::new(&files, MemoryStore::with_clock(clock.clone())).unwrap();
        let engine = Engine::new(AnyStore::Manual(MemoryStore::with_clock(clock.clone())), Default::default());
        engine.load(Ok(files)).unwrap();
        Self { engine, limiter, clock }
    }

    /// Sends one request of several descriptors to both and compares the answers. Returns whether it was allowed.
    fn compare_all(&self, domain: &str, all: &[Vec<(&str, &str)>]) -> bool {
        let subjects: Vec<Subject<'_>> = all.iter().map(|entries| Subject::descriptor(entries)).collect();
        let request = Request { domain, subjects: &subjects, verb: TRY };
        let expected = self.engine.now(|| self.engine.decide(&request)).unwrap().unwrap();
        let found = self.limiter.check_all_now(all.iter().map(|entries| (domain, entries.as_slice()))).unwrap();
        let numbers = |decision: &Decision| (decision.verdict, decision.decided_by, decision.rules.clone());
        match &found.decision {
            Some(decision) => {
                assert_eq!(Some(numbers(decision)), expected.decision.as_ref().map(numbers), "{domain} {all:?}");
            }
            // Lists decide without a store; the engine has a decision then, too.
            None => assert_eq!(found.is_allowed(), expected.is_allowed(), "{domain} {all:?}"),
        }
        assert_eq!(found.parts.len(), expected.subjects.len());
        for (part, subject) in found.parts.iter().zip(&expected.subjects) {
            assert_eq!(part.descriptor, subject.subject);
            // An answer without a decision names no policy in the library.
            if let Some(policy) = part.answer.policy() {
                assert_eq!(Some(policy.name()), subject.policy_name());
            }
            assert_eq!(
                part.answer.decision().map(|decision| decision.verdict).unwrap_or(subject.verdict),
                subject.verdict
            );
        }
        found.is_allowed()
    }

    /// Sends the same request to both and compares the answers. Returns whether a policy decided.
    fn compare(&self, domain: &str, entries: &[(&str, &str)], cost: Option<u64>) -> bool {
        let subject = Subject { cost, ..Subject::descriptor(entries) };
        let request = Request { domain, subjects: &[subject], verb: TRY };
        let expected = self.engine.now(|| self.engine.decide(&request)).unwrap().unwrap();
        let descriptor = Descriptor::from((domain, entries));
        let descriptor = cost.into_iter().fold(descriptor, Descriptor::cost);
        let found = self.limiter.check_now(descriptor).unwrap();
        assert_eq!(found.is_allowed(), expected.is_allowed(), "{domain} {entries:?} {cost:?}: {found:?}, {expected:?}");
        assert_same(&found, &expected);
        matches!(found, RuleAnswer::Decided { .. })
    }
}

#[track_caller]
fn assert_same(found: &RuleAnswer, expected: &Answer) {
    let subject = expected.deciding().unwrap();
    match (found, subject.resolution) {
        (RuleAnswer::Decided { policy, key, decision, .. }, Resolution::Decided) => {
            let expected = expected.decision.as_ref().unwrap();
            assert_eq!((policy.name(), &**key), (subject.policy.as_ref().unwrap().name(), &*subject.key));
            assert_eq!((decision.verdict, decision.decided_at), (expected.verdict, expected.decided_at));
            assert_eq!(decision.rules, expected.rules);
        }
        (RuleAnswer::Unmatched, Resolution::Unmatched)
        | (RuleAnswer::UnknownDomain, Resolution::UnknownDomain)
        | (RuleAnswer::Unlimited, Resolution::Unlimited)
        | (RuleAnswer::RefusedAlways, Resolution::RefusedAlways) => {}
        // A ban that refuses nothing: in shadow mode, or with a cost of 0.
        (RuleAnswer::Unlimited, Resolution::RefusedAlways) => assert!(expected.is_allowed()),
        other => panic!("{other:?}"),
    }
}

/// Entries with names and values of the rules of a file, and some others.
fn vocabulary(file: &RuleFile) -> Vec<(String, String)> {
    let mut words = Vec::new();
    for policy in file.policies() {
        for (name, value) in &policy.matcher {
            let literal = match value {
                MatchValue::Literal(literal) => literal.as_str(),
                MatchValue::OneOf(literals) => literals[0].as_str(),
                MatchValue::Any => "42",
            };
            words.push((name.clone(), literal.to_owned()));
            words.extend(["acme", "globex", "eu"].map(|value| (name.clone(), value.to_owned())));
        }
    }
    fn walk(level: &[EnvoyDescriptor], words: &mut Vec<(String, String)>) {
        for descriptor in level {
            if let EnvoyValue::Literal(literal) = &descriptor.value {
                words.push((descriptor.key.clone(), literal.clone()));
            }
            words.extend(["42", "robot-1"].map(|value| (descriptor.key.clone(), value.to_owned())));
            walk(&descriptor.descriptors, words);
        }
    }
    walk(file.descriptors(), &mut words);
    words.push(("unknown".to_owned(), "entry".to_owned()));
    words
}

#[test]
fn random_descriptors_are_decided_alike() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules/good");
    let mut paths: Vec<_> = std::fs::read_dir(rules).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 10);
    let (mut random, mut decided) = (Random::new(11), 0);
    for path in paths {
        let file = read_path(&path).unwrap();
        let (domain, words) = (file.domain.clone(), vocabulary(&file));
        let words: Vec<_> = words.iter().collect();
        let pair = Pair::new(vec![file]);
        for _ in 0..400 {
            let picked: Vec<_> = (0..random.below(4)).map(|_| random.pick(&words)).collect();
            let entries: Vec<(&str, &str)> =
                picked.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let cost = random.pick(&[None, None, Some(0), Some(1), Some(7)]);
            decided += u64::from(pair.compare(&domain, &entries, cost));
            pair.clock.advance(Duration::from_millis(random.below(400)));
        }
        pair.compare("no such domain", &[("user", "42")], None);
    }
    assert!(decided > 1_000, "{decided} descriptors were decided by a policy");
}

/// An override expires at the same instant in both, and the same rules apply afterwards.
#[test]
fn overrides_end_alike() {
    let file = read_str("rules.yaml", OVERRIDES, Format::Yaml).unwrap();
    let pair = Pair::new(vec![file]);
    for _ in 0..40 {
        assert!(pair.compare("api", &[("user", "acme")], None));
        assert!(pair.compare("api", &[("user", "other")], None));
        pair.clock.advance(Duration::from_secs(10));
    }
}

/// The override expires 200 s after [`START`].
const OVERRIDES: &str = r#"
domain: api
policies:
  - name: per-user
    match: { user: "*" }
    rules: [{ name: minute, algorithm: sliding_log, limit: 3, per: 1m }]
    overrides:
      - key: acme
        until: 2027-02-01T00:01:40Z
        rules: [{ name: minute, algorithm: sliding_log, limit: 5, per: 1m }]
"#;

#[test]
fn bans_quotas_and_shadows_are_decided_alike() {
    let file = read_str("edge.yaml", EDGE, Format::Yaml).unwrap();
    let pair = Pair::new(vec![file]);
    for _ in 0..6 {
        for name in ["banned", "watched", "quota", "shadow", "free"] {
            for cost in [None, Some(0), Some(2)] {
                pair.compare("edge", &[(name, "42")], cost);
            }
        }
    }
}

const EDGE: &str = r#"
domain: edge
descriptors:
  - { key: banned, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: watched, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: quota, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: shadow, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: free, rate_limit: { unlimited: true } }
"#;

/// Several descriptors of one request, in files of the native format.
#[test]
fn several_descriptors_are_decided_alike() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules/good");
    let mut paths: Vec<_> = std::fs::read_dir(rules).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let (mut random, mut allowed, mut denied) = (Random::new(12), 0, 0);
    for path in paths {
        let file = read_path(&path).unwrap();
        if file.policies().is_empty() {
            continue;
        }
        let (domain, words) = (file.domain.clone(), vocabulary(&file));
        let words: Vec<_> = words.iter().collect();
        let pair = Pair::new(vec![file]);
        for _ in 0..200 {
            let mut entries = || -> Vec<(&str, &str)> {
                let mut entries: Vec<(&str, &str)> = Vec::new();
                for _ in 0..random.between(1, 3) {
                    let (name, value) = random.pick(&words);
                    if entries.iter().all(|(other, _)| *other != name.as_str()) {
                        entries.push((name.as_str(), value.as_str()));
                    }
                }
                entries
            };
            let all: Vec<_> = (0..3).map(|_| entries()).collect();
            *if pair.compare_all(&domain, &all) { &mut allowed } else { &mut denied } += 1;
            pair.clock.advance(Duration::from_millis(random.below(400)));
        }
    }
    assert!(allowed > 300 && denied > 300, "{allowed} allowed, {denied} denied");
}
