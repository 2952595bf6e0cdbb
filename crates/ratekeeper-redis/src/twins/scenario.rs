//! One scenario of the twin tests: a few keys on one clock, decided by the core and by the server.

use std::{collections::HashMap, sync::Arc};

use ratekeeper_core::{
    Decision, OnQuotaChange, Period, RequestId, Span, Terms, Timestamp, Verb,
    store_api::{AllotmentCall, AllottedKey, Step, migrate_state, take_all, take_part},
};
use ratekeeper_testkit::random::{Kind, Random};
use redis::Value;

use super::{
    generate::any_policy,
    stored::{Key, as_stored},
    terms::Recorded,
};
use crate::{
    ledger::{StoreCharge, book},
    link::Script,
    reply::{self, Reply},
    request::{self, Tagged},
    script::{self, Piece, Shape},
    state::{self, Tag},
};

pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) random: Random,
    pub(super) now: Timestamp,
    /// Whether the clock ever steps back.
    pub(super) steps_back: bool,
    pub(super) keys: Vec<Key>,
    pub(super) spans: Vec<u64>,
    /// Takes that may be refunded: key, cost, time.
    pub(super) taken: Vec<(usize, u64, Timestamp)>,
    /// Scripts by the keys they are for.
    takes: HashMap<Vec<usize>, Arc<Script>>,
    amends: HashMap<usize, Arc<Script>>,
    charges: HashMap<usize, Arc<Script>>,
    pub(super) merges: HashMap<usize, Option<Arc<Script>>>,
    pub(super) allots: HashMap<usize, Option<Arc<Script>>>,
    pub(super) takes_with_terms: HashMap<Vec<usize>, Arc<Script>>,
    pub(super) finishes: HashMap<usize, Arc<Script>>,
    /// Charged requests by key and id.
    pub(super) records: HashMap<(usize, RequestId), Recorded>,
    /// The last operation id, over all keys.
    sequence: u64,
}

pub(super) struct Question {
    pub(super) script: Arc<Script>,
    pub(super) keys: Vec<String>,
    pub(super) numbers: Vec<u8>,
    pub(super) now: u64,
    pub(super) asked: Vec<usize>,
    /// The cost of each of them.
    pub(super) costs: Vec<u64>,
    pub(super) verb: Verb,
    /// Instead of the verb: local grants to charge.
    pub(super) charge: Option<StoreCharge>,
    /// Instead of the verb: requests of a merged call, with their costs.
    pub(super) queue: Vec<(u64, Verb)>,
    /// With the queue: a holder's call.
    pub(super) call: Option<AllotmentCall>,
    /// With a take: its terms.
    pub(super) terms: Terms,
}

impl Scenario {
    pub(super) fn new(seed: u64, kind: Kind, number: u64) -> Self {
        let mut random = Random::new(seed);
        let now = random.beginning();
        let mut spans = vec![1, 1_000, 1_000_000];
        let mut keys = Vec::new();
        for key in 0..random.between(1, 3) {
            let policy = any_policy(&mut random, kind);
            spans.extend(policy.rules().iter().filter_map(|rule| match rule.rule().quota().period() {
                Period::Span(span) => Some(span.as_micros()),
                Period::Month | Period::Year => None,
            }));
            let tag = Tag::new(random.bits());
            keys.push(Key { name: format!("scenario {number} key {key}"), policy, tag, stored: None, charged: 0 });
        }
        let steps_back = random.one_in(2);
        let (takes, amends, charges) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (taken, merges, allots) = (Vec::new(), HashMap::new(), HashMap::new());
        Self {
            seed,
            random,
            now,
            steps_back,
            keys,
            spans,
            taken,
            takes,
            amends,
            charges,
            merges,
            allots,
            takes_with_terms: HashMap::new(),
            finishes: HashMap::new(),
            records: HashMap::new(),
            sequence: 0,
        }
    }

