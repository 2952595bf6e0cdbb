//! Partial grants: the largest cost that passes now, and no more. Law 1 holds for what was granted.

use ratekeeper_core::{Take, Verb, store_api::take_part};
use ratekeeper_testkit::random::Kind;

use crate::{
    bounds::{Flow, within_bound},
    episode::{Episode, play},
};

/// One in so many of the steps that the agreement takes.
const SHARE: u64 = 8;

fn grants_the_largest_part(name: &str, kinds_of: impl Fn(u64) -> Vec<Kind>) {
    play(name, SHARE, |seed| {
        let mut episode = Episode::new(seed, &kinds_of(seed));
        let mut admitted: Vec<Flow> = Vec::new();
        for _ in 0..episode.length {
            let (cost, take) = episode.next();
            let least = episode.random.below(cost.saturating_add(2));
            let (before, now) = (episode.gate.clone(), episode.gate.now);
            let passes = |cost: u64| before.would((cost, Take::now()), now).is_allowed();
            let gate = &mut episode.gate;
            let mut key = [gate.policy.request_key(&mut gate.key_state, cost)];
            let step = take_part(&mut key, &take, least, now);
            let weighed = key[0].cost;
            let granted = step.decision.granted.expect("a partial grant says how much");
            episode.note(format!("at least {least}: granted {granted} of {cost}, {:?}", step.decision.verdict));
            let story = || episode.story();
            assert_eq!(granted, if step.decision.is_allowed() { weighed } else { 0 }, "{}", story());
            assert!(weighed <= cost && weighed >= least.min(cost), "{}", story());
            // The same as a request for that cost alone.
            let alone = before.policy.decide(&mut before.key_state.clone(), weighed, &Verb::Take(take), now);
            assert_eq!(step.decision.verdict, alone.decision.verdict, "{}", story());
            if weighed > least && weighed > 0 {
                assert!(passes(weighed), "{weighed} does not pass\n{}", story());
            }
            if weighed < cost {
                assert!(!passes(weighed + 1), "{} passes\n{}", weighed + 1, story());
            }
            if granted > 0 {
                let at = now + step.decision.verdict.wait();
                admitted.push(Flow { at: at.as_micros(), permits: granted.into() });
            }
            episode.note_wait(step.decision.verdict.retry_after_span());
        }
        for rule in &episode.rules {
            if let Err(breach) = within_bound(rule, &admitted) {
                panic!("law 1: {breach}\n{}", episode.story());
            }
        }
        episode.length
    });
}

#[test]
fn every_algorithm_grants_the_largest_part() {
    grants_the_largest_part("partial grants", |seed| {
        let all = Kind::ALL;
        vec![all[usize::try_from(seed % all.len() as u64).expect("a small number")]]
    });
}

#[test]
fn several_rules_grant_what_all_of_them_admit() {
    grants_the_largest_part("partial grants of several rules", |seed| {
        let (all, pick) = (Kind::ALL, |shift: u64| usize::try_from((seed >> shift) % 10).expect("a small number"));
        vec![all[pick(0) % all.len()], all[pick(4) % all.len()], all[pick(8) % all.len()]]
    });
}
