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

/// What stands for a policy. One that stands beside others takes their place whenever it is asked about.
#[derive(Clone)]
struct Handle {
    name: Name,
    beside: Option<Arc<Policy>>,
}

impl Shared {
    fn install(&mut self, policy: Arc<Policy>, carry: Carry) -> Name {
        let (name, now) = (name_of(&policy), self.now);
        if let Some(old) = self.policies.remove(&name) {
            for (_, subject) in self.keys.iter_mut().filter(|((policy, _), _)| *policy == name) {
                *subject = carry_over(&old, &policy, subject.clone(), carry, now);
            }
        }
        self.policies.insert(name.clone(), policy);
        name
    }

    fn decide(&mut self, asks: &[Ask<'_, Handle>], verb: Verb) -> Result<Decision, StoreError> {
        for (index, ask) in asks.iter().enumerate() {
            if ask.key.len() > MAX_KEY_BYTES {
                return Err(StoreError::KeyTooLong { found: ask.key.len(), max: MAX_KEY_BYTES });
            }
            if asks[..index].iter().any(|other| other.key == ask.key && other.policy.name == ask.policy.name) {
                return Err(StoreError::SameKeyTwice { key: ask.key.to_owned() });
            }
        }
        for policy in asks.iter().filter_map(|ask| ask.policy.beside.clone()) {
            self.install(policy, Carry::Moment);
        }
        let policies: Vec<Arc<Policy>> = asks.iter().map(|ask| Arc::clone(&self.policies[&ask.policy.name])).collect();
        let name = |ask: &Ask<'_, Handle>| (ask.policy.name.clone(), ask.key.to_owned());
        let kept = |index: usize| self.keys.get(&name(&asks[index])).cloned();
        let mut subjects: Vec<Subject> =
            (0..asks.len()).map(|index| kept(index).unwrap_or_else(|| policies[index].fresh())).collect();
        let step = match (verb, &mut subjects[..]) {
            (Verb::Take(take), subjects) => {
                let each = policies.iter().zip(subjects).zip(asks);
                let parties = each.map(|((policy, subject), ask)| policy.party(subject).times(ask.times));
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
    type Policy = Handle;

    fn install(&self, policy: Policy, carry: Carry) -> Result<Handle, StoreError> {
        let name = self.shared.lock().unwrap().install(Arc::new(policy), carry);
        Ok(Handle { name, beside: None })
    }

    fn install_beside(&self, policy: Policy) -> Result<Handle, StoreError> {
        Ok(Handle { name: name_of(&policy), beside: Some(Arc::new(policy)) })
    }

    async fn decide(&self, asks: &[Ask<'_, Handle>], verb: Verb) -> Result<Decision, StoreError> {
        self.shared.lock().unwrap().decide(asks, verb)
    }

    fn now(&self) -> Micros {
        self.shared.lock().unwrap().now
    }

    fn tell(&self, ask: Ask<'_, Handle>, verb: Verb) {
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
