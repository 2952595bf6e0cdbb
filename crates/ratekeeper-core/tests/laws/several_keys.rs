//! One take of several keys: every key is charged its own cost, or none is charged.

use ratekeeper_core::{
    LeaseId, Policy, Rule, RuleDecision, Span, Take, Timestamp, Verb,
    store_api::{KeyState, RequestKey, Step, take_all},
};
use ratekeeper_testkit::{
    gate::START,
    oracle::{Oracle, OracleDecision},
    random::{Kind, Random},
};

use crate::episode::play;

/// One of the keys: its rules, its state and its cost.
#[derive(Clone, Debug)]
struct Key {
    policy: Policy,
    key_state: KeyState,
    cost: u64,
}

impl Key {
    fn new(rules: Vec<Rule>) -> Self {
        let policy = Policy::new("key", rules).expect("the rules of a test are sound");
        Self { key_state: policy.fresh(), policy, cost: 1 }
    }

    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.policy.rules().iter().map(|ready| ready.rule())
    }
}

fn take_keys(keys: &mut [Key], take: &Take, now: Timestamp) -> Step {
    let mut keys: Vec<RequestKey<'_>> =
        keys.iter_mut().map(|Key { policy, key_state, cost }| policy.request_key(key_state, *cost)).collect();
    take_all(&mut keys, take, now)
}

/// An allowed take leaves every key as if it had been asked alone for its cost.
#[test]
fn every_key_is_charged_its_own_cost() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        // Each kind comes first, second and last in turn.
        let first = usize::try_from(seed).unwrap();
        let kinds = (0..3).map(|place| Kind::ALL[(first + place * 3) % Kind::ALL.len()]);
        let mut keys: Vec<Key> = kinds.map(|kind| Key::new(vec![random.rule("rule", kind)])).collect();
        let least =
            keys.iter().flat_map(Key::rules).map(|rule| rule.quota().limit().min(rule.quota().burst_or_limit()));
        let most = least.min().unwrap().min(5);
        for key in &mut keys {
            key.cost = random.between(1, most);
        }
        let take = Take::now().with_lease(LeaseId(seed));
        let mut alone = keys.clone();
        for key in &mut alone {
            let step = key.policy.decide(&mut key.key_state, key.cost, &Verb::Take(take), START);
            assert!(step.decision.is_allowed() && step.changed, "a new key has room: {key:?}");
        }
        let step = take_keys(&mut keys, &take, START);
        assert!(step.decision.is_allowed() && step.changed);
        for (key, alone) in keys.iter().zip(&alone) {
            assert_eq!(key.key_state.states, alone.key_state.states, "seed {seed}: {:?}", key.policy);
        }
    }
}

/// A take that one key refuses charges none of them, whichever of them it is.
#[test]
fn a_refusal_by_any_key_charges_none() {
    for (kind, refusing) in Kind::ALL.into_iter().flat_map(|kind| [0, 1, 2].map(|place| (kind, place))) {
        let mut random = Random::new(7);
        let mut keys: Vec<Key> = (0..3).map(|_| Key::new(vec![random.rule("rule", kind)])).collect();
        let limit =
            keys[refusing].policy.decide(&mut keys[refusing].policy.fresh(), 0, &Verb::Peek, START).decision.limit();
        keys[refusing].cost = limit;
        let all = Take::now().with_lease(LeaseId(1));
        let Key { policy, key_state, cost } = &mut keys[refusing];
        assert!(policy.decide(key_state, *cost, &Verb::Take(all), START).decision.is_allowed());
        let before: Vec<KeyState> = keys.iter().map(|key| key.key_state.clone()).collect();
        let mut again = Take::now().with_lease(LeaseId(2));
        again.whole_wait = true; // a shaped rule admits at once and delays; within no time it refuses
        let step = take_keys(&mut keys, &again, START);
        assert!(!step.decision.is_allowed() && !step.changed, "{kind:?}: {step:?}");
        assert_eq!(keys.iter().map(|key| key.key_state.clone()).collect::<Vec<_>>(), before, "{kind:?}");
    }
}

/// Two to four keys of any rules, asked at random times for random costs: every number is the oracle's.
#[test]
fn several_keys_agree_with_the_oracle() {
    play("several keys", 2, |seed| {
        let mut random = Random::new(seed);
        let count = random.between(2, 4);
        let mut keys: Vec<Key> = (0..count)
            .map(|_| {
                let rules = random.between(1, 2);
                let rule = |index| {
                    let kind = random.pick(&Kind::ALL);
                    let rule = random.rule(&format!("{kind:?} {index}"), kind);
                    random.counting(rule)
                };
                Key::new((0..rules).map(rule).collect())
            })
            .collect();
        let rules: Vec<Rule> = keys.iter().flat_map(|key| key.rules().cloned()).collect();
        let horizon = keys.iter().map(|key| key.policy.horizon()).min().unwrap();
        let mut oracle = Oracle::new(&rules, horizon);
        let mut now = random.beginning();
        let mut spans = vec![Span::SECOND.as_micros()];
        let length = random.between(4, 30);
        for step in 0..length {
            now = now + random.pause(&spans);
            for key in &mut keys {
                key.cost = 0;
            }
            let decision = take_keys(&mut keys.clone(), &Take::now(), now).decision;
            let rule = random.pick(&decision.rules);
            let cost = random.cost(rule.limit, rule.remaining);
            for key in &mut keys {
                key.cost = cost.saturating_mul(random.pick(&[0, 1, 1, 1, 2, 3]));
            }
            let take = random.take(&spans).with_lease(LeaseId(step));
            let costs: Vec<u64> = keys.iter().flat_map(|key| key.rules().map(|_| key.cost)).collect();
            let expected = oracle.take_costs(&costs, &take, now);
            let found = take_keys(&mut keys, &take, now);
            assert_eq!(answer_of(&found), expected, "seed {seed} step {step}: {take:?} of {costs:?} from {keys:#?}");
            spans = vec![Span::SECOND.as_micros()];
            spans.extend(found.decision.rules.iter().map(|rule| rule.reset_after.as_micros()));
            spans.extend(found.decision.verdict.retry_after_span().map(|retry| retry.as_micros()));
        }
        length
    });
}

fn answer_of(step: &Step) -> OracleDecision {
    let rule = |rule: &RuleDecision| (rule.verdict, rule.limit, rule.remaining, rule.reset_after);
    let rules = step.decision.rules.iter().map(rule).collect();
    OracleDecision {
        verdict: step.decision.verdict,
        decided_by: step.decision.decided_by,
        rules,
        changed: step.changed,
    }
}
