//! Merged calls in the twin tests: a random queue of takes and peeks.

use std::sync::Arc;

use ratekeeper_core::{Span, Take, Terms, Verb};
use redis::Value;

use super::{
    scenario::{Question, Scenario},
    stored::as_stored,
};
use crate::{
    link::Script,
    reply::{self, MergedReply},
    request::{self, Run},
    script::{self, Piece},
    state,
};

impl Scenario {
    /// The script that merges takes of this key; `None` if its rules do not allow it.
    pub(super) fn merge_script(&mut self, key: usize) -> Option<Arc<Script>> {
        let shape = vec![Piece::of(&self.keys[key].policy)];
        self.merges.entry(key).or_insert_with(|| script::merge(&shape).map(Arc::new)).clone()
    }

    pub(super) fn next_queue(&mut self, key: usize, script: Arc<Script>) -> Question {
        let queue = self.any_queue(key, 1);
        let numbers = request::merge(self.keys[key].tagged(), &runs_of(&queue));
        let (keys, now) = (vec![self.keys[key].name.clone()], self.now.as_micros());
        let (asked, costs) = (vec![key], vec![0]);
        Question {
            script,
            keys,
            numbers,
            now,
            asked,
            costs,
            verb: Verb::Peek,
            charge: None,
            queue,
            call: None,
            terms: Terms::NONE,
        }
    }

    /// Takes and peeks; at least `fewest` groups of equal ones.
    pub(super) fn any_queue(&mut self, key: usize, fewest: u64) -> Vec<(u64, Verb)> {
        let mut queue: Vec<(u64, Verb)> = Vec::new();
        for _ in 0..self.random.between(fewest, 6) {
            let request = match self.random.below(8) {
                0 => (1, Verb::Peek),
                1 => (0, Verb::Take(Take::now())),
                2 => (self.any_cost(key), Verb::Take(self.any_take())),
                3 => {
                    let wait = Span::from_micros(self.random.pick(&self.spans));
                    (self.any_cost(key) / 2, Verb::Take(Take::up_to(wait)))
                }
                _ => (self.any_cost(key) / self.random.between(1, 20), Verb::Take(Take::now())),
            };
            let count = if self.random.one_in(4) { self.random.between(2, 40) } else { 1 };
            queue.extend((0..count).map(|_| request));
        }
        queue
    }

    /// The requests one after the other, on the state before the call.
    pub(super) fn compare_queue(&mut self, question: &Question, reply: &Value, stored: Vec<(Value, Value)>) {
        let Question { queue, script, .. } = question;
        let key = &self.keys[question.asked[0]];
        let mut state = key.subject();
        let before = state.clone();
        let mut is_changed = false;
        let mut expected = Vec::new();
        for (cost, verb) in queue {
            let step = key.policy.decide_allotted(&mut state, *cost, verb, self.now);
            is_changed |= step.changed;
            // As the next script would read it.
            let encoded = state::encode_allotted(&key.policy, key.tag, &state, self.now);
            if let Some((value, _)) = encoded.filter(|_| step.changed) {
                state = state::decode_allotted(&key.policy, key.tag, &value).expect("a value just encoded").1;
            }
            expected.push(step.decision);
        }
        let scene = || {
            format!(
                "scenario {} at {}: {queue:?}\n  before {before:?}\n  rules {:?}\n  reply {reply:?}\n{}",
                self.seed,
                self.now.as_micros(),
                key.policy.rules(),
                script.text()
            )
        };
        let requests = queue.iter().map(|(cost, verb)| (*cost, verb));
        let decisions = match reply::to_merged(key.tagged(), requests, reply) {
            MergedReply::Decided(decisions) => decisions,
            MergedReply::TooLong => {
                assert!(key.stored.as_ref().is_some_and(|(value, _)| value.len() > 16_000), "{}", scene());
                return;
            }
            MergedReply::Other(_) => panic!("no decisions: {}", scene()),
        };
        assert_eq!(decisions, expected, "{}", scene());
        let expected = match is_changed {
            true => state::encode_allotted(&key.policy, key.tag, &state, self.now),
            false => key.stored.clone(),
        };
        let found = key.without_room(stored.into_iter().next().and_then(as_stored));
        let expected = key.without_room(expected);
        assert_eq!(found, expected, "{}", scene());
        self.keys[question.asked[0]].stored = found;
        for ((cost, verb), decision) in queue.iter().zip(&decisions) {
            self.remember(question.asked[0], *cost, verb, decision);
        }
    }
}

/// Neighbours with equal numbers are one run.
pub(super) fn runs_of(queue: &[(u64, Verb)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for run in queue.iter().filter_map(|(cost, verb)| Run::of(*cost, verb)) {
        match runs.last_mut() {
            Some(last) if run.continues(last) => last.count += 1,
            _ => runs.push(run),
        }
    }
    runs
}
