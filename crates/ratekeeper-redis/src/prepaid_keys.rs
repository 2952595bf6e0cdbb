//! The prepaid keys of this process: a table of fixed size.
//!
//! A key is found by its policy and its text. Each thread remembers the keys that it has asked for last, so that a request
//! which an allotment answers needs no lock, neither to find the key nor to take the permit
//! ([`SharedHolder`](crate::allotment::SharedHolder)), and neither the key's name on the server nor an allocation.
//!
//! The table itself has a lock for every four keys. A new key evicts the one of the four whose last request is the oldest,
//! among those that hold nothing and have nothing to report; if there is none, the new key is not tracked and asks the
//! store. An evicted key answers no more, also in the threads that remember it.
//!
//! Bound: [`SETS`] × [`WAYS`] keys, and [`REMEMBERED`] evicted ones for each thread, under a kilobyte each.

mod prepaid_key;

use std::{
    cell::RefCell,
    collections::HashMap,
    hash::{BuildHasher, Hasher},
    sync::Arc,
};

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use ratekeeper_core::Decision;

pub(crate) use self::prepaid_key::{LockedKey, PrepaidKey};
use crate::{
    allotment::{HolderCounts, LocalClock, LocalTime},
    policies::{RedisPolicy, Version},
};

/// The prepaid keys of one store.
#[derive(Debug)]
pub(crate) struct PrepaidKeys {
    sets: Box<[Mutex<Set>]>,
    hasher: RandomState,
    /// The keys by their names on the server.
    by_name: Mutex<HashMap<Arc<[u8]>, Arc<PrepaidKey>>>,
    /// What evicted keys have counted.
    past: Mutex<PrepaidCounts>,
}

type Set = [Option<Arc<PrepaidKey>>; WAYS];

thread_local! {
    /// The keys that this thread has asked for last, by their hashes. Policies have different ids, so all stores share it.
    static LAST: RefCell<[Option<Arc<PrepaidKey>>; REMEMBERED]> = const { RefCell::new([const { None }; REMEMBERED]) };
}

/// What prepaid keys have counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PrepaidCounts {
    pub(crate) requests: u64,
    pub(crate) denials: u64,
    pub(crate) held: u64,
    pub(crate) holders: u64,
    pub(crate) permits: HolderCounts,
}

/// An answer without the store.
#[derive(Debug)]
pub(crate) enum Here {
    /// Decided. `refill` names the key if a call in the background is due.
    Decided { decision: Decision, refill: Option<Arc<[u8]>> },
    /// The store has to decide.
    Ask,
}