    pub(super) fn next_question(&mut self) -> Question {
        self.move_clock();
        let first = self.any_key();
        if self.random.one_in(10) {
            return self.next_charge(first);
        }
        if self.random.one_in(3)
            && let Some(script) = self.allot_script(first)
        {
            return self.next_allotment(first, script);
        }
        if self.random.one_in(4)
            && let Some(script) = self.merge_script(first)
        {
            return self.next_queue(first, script);
        }
        if self.random.one_in(8) {
            return self.next_finish(first);
        }
        let (asked, costs, verb) = if self.keys.len() > 1 && self.random.one_in(6) {
            let second = (first + 1) % self.keys.len();
            let cost = self.any_cost(first);
            let costs = vec![self.any_multiple(cost), self.any_multiple(cost)];
            (vec![first, second], costs, Verb::Take(self.any_take()))
        } else {
            let (cost, verb) = self.any_verb(first);
            let cost = if let Verb::Take(_) = verb { self.any_multiple(cost) } else { cost };
            (vec![first], vec![cost], verb)
        };
        if let (Verb::Take(_), true) = (verb, self.random.one_in(3)) {
            return self.next_with_terms(asked, costs, verb);
        }
        let shape: Shape = asked.iter().map(|&key| Piece::of(&self.keys[key].policy)).collect();
        let subjects: Vec<Tagged<'_>> =
            asked.iter().zip(&costs).map(|(&key, &cost)| self.keys[key].tagged().cost(cost).at(self.now)).collect();
        let (script, numbers) = match &verb {
            Verb::Take(take) => {
                let script = self.takes.entry(asked.clone()).or_insert_with(|| Arc::new(script::take(&shape)));
                (Arc::clone(script), request::take(&shape, &subjects, take))
            }
            other => {
                let script = self.amends.entry(first).or_insert_with(|| Arc::new(script::amend(&shape)));
                (Arc::clone(script), request::amend(&shape, subjects[0], other))
            }
        };
        let keys = asked.iter().map(|&key| self.keys[key].name.clone()).collect();
        Question {
            script,
            keys,
            numbers,
            now: self.now.as_micros(),
            asked,
            costs,
            verb,
            charge: None,
            queue: Vec::new(),
            call: None,
            terms: Terms::NONE,
        }
    }

    /// A new charge, or one that is sent again because its reply was lost.
    fn next_charge(&mut self, key: usize) -> Question {
        if !self.random.one_in(3) {
            self.sequence += 1;
        }
        let charge = StoreCharge { sequence: self.sequence.max(1), bill: self.any_bill(key) };
        let shape: Shape = vec![Piece::of(&self.keys[key].policy)];
        let script = self.charges.entry(key).or_insert_with(|| Arc::new(script::charge(&shape)));
        let (script, subject) = (Arc::clone(script), &self.keys[key]);
        let numbers = request::charge(subject.tagged().at(self.now), &charge);
        let id_name = format!("{}#charged", subject.name);
        let keys = vec![subject.name.clone(), id_name];
        Question {
            script,
            keys,
            numbers,
            now: self.now.as_micros(),
            asked: vec![key],
            costs: vec![1],
            verb: Verb::Peek,
            charge: Some(charge),
            queue: Vec::new(),
            call: None,
            terms: Terms::NONE,
        }
    }

