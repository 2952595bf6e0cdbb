//! Requests with terms in the twin tests: ids, their commits and cancels, least costs.

use std::sync::Arc;

use ratekeeper_core::{Decision, OnExpiry, RequestId, Span, Terms, Verb, store_api::RequestRecord};
use redis::Value;

use super::{
    scenario::{Question, Scenario},
    stored::as_stored,
};
use crate::{
    reply::{self, Reply},
    request::{self, Tagged},
    script::{self, Piece, Shape},
};

/// A charged request, its decision and its keys.
pub(super) type Recorded = (RequestRecord, Decision, Vec<usize>);

impl Scenario {
    fn any_id(&mut self) -> RequestId {
        RequestId::from_bytes([u8::try_from(self.random.below(6)).unwrap(); 16])
    }

    fn any_terms(&mut self, cost: u64) -> Terms {
        let mut terms = Terms::NONE;
        if self.random.one_in(2) {
            terms = terms.at_least(self.random.below(cost.saturating_add(2)));
        }
        if terms.is_none() || self.random.one_in(2) {
            terms = terms.with_id(self.any_id());
        }
        if self.random.one_in(2) {
            terms = terms.on_expiry(OnExpiry::Refund);
        }
        terms.lifetime(Span::from_micros(self.random.pick(&self.spans)))
    }

    pub(super) fn next_with_terms(&mut self, asked: Vec<usize>, costs: Vec<u64>, verb: Verb) -> Question {
        let terms = self.any_terms(costs.iter().copied().max().unwrap_or_default());
        let shape: Shape = asked.iter().map(|&key| Piece::of(&self.keys[key].policy)).collect();
        let subjects: Vec<Tagged<'_>> =
            asked.iter().zip(&costs).map(|(&key, &cost)| self.keys[key].tagged().cost(cost).at(self.now)).collect();
        let script = self.takes_with_terms.entry(asked.clone());
        let script = Arc::clone(script.or_insert_with(|| Arc::new(script::take_with_terms(&shape))));
        let Verb::Take(take) = &verb else { unreachable!("only takes have terms") };
        let numbers = request::take_with_terms(&shape, &subjects, take, &terms);
        let names = || asked.iter().map(|&key| self.keys[key].name.clone());
        let records = terms.id.map(|id| names().map(move |name| format!("{name}#{id}")));
        let keys = names().chain(records.into_iter().flatten()).collect();
        let (now, queue) = (self.now.as_micros(), Vec::new());
        Question { script, keys, numbers, now, asked, costs, verb, charge: None, queue, call: None, terms }
    }

    pub(super) fn next_finish(&mut self, key: usize) -> Question {
        let id = self.any_id();
        let actual = if self.random.one_in(9) { u64::MAX } else { self.any_cost(key) };
        let verb = match self.random.below(3) {
            0 => Verb::Commit { id, actual },
            1 => Verb::Cancel { id },
            _ => Verb::Expire { id },
        };
        let shape: Shape = vec![Piece::of(&self.keys[key].policy)];
        let script = self.finishes.entry(key).or_insert_with(|| Arc::new(script::finish(&shape)));
        let (script, subject) = (Arc::clone(script), &self.keys[key]);
        let numbers = request::amend(&shape, subject.tagged().at(self.now), &verb);
        let keys = vec![subject.name.clone(), format!("{}#{id}", subject.name)];
        let (now, queue, terms) = (self.now.as_micros(), Vec::new(), Terms::NONE);
        Question {
            script,
            keys,
            numbers,
            now,
            asked: vec![key],
            costs: vec![0],
            verb,
            charge: None,
            queue,
            call: None,
            terms,
        }
    }

    /// The first record of a request that has not expired.
    fn recorded(&self, asked: &[usize], id: Option<RequestId>) -> Option<&Recorded> {
        let records = asked.iter().filter_map(|&key| self.records.get(&(key, id?)));
        records.into_iter().find(|(record, ..)| record.expires > self.now)
    }

    /// Compares the reply to a request that changes nothing: its id was charged before, or it finishes an unknown id.
    pub(super) fn compare_repeated(&self, question: &Question, reply: &Value, stored: &[(Value, Value)]) -> bool {
        let Question { asked, costs, verb, terms, script, .. } = question;
        let tagged: Vec<Tagged<'_>> =
            asked.iter().zip(costs).map(|(&key, &cost)| self.keys[key].tagged().cost(cost).at(self.now)).collect();
        let scene = || format!("scenario {} at {}: {verb:?} {terms:?}\n{reply:?}", self.seed, self.now.as_micros());
        match verb {
            Verb::Take(take) => {
                let Some((_, decision, first)) = self.recorded(asked, terms.id) else { return false };
                match reply::to_take_with_terms(&tagged, take, reply) {
                    Reply::Decided(found) if first == asked => {
                        assert_eq!(found, decision.clone().repeated(), "{}", scene());
                    }
                    // The first request had other keys.
                    Reply::Decided(_) | Reply::RepeatedUnread if first != asked => {}
                    _ => panic!("{}\n{}", scene(), script.text()),
                }
            }
            Verb::Commit { id, .. } | Verb::Cancel { id } | Verb::Expire { id } => {
                let record = self.records.get(&(asked[0], *id));
                if record.is_some_and(|(record, ..)| record.is_known_to(verb, self.now)) {
                    return false;
                }
                assert!(matches!(reply::to_finish(tagged[0].policy, reply), Reply::UnknownId), "{}", scene());
            }
            _ => return false,
        }
        for (&key, stored) in asked.iter().zip(stored) {
            let key = &self.keys[key];
            assert_eq!(key.without_room(as_stored(stored.clone())), key.stored, "{}", scene());
        }
        true
    }

    /// Finishes a request that is known: permits charged in the end, and the cost and verb that change the charge.
    pub(super) fn finish(&mut self, key: usize, verb: &Verb) -> Option<(u64, u64, Verb)> {
        let id = verb.finishes()?;
        let (record, ..) = self.records.get_mut(&(key, id))?;
        let (cost, change) = record.finish(verb, self.now).unwrap_or((0, Verb::Peek));
        Some((record.charged, cost, change))
    }

    /// Records a request that was charged, and compares the lifetime of what the server has recorded.
    pub(super) fn record(
        &mut self,
        asked: &[usize],
        costs: &[u64],
        terms: &Terms,
        decision: &Decision,
        stored: Vec<(Value, Value)>,
    ) {
        let Some(id) = terms.id.filter(|_| decision.is_allowed()) else { return };
        for ((&key, &cost), stored) in asked.iter().zip(costs).zip(stored).filter(|((_, cost), _)| **cost > 0) {
            let record = RequestRecord::of(decision, cost, terms, self.now);
            let lives = as_stored(stored).expect("a charged request is recorded").1;
            // The record of an id that has expired by the test's clock keeps its expiry by the server's.
            assert!(lives > 0);
            self.records.insert((key, id), (record, decision.clone(), asked.to_vec()));
        }
    }
}
