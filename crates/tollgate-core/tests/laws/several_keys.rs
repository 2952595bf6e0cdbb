//! One take of several keys: every key is charged its own multiple of the cost, or none is charged.

use tollgate_core::{LeaseId, Micros, Party, Policy, Rule, RuleDecision, Step, Subject, Take, Verb, take_together};
use tollgate_testkit::{
    gate::START,
    oracle::{Answer, Oracle},
    random::{Kind, Random},
};

use crate::episode::play;

/// One of the keys: its rules, its state, and the multiple of the cost that it is charged.
#[derive(Clone, Debug)]
struct Key {
    policy: Policy,
    subject: Subject,
    times: u64,
}

impl Key {
    fn new(rules: Vec<Rule>) -> Self {
        let policy = Policy::new("key", rules).expect("the rules of a test are sound");
        Self { subject: policy.fresh(), policy, times: 1 }
    }

    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.policy.rules().iter().map(|ready| ready.rule())
    }
}

fn take_all(keys: &mut [Key], take: &Take, now: Micros) -> Step {
    let mut parties: Vec<Party<'_>> =
        keys.iter_mut().map(|Key { policy, subject, times }| policy.party(subject).times(*times)).collect();
    take_together(&mut parties, take, now)
}

/// An allowed take leaves every key as if it had been asked alone for its multiple of the cost.
#[test]
fn every_key_is_charged_its_own_multiple() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        // Each kind comes first, second and last in turn.
        let first = usize::try_from(seed).unwrap();
        let kinds = (0..3).map(|place| Kind::ALL[(first + place * 3) % Kind::ALL.len()]);
        let mut keys: Vec<Key> = kinds.map(|kind| Key::new(vec![random.rule("rule", kind)])).collect();
        let least =
            keys.iter().flat_map(Key::rules).map(|rule| rule.quota().limit().min(rule.quota().burst_or_limit()));
        let most_times = least.min().unwrap().min(5);
        for key in &mut keys {
            key.times = random.between(1, most_times);
        }
        let take = Take::now(1).held_as(LeaseId(seed));
        let mut alone = keys.clone();
        for key in &mut alone {
            let step = key.policy.decide(&mut key.subject, &Verb::Take(take.times(key.times)), START);
            assert!(step.decision.is_allowed() && step.changed, "a new key has room: {key:?}");
        }
        let step = take_all(&mut keys, &take, START);
        assert!(step.decision.is_allowed() && step.changed);
        for (key, alone) in keys.iter().zip(&alone) {
            assert_eq!(key.subject.states, alone.subject.states, "seed {seed}: {:?}", key.policy);
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
            keys[refusing].policy.decide(&mut keys[refusing].policy.fresh(), &Verb::Peek, START).decision.limit();
        keys[refusing].times = limit;
        let all = Take::now(1).held_as(LeaseId(1));
        let Key { policy, subject, times } = &mut keys[refusing];
        assert!(policy.decide(subject, &Verb::Take(all.times(*times)), START).decision.is_allowed());
        let before: Vec<Subject> = keys.iter().map(|key| key.subject.clone()).collect();
        let mut again = Take::now(1).held_as(LeaseId(2));
        again.whole_wait = true; // a shaped rule admits at once and delays; within no time it refuses
        let step = take_all(&mut keys, &again, START);
        assert!(!step.decision.is_allowed() && !step.changed, "{kind:?}: {step:?}");
        assert_eq!(keys.iter().map(|key| key.subject.clone()).collect::<Vec<_>>(), before, "{kind:?}");
    }
}

/// Two to four keys of any rules, asked at random moments for random multiples: every number is the oracle's.
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
        let mut spans = vec![Micros::SECOND.0];
        let length = random.between(4, 30);
        for step in 0..length {
            now = now + random.pause(&spans);
            for key in &mut keys {
                key.times = random.pick(&[0, 1, 1, 1, 2, 3]);
            }
            let told = take_all(&mut keys.clone(), &Take::now(0), now).decision;
            let rule = random.pick(&told.rules);
            let cost = random.cost(rule.limit, rule.remaining);
            let take = random.take(cost, &spans).held_as(LeaseId(step));
            let times: Vec<u64> = keys.iter().flat_map(|key| key.rules().map(|_| key.times)).collect();
            let expected = oracle.take_multiples(&take, &times, now);
            let found = take_all(&mut keys, &take, now);
            assert_eq!(answer_of(&found), expected, "seed {seed} step {step}: {take:?} times {times:?} of {keys:#?}");
            spans = vec![Micros::SECOND.0];
            spans.extend(found.decision.rules.iter().map(|rule| rule.reset_after.0));
            spans.extend(found.decision.retry_after().map(|retry| retry.0));
        }
        length
    });
}

fn answer_of(step: &Step) -> Answer {
    let rule = |rule: &RuleDecision| (rule.verdict, rule.limit, rule.remaining, rule.reset_after);
    let rules = step.decision.rules.iter().map(rule).collect();
    Answer { verdict: step.decision.verdict, decided_by: step.decision.decided_by, rules, changed: step.changed }
}
