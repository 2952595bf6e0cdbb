//! The conformance suite, passed by the plainest store there can be: a map behind a lock.
//!
//! If the suite demanded something impossible, this would show it; it is also the smallest example of a store.

#![allow(clippy::unwrap_used, reason = "a poisoned lock means that a test has failed already")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use ratekeeper_core::{
    Ask, Decision, InlineLimits, OnQuotaChange, Policy, RequestId, Store, StoreError, Terms, Timestamp, Verb,
    bounds::MAX_KEY_BYTES,
    store_api::{KeyState, RequestRecord, migrate_state, take_all, take_part},
};
use ratekeeper_testkit::{block_on, conformance, store_conformance};

/// Policies and keys by name, and a manual clock.
#[derive(Clone, Default)]
struct PlainStore {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    now: Timestamp,
    policies: HashMap<Name, Arc<Policy>>,
    keys: HashMap<(Name, String), KeyState>,
    open: Vec<Open>,
    records: HashMap<(Name, String, RequestId), (RequestRecord, Decision)>,
}

/// A reservation to be refunded: when, its policy, its key, its id.
type Open = (Timestamp, Handle, String, RequestId);

/// Domain and policy.
type Name = (String, String);

fn name_of(policy: &Policy) -> Name {
    (policy.domain().to_owned(), policy.name().to_owned())
}

/// Handle of a policy. One of several variants replaces the others whenever it is used.
#[derive(Clone)]
struct Handle {
    name: Name,
    variant: Option<Arc<Policy>>,
}

impl Shared {
    fn install(&mut self, policy: Arc<Policy>, carry: OnQuotaChange) -> Name {
        let (name, now) = (name_of(&policy), self.now);
        if let Some(old) = self.policies.remove(&name) {
            for (_, key_state) in self.keys.iter_mut().filter(|((policy, _), _)| *policy == name) {
                *key_state = migrate_state(&old, &policy, key_state.clone(), carry, now);
            }
        }
        self.policies.insert(name.clone(), policy);
        name
    }

    fn expire(&mut self) {
        let (due, open) = std::mem::take(&mut self.open).into_iter().partition(|open| open.0 <= self.now);
        self.open = open;
        let due: Vec<Open> = due;
        for (_, policy, key, id) in due {
            let _ = self.decide(&[Ask::new(&policy, &key)], Verb::Expire { id }, &Terms::NONE);
        }
    }

