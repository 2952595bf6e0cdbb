//! Records of charged requests with an id, per shard.
//!
//! A record is found by the keyed hash of its key and the id. It is dropped when its lifetime ends, a few with each new
//! one.
//!
//! Bound: a quarter of the shard's budget. If it is spent, the records that expire first are dropped; such an id would be
//! charged again.

use std::collections::{BTreeSet, HashMap};

use ratekeeper_core::{Decision, RequestId, RuleDecision, Timestamp, store_api::RequestRecord};

/// The key of a record: the hash of the policy and the key, and the id.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct RecordKey {
    pub(crate) hash: u64,
    pub(crate) id: RequestId,
}

#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) record: RequestRecord,
    pub(crate) decision: Decision,
}

#[derive(Debug, Default)]
pub(crate) struct Records {
    by_key: HashMap<RecordKey, Recorded>,
    by_expiry: BTreeSet<(Timestamp, RecordKey)>,
    bytes: usize,
}

impl Records {
    /// Bytes that they take, an estimate.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The record, also after the end of its lifetime.
    pub(crate) fn get(&mut self, key: RecordKey) -> Option<&mut Recorded> {
        self.by_key.get_mut(&key)
    }

    pub(super) fn insert(&mut self, key: RecordKey, recorded: Recorded, most_bytes: usize, now: Timestamp) {
        self.remove(key);
        for _ in 0..EXPIRED_AT_ONCE {
            match self.by_expiry.first() {
                // One that is to be refunded is kept until then.
                Some((expires, first)) if *expires <= now && !self.is_open(first) => self.remove(*first),
                _ => break,
            }
        }
        self.bytes += recorded.bytes();
        self.by_expiry.insert((recorded.record.expires, key));
        self.by_key.insert(key, recorded);
        while self.bytes > most_bytes
            && let Some((_, first)) = self.by_expiry.first().copied()
        {
            self.remove(first);
        }
    }

    fn is_open(&self, key: &RecordKey) -> bool {
        self.by_key.get(key).is_some_and(|recorded| recorded.record.refunds && !recorded.record.is_finished)
    }

    fn remove(&mut self, key: RecordKey) {
        if let Some(recorded) = self.by_key.remove(&key) {
            self.by_expiry.remove(&(recorded.record.expires, key));
            self.bytes -= recorded.bytes();
        }
    }
}

impl Recorded {
    fn bytes(&self) -> usize {
        let rules =
            if self.decision.rules.len() > 1 { self.decision.rules.len() * size_of::<RuleDecision>() } else { 0 };
        RECORD_BYTES + rules
    }
}

/// An entry of the map, an eighth of it free, and of the set, a third of it free.
const RECORD_BYTES: usize = (size_of::<RecordKey>() + size_of::<Recorded>()) * 8 / 7
    + (size_of::<Timestamp>() + size_of::<RecordKey>()) * 3 / 2;
/// Expired records dropped with each new one. More than one, so that they do not pile up.
const EXPIRED_AT_ONCE: usize = 4;