impl PrepaidKeys {
    pub(crate) fn new() -> Self {
        Self {
            sets: (0..SETS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            by_name: Mutex::default(),
            past: Mutex::default(),
        }
    }

    /// Answers a take without a lock, if this thread remembers the key and its open permits answer. `None` changes nothing;
    /// [`take`](Self::take) answers then.
    #[inline]
    pub(crate) fn take_open(
        &self,
        policy: &RedisPolicy,
        key: &str,
        cost: u64,
        is_patient: bool,
        now: LocalTime,
    ) -> Option<Decision> {
        let (id, generation) = (policy.id(), policy.generation());
        let place = place(self.hash(id, key));
        let take = |last: &RefCell<[Option<Arc<PrepaidKey>>; REMEMBERED]>| {
            let last = last.borrow();
            let entry = last[place].as_deref().filter(|entry| entry.is(id, key))?;
            entry.holder.take_open(cost, is_patient, generation, now)
        };
        LAST.try_with(take).ok().flatten()
    }

    /// Answers a take, if the key is known and can. One that accepts a wait is not denied here.
    pub(crate) fn take(&self, policy: &RedisPolicy, key: &str, cost: u64, is_patient: bool, now: LocalTime) -> Here {
        let id = policy.id();
        let hash = self.hash(id, key);
        let place = place(hash);
        let remembered = LAST.try_with(|last| {
            let last = last.borrow();
            let entry = last[place].as_deref().filter(|entry| entry.is(id, key))?;
            entry.take(policy, cost, is_patient, now)
        });
        if let Ok(Some(here)) = remembered {
            return here;
        }
        let Some(entry) = find(&self.sets[set_of(hash)].lock(), id, key).cloned() else { return Here::Ask };
        let here = entry.take(policy, cost, is_patient, now).unwrap_or(Here::Ask);
        let replaced = LAST.try_with(|last| last.borrow_mut()[place].replace(entry));
        drop(replaced);
        here
    }

    /// Tracks a key from now on, if there is room.
    pub(crate) fn track(&self, policy: &RedisPolicy, version: &Arc<Version>, key: &str, name: &[u8], cost: u64) {
        let Some(config) = version.prepaid else { return };
        let id = policy.id();
        let mut set = self.sets[set_of(self.hash(id, key))].lock();
        if find(&set, id, key).is_some() {
            return;
        }
        let free = set.iter().position(Option::is_none);
        let oldest = || {
            let idle = set.iter().enumerate().filter_map(|(way, entry)| Some((way, entry.as_deref()?.idle_since()?)));
            idle.min_by_key(|(_, since)| *since).map(|(way, _)| way)
        };
        let Some(way) = free.or_else(oldest) else { return };
        if let Some(old) = &set[way] {
            let Some(counted) = old.evict() else { return };
            self.by_name.lock().remove(&old.name);
            self.past.lock().add(&counted);
        }
        let entry = Arc::new(PrepaidKey::new(id, key, name, version, config, cost));
        self.by_name.lock().insert(Arc::clone(&entry.name), Arc::clone(&entry));
        set[way] = Some(entry);
    }

    /// Accesses a key by its name on the server; `None` if it is not tracked.
    pub(crate) fn with<T>(&self, name: &[u8], access: impl FnOnce(&mut LockedKey<'_>) -> T) -> Option<T> {
        let entry = self.by_name.lock().get(name).cloned()?;
        let mut locked = entry.lock(LocalClock::now)?;
        Some(access(&mut locked))
    }

    /// All keys that hold permits.
    pub(crate) fn holding(&self) -> Vec<Arc<[u8]>> {
        let entries = self.entries();
        let holding = entries.iter().filter(|entry| entry.counts().is_some_and(|counts| counts.held > 0));
        holding.map(|entry| Arc::clone(&entry.name)).collect()
    }

    pub(crate) fn counts(&self) -> PrepaidCounts {
        let mut counts = *self.past.lock();
        self.entries().iter().filter_map(|entry| entry.counts()).for_each(|key| counts.add(&key));
        counts
    }

    fn entries(&self) -> Vec<Arc<PrepaidKey>> {
        self.by_name.lock().values().cloned().collect()
    }

    #[inline]
    fn hash(&self, policy: u64, key: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(policy);
        hasher.write(key.as_bytes());
        hasher.finish()
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the remainder is below the number of places")]
fn place(hash: u64) -> usize {
    (hash % REMEMBERED as u64) as usize
}

#[allow(clippy::cast_possible_truncation, reason = "the remainder is below the number of sets")]
fn set_of(hash: u64) -> usize {
    ((hash >> 32) % SETS as u64) as usize
}

fn find<'a>(set: &'a Set, policy: u64, key: &str) -> Option<&'a Arc<PrepaidKey>> {
    set.iter().flatten().find(|entry| entry.is(policy, key))
}

impl PrepaidCounts {
    fn add(&mut self, key: &Self) {
        let HolderCounts { granted, used, returned, expired, lost } = key.permits;
        self.requests += key.requests;
        self.denials += key.denials;
        self.held += key.held;
        self.holders += key.holders;
        self.permits.granted += granted;
        self.permits.used += used;
        self.permits.returned += returned;
        self.permits.expired += expired;
        self.permits.lost += lost;
    }
}

/// Locks of the table.
const SETS: usize = 8_192;
/// Keys under one lock.
const WAYS: usize = 4;
/// Keys that a thread remembers.
const REMEMBERED: usize = 512;

#[cfg(test)]
mod tests;