    fn decide(&mut self, asks: &[Ask<'_, Handle>], verb: Verb, terms: &Terms) -> Result<Decision, StoreError> {
        self.expire();
        for (index, ask) in asks.iter().enumerate() {
            if ask.key.len() > MAX_KEY_BYTES {
                return Err(StoreError::KeyTooLong { found: ask.key.len(), max: MAX_KEY_BYTES });
            }
            if asks[..index].iter().any(|other| other.key == ask.key && other.policy.name == ask.policy.name) {
                return Err(StoreError::SameKeyTwice { key: ask.key.to_owned() });
            }
        }
        let now = self.now;
        let record_of = |ask: &Ask<'_, Handle>, id| (ask.policy.name.clone(), ask.key.to_owned(), id);
        let mut records = self.records.iter().filter(|(_, (record, _))| record.expires > now);
        if let Some(id) = terms.id
            && let Some((_, (_, first))) = records.find(|(key, _)| asks.iter().any(|ask| **key == record_of(ask, id)))
        {
            return Ok(first.clone().repeated());
        }
        if let (Some(id), [ask]) = (verb.finishes(), asks) {
            let known = self.records.get_mut(&record_of(ask, id));
            let known = known.filter(|(record, _)| record.is_known_to(&verb, now));
            let (record, _) = known.ok_or(StoreError::UnknownId)?;
            let (cost, change) = record.finish(&verb, now).unwrap_or((0, Verb::Peek));
            let charged = record.charged;
            return Ok(self.decide(&[ask.cost(cost)], change, terms)?.with_granted(Some(charged)));
        }
        for policy in asks.iter().filter_map(|ask| ask.policy.variant.clone()) {
            self.install(policy, OnQuotaChange::KeepResetTime);
        }
        let policies: Vec<Arc<Policy>> = asks.iter().map(|ask| Arc::clone(&self.policies[&ask.policy.name])).collect();
        let name = |ask: &Ask<'_, Handle>| (ask.policy.name.clone(), ask.key.to_owned());
        let kept = |index: usize| self.keys.get(&name(&asks[index])).cloned();
        let mut key_states: Vec<KeyState> =
            (0..asks.len()).map(|index| kept(index).unwrap_or_else(|| policies[index].fresh())).collect();
        let step = match (verb, &mut key_states[..]) {
            (Verb::Take(take), key_states) => {
                let each = policies.iter().zip(key_states).zip(asks);
                let keys = each.map(|((policy, key_state), ask)| policy.request_key(key_state, ask.cost));
                let mut keys = keys.collect::<Vec<_>>();
                let step = match terms.at_least {
                    Some(least) => take_part(&mut keys, &take, least, self.now),
                    None => take_all(&mut keys, &take, self.now),
                };
                if let (Some(id), true) = (terms.id, step.decision.is_allowed()) {
                    for (key, ask) in keys.iter().zip(asks).filter(|(key, _)| key.cost > 0) {
                        let record = RequestRecord::of(&step.decision, key.cost, terms, self.now);
                        if record.refunds {
                            self.open.push((record.expires, ask.policy.clone(), ask.key.to_owned(), id));
                        }
                        self.records.insert(record_of(ask, id), (record, step.decision.clone()));
                    }
                }
                step
            }
            (verb, [key_state]) => policies[0].decide(key_state, asks[0].cost, &verb, self.now),
            (verb, others) => return Err(StoreError::OneKeyOnly { verb: verb.name(), found: others.len() }),
        };
        if step.changed {
            self.keys.extend(asks.iter().map(name).zip(key_states));
        }
        Ok(step.decision)
    }
}

impl Store for PlainStore {
    type Policy = Handle;

    fn install(&self, policy: Policy, carry: OnQuotaChange) -> Result<Handle, StoreError> {
        let name = self.shared.lock().unwrap().install(Arc::new(policy), carry);
        Ok(Handle { name, variant: None })
    }

    async fn decide(&self, asks: &[Ask<'_, Handle>], verb: Verb) -> Result<Decision, StoreError> {
        self.shared.lock().unwrap().decide(asks, verb, &Terms::NONE)
    }

    async fn decide_with(&self, asks: &[Ask<'_, Handle>], verb: Verb, terms: Terms) -> Result<Decision, StoreError> {
        self.shared.lock().unwrap().decide(asks, verb, &terms)
    }

    fn now(&self) -> Timestamp {
        self.shared.lock().unwrap().now
    }

    fn submit(&self, ask: Ask<'_, Handle>, verb: Verb) {
        let _ = self.shared.lock().unwrap().decide(&[ask], verb, &Terms::NONE);
    }
}

impl InlineLimits for PlainStore {
    fn install_variant(&self, policy: Policy) -> Result<Handle, StoreError> {
        Ok(Handle { name: name_of(&policy), variant: Some(Arc::new(policy)) })
    }
}

fn plain() -> (PlainStore, impl Fn(Timestamp)) {
    let store = PlainStore::default();
    let clock = Arc::clone(&store.shared);
    (store, move |now| clock.lock().unwrap().now = now)
}

mod each_check {
    use super::*;

    store_conformance!(plain());
}

#[test]
fn all_checks_can_share_one_store() {
    let (store, set_time) = plain();
    block_on(conformance::run(&store, &set_time));
    block_on(conformance::run_inline_limits(&store, set_time));
}
