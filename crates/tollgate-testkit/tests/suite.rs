//! The conformance suite, passed by the plainest store there can be: a map behind a lock.
//!
//! If the suite asked for something no store could do, this would show it; and a new store may be read beside this one.

#![allow(clippy::unwrap_used, reason = "a poisoned lock means that a test has failed already")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tollgate_core::{
    Ask, Carry, Decision, Micros, Policy, Store, StoreError, Subject, Verb, bounds::MAX_KEY_BYTES, carry_over,
    take_together,
};
use tollgate_testkit::{block_on, conformance, store_conformance};

/// Policies and keys by name, and a clock that stands still until it is set.
#[derive(Clone, Default)]
struct PlainStore {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    now: Micros,
    policies: HashMap<Name, Arc<Policy>>,
    keys: HashMap<(Name, String), Subject>,
}

/// Domain and policy.
type Name = (String, String);

fn name_of(policy: &Policy) -> Name {
    (policy.domain().to_owned(), policy.name().to_owned())
}

impl Shared {
    fn decide(&mut self, asks: &[Ask<'_, Name>], verb: Verb) -> Result<Decision, StoreError> {
        for (index, ask) in asks.iter().enumerate() {
            if ask.key.len() > MAX_KEY_BYTES {
                return Err(StoreError::KeyTooLong { found: ask.key.len(), max: MAX_KEY_BYTES });
            }
            if asks[..index].iter().any(|other| other.key == ask.key && other.policy == ask.policy) {
                return Err(StoreError::SameKeyTwice { key: ask.key.to_owned() });
            }
        }
        let policies: Vec<Arc<Policy>> = asks.iter().map(|ask| Arc::clone(&self.policies[ask.policy])).collect();
        let name = |ask: &Ask<'_, Name>| (ask.policy.clone(), ask.key.to_owned());
        let kept = |index: usize| self.keys.get(&name(&asks[index])).cloned();
        let mut subjects: Vec<Subject> =
            (0..asks.len()).map(|index| kept(index).unwrap_or_else(|| policies[index].fresh())).collect();
        let step = match (verb, &mut subjects[..]) {
            (Verb::Take(take), subjects) => {
                let parties = policies.iter().zip(subjects).map(|(policy, subject)| policy.party(subject));
                take_together(&mut parties.collect::<Vec<_>>(), &take, self.now)
            }
            (verb, [subject]) => policies[0].decide(subject, &verb, self.now),
            (_, others) => return Err(StoreError::OneKeyOnly { verb: "this", found: others.len() }),
        };
        if step.changed {
            self.keys.extend(asks.iter().map(name).zip(subjects));
        }
        Ok(step.decision)
    }
}

impl Store for PlainStore {
    type Policy = Name;

    fn install(&self, policy: Policy, carry: Carry) -> Result<Name, StoreError> {
        let mut shared = self.shared.lock().unwrap();
        let (name, now) = (name_of(&policy), shared.now);
        if let Some(old) = shared.policies.remove(&name) {
            for (_, subject) in shared.keys.iter_mut().filter(|((policy, _), _)| *policy == name) {
                *subject = carry_over(&old, &policy, subject.clone(), carry, now);
            }
        }
        shared.policies.insert(name.clone(), Arc::new(policy));
        Ok(name)
    }

    async fn decide(&self, asks: &[Ask<'_, Name>], verb: Verb) -> Result<Decision, StoreError> {
        self.shared.lock().unwrap().decide(asks, verb)
    }

    fn now(&self) -> Micros {
        self.shared.lock().unwrap().now
    }

    fn tell(&self, ask: Ask<'_, Name>, verb: Verb) {
        let _ = self.shared.lock().unwrap().decide(&[ask], verb);
    }
}

fn plain() -> (PlainStore, impl Fn(Micros)) {
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
    block_on(conformance::run(&store, set_time));
}
