//! Ids of requests that were granted without the server.
//!
//! The server has no record of them. While this process remembers an id, the same request gets the same decision and is
//! charged once, by the ledger. A commit or a cancel changes the local grant, or its charge.
//!
//! Bound: [`MAX_IDS`] ids. If they are all in their lifetime, further ones are not remembered. Other processes do not know
//! them: an id that is sent to several processes during an outage is charged once by each.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use parking_lot::Mutex;
use ratekeeper_core::{Decision, RequestId, Timestamp, Verb, store_api::RequestRecord};

/// A key's name on the server and an id.
type IdKey = (Box<[u8]>, RequestId);

#[derive(Debug, Default)]
pub(super) struct LocalIds {
    /// Their number, so that nothing is locked while there are none.
    count: AtomicUsize,
    by_key: Mutex<HashMap<IdKey, (RequestRecord, Decision)>>,
}

impl LocalIds {
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// The decision of this request before.
    pub(super) fn repeated(&self, name: &[u8], id: RequestId, now: Timestamp) -> Option<Decision> {
        let by_key = self.by_key.lock();
        let (record, decision) = by_key.get(&(name.into(), id))?;
        (record.expires > now).then(|| decision.clone().repeated())
    }

    /// Finishes a request by a commit or a cancel: the permits charged in the end, and the cost and verb that change the
    /// charge. `None` if the id is not known.
    pub(super) fn finish(&self, name: &[u8], id: RequestId, verb: &Verb, now: Timestamp) -> Option<(u64, u64, Verb)> {
        let mut by_key = self.by_key.lock();
        let known = by_key.get_mut(&(name.into(), id)).filter(|(record, _)| record.is_known_to(verb, now));
        let (record, _) = known?;
        let (cost, change) = record.finish(verb, now).unwrap_or((0, Verb::Peek));
        Some((record.charged, cost, change))
    }

    pub(super) fn add(&self, name: &[u8], id: RequestId, record: RequestRecord, decision: Decision, now: Timestamp) {
        let mut by_key = self.by_key.lock();
        if by_key.len() >= MAX_IDS {
            by_key.retain(|_, (record, _)| record.expires > now);
        }
        if by_key.len() < MAX_IDS {
            by_key.insert((name.into(), id), (record, decision));
        }
        self.count.store(by_key.len(), Relaxed);
    }
}

/// About two megabytes.
const MAX_IDS: usize = 4_096;
