//! Calls of holders in the twin tests: reports, returns and grants, with a random queue of takes and peeks.

use std::sync::Arc;

use ratekeeper_core::{
    Span, Terms, Timestamp, Verb,
    store_api::{Allotment, AllotmentCall},
};
use redis::Value;

use super::{
    queue::runs_of,
    scenario::{Question, Scenario},
    stored::as_stored,
};
use crate::{
    link::Script,
    reply::{self, AllotReply},
    request,
    script::{self, Piece},
    state,
};

impl Scenario {
    /// The script of holders of this key; `None` if it has no allotments.
    pub(super) fn allot_script(&mut self, key: usize) -> Option<Arc<Script>> {
        let shape = vec![Piece::of(&self.keys[key].policy)];
        self.allots.entry(key).or_insert_with(|| script::allot(&shape).map(Arc::new)).clone()
    }

    pub(super) fn next_allotment(&mut self, key: usize, script: Arc<Script>) -> Question {
        let queue = if self.random.one_in(2) { Vec::new() } else { self.any_queue(key, 0) };
        let call = self.any_call(key);
        let numbers = request::allot(self.keys[key].tagged(), &call, &runs_of(&queue));
        let (keys, now) = (vec![self.keys[key].name.clone()], self.now.as_micros());
        let (asked, costs, verb) = (vec![key], vec![0], Verb::Peek);
        Question {
            script,
            keys,
            numbers,
            now,
            asked,
            costs,
            verb,
            charge: None,
            queue,
            call: Some(call),
            terms: Terms::NONE,
        }
    }

    /// Mostly what a holder would send; sometimes an overtaken call, or one after the state was lost.
    fn any_call(&mut self, key: usize) -> AllotmentCall {
        let known = self.keys[key].subject().allotments;
        let ids = if self.random.one_in(9) { 80 } else { 4 };
        let id = match known.as_slice() {
            [_, ..] if self.random.one_in(2) => self.random.pick(&known).id,
            _ => self.random.between(1, ids),
        };
        let unknown = Allotment { id, seq: self.random.below(9), used: self.random.below(50), held: 3, end: self.now };
        let own = known.iter().find(|allotment| allotment.id == id).copied().unwrap_or(unknown);
        let used = self.random.below(own.held + 1);
        let keep = self.random.below(own.held - used + 1);
        let late = Span::from_micros(self.random.pick(&self.spans));
        let used_by = match self.random.below(4) {
            0 => self.now + late,
            1 => Timestamp::EPOCH,
            _ => self.now - late,
        };
        let seq = if self.random.one_in(12) { own.seq.saturating_sub(1) } else { own.seq + self.random.between(1, 3) };
        let end = if self.random.one_in(3) { self.now + late } else { own.end };
        let want = if self.random.one_in(3) { 0 } else { self.any_cost(key) };
        let hold = Span::from_micros(self.random.pick(&self.spans).min(60_000_000));
        AllotmentCall { id, seq, used: own.used + used, acknowledged: own.used, keep, used_by, end, want, hold }
    }

    pub(super) fn compare_allotment(&mut self, question: &Question, reply: &Value, stored: Vec<(Value, Value)>) {
        let (Question { queue, script, .. }, Some(call)) = (question, &question.call) else { return };
        let key = &self.keys[question.asked[0]];
        let mut subject = key.subject();
        let before = subject.clone();
        let requests = || queue.iter().map(|(cost, verb)| (*cost, verb));
        let step = key.policy.allot(&mut subject, call, requests(), self.now);
        let scene = || {
            format!(
                "scenario {} at {}: {call:?}\n {queue:?}\n  before {before:?}\n  after {subject:?}\n  rules {:?}\n  reply {reply:?}\n{}",
                self.seed,
                self.now.as_micros(),
                key.policy.rules(),
                script.text()
            )
        };
        let AllotReply::Done(found, _) = reply::to_allot(key.tagged(), call, requests(), reply) else {
            panic!("no reply: {}", scene());
        };
        assert_eq!((&found.decisions, &found.reply), (&step.decisions, &step.reply), "{}", scene());
        let expected = match step.changed {
            true => state::encode_allotted(&key.policy, key.tag, &subject, self.now),
            false => key.stored.clone(),
        };
        let found = key.without_room(stored.into_iter().next().and_then(as_stored));
        let expected = key.without_room(expected);
        assert_eq!(found, expected, "{}", scene());
        self.keys[question.asked[0]].stored = found;
        for ((cost, verb), decision) in queue.iter().zip(&step.decisions) {
            self.remember(question.asked[0], *cost, verb, decision);
        }
    }
}