    pub(super) fn compare(&mut self, question: Question, reply: Value, stored: Vec<(Value, Value)>) {
        if question.call.is_some() {
            return self.compare_allotment(&question, &reply, stored);
        }
        if !question.queue.is_empty() {
            return self.compare_queue(&question, &reply, stored);
        }
        if self.compare_repeated(&question, &reply, &stored) {
            return;
        }
        let Question { asked, mut costs, verb, script, charge, terms, .. } = question;
        let shown_costs = costs.clone();
        let finished = self.finish(asked[0], &verb);
        let mut subjects: Vec<AllottedKey> = asked.iter().map(|&key| self.keys[key].subject()).collect();
        let before = subjects.clone();
        let is_charged = charge.as_ref().is_some_and(|charge| self.keys[asked[0]].charged < charge.sequence);
        let step = match (&charge, &verb) {
            (Some(charge), _) => {
                let policy = &self.keys[asked[0]].policy;
                if is_charged {
                    let _ = policy.allotted_request_key(&mut subjects[0], 0, self.now);
                    let state = &mut subjects[0].state;
                    *state = migrate_state(policy, policy, state.clone(), OnQuotaChange::Keep, self.now);
                    book(policy, state, &charge.bill, self.now);
                }
                let step = policy.decide_allotted(&mut subjects[0], 0, &Verb::Peek, self.now);
                Step { changed: step.changed || is_charged, ..step }
            }
            (None, Verb::Take(take)) => {
                let policies = asked.iter().map(|&key| &self.keys[key].policy);
                let parties = policies.zip(&mut subjects).zip(&costs);
                let parties =
                    parties.map(|((policy, subject), &cost)| policy.allotted_request_key(subject, cost, self.now));
                let (mut parties, moved): (Vec<_>, Vec<bool>) = parties.unzip();
                let step = match terms.at_least {
                    Some(least) => take_part(&mut parties, take, least, self.now),
                    None => take_all(&mut parties, take, self.now),
                };
                costs = parties.iter().map(|party| party.cost).collect();
                Step { changed: step.changed || moved.contains(&true), ..step }
            }
            (None, verb) if verb.finishes().is_some() => {
                let (charged, cost, change) = finished.expect("an unknown id was compared");
                let key = &self.keys[asked[0]];
                let step = key.policy.decide_allotted(&mut subjects[0], cost, &change, self.now);
                Step { decision: step.decision.with_granted(Some(charged)), ..step }
            }
            (None, other) => self.keys[asked[0]].policy.decide_allotted(&mut subjects[0], costs[0], other, self.now),
        };
        let tagged: Vec<Tagged<'_>> = asked
            .iter()
            .zip(&shown_costs)
            .map(|(&key, &cost)| self.keys[key].tagged().cost(cost).at(self.now))
            .collect();
        let shown = format!("{reply:?}");
        let reply = match &verb {
            Verb::Take(take) if !terms.is_none() => reply::to_take_with_terms(&tagged, take, &reply),
            Verb::Take(take) => reply::to_take(&tagged, take, &reply),
            verb if verb.finishes().is_some() => reply::to_finish(tagged[0].policy, &reply),
            other => reply::to_amend(tagged[0].policy, other, &reply),
        };
        let scene = || {
            let policies: Vec<_> = tagged.iter().map(|tagged| tagged.policy.rules()).collect();
            format!(
                "scenario {} at {}: {verb:?} of {shown_costs:?} {terms:?} {charge:?}\n  before {before:?}\n  rules {policies:?}\n  reply {shown}",
                self.seed,
                self.now.as_micros()
            )
        };
        let Reply::Decided(decision) = reply else {
            panic!("{}\n  reply {reply:?}\n{}", scene(), script.text());
        };
        assert_eq!(decision, step.decision, "{}\n{}", scene(), script.text());
        let mut expected = Vec::new();
        for ((&key, subject), &cost) in asked.iter().zip(&subjects).zip(&costs) {
            let key = &self.keys[key];
            // Of a refused request, only keys whose state follows the clock are written.
            let charged = cost > 0 && step.decision.is_allowed();
            let mut moved = key.subject();
            let (_, moved) = key.policy.allotted_request_key(&mut moved, 0, self.now);
            let counted = key.policy.changes_on_refusal() && *subject != key.subject();
            let changed = step.changed && (asked.len() == 1 || charged || moved || counted);
            expected.push(if changed {
                state::encode_allotted(&key.policy, key.tag, subject, self.now)
            } else {
                key.stored.clone()
            });
        }
        let mut stored = stored;
        if let Some(charge) = &charge {
            let noted = stored.pop().and_then(as_stored).map(|(value, _)| String::from_utf8(value).unwrap());
            let last = charge.sequence.max(self.keys[asked[0]].charged);
            assert_eq!(noted, Some(last.to_string()), "{}", scene());
        }
        let records = stored.split_off(asked.len());
        let found: Vec<_> = stored.into_iter().map(as_stored).collect();
        let found = asked.iter().zip(found).map(|(&key, found)| self.keys[key].without_room(found)).collect::<Vec<_>>();
        let expected = asked.iter().zip(expected).map(|(&key, it)| self.keys[key].without_room(it)).collect::<Vec<_>>();
        assert_eq!(found, expected, "{}\n  core {subjects:?}\n{}", scene(), script.text());
        for (&key, stored) in asked.iter().zip(expected) {
            self.keys[key].stored = stored;
        }
        if let Some(charge) = charge {
            self.keys[asked[0]].charged = self.keys[asked[0]].charged.max(charge.sequence);
        }
        self.record(&asked, &costs, &terms, &decision, records);
        self.remember(asked[0], costs[0], &verb, &decision);
    }

    pub(super) fn remember(&mut self, key: usize, cost: u64, verb: &Verb, decision: &Decision) {
        let wait = decision.verdict.retry_after_span().unwrap_or_default().max(decision.verdict.wait()).as_micros();
        if wait > 0 && wait < 100 * Span::DAY.as_micros() {
            self.spans.truncate(8);
            let place = self.spans.len().min(3);
            self.spans.insert(place, wait);
        }
        if let (Verb::Take(_), true) = (verb, decision.is_allowed()) {
            self.taken.push((key, cost, self.now + decision.verdict.wait()));
            if self.taken.len() > 8 {
                self.taken.remove(0);
            }
        }
    }
}
