//! Policy versions in use by the keys of one shard, numbered within the shard.
//!
//! An entry has 16 bits for its version, so it stores a number that is valid within its shard. A number is reused after
//! its last key is gone; that is safe because both happen under the shard's lock. Numbers beyond 16 bits are stored in
//! entries whose state is spilled (see [`entry`](crate::entry)).
//!
//! Bound: one record for each version with a key in this shard.

use std::{collections::HashMap, sync::Arc};

use ratekeeper_core::Policy;

use crate::{
    entry::VersionId,
    policies::{PolicyHead, PolicyId, VersionNode},
    version_tag::Serial,
};

#[derive(Debug, Default)]
pub(crate) struct Versions {
    records: Vec<Record>,
    free: Vec<VersionId>,
    by_serial: HashMap<Serial, VersionId, foldhash::fast::RandomState>,
}

#[derive(Debug)]
struct Record {
    serial: Serial,
    policy: PolicyId,
    /// Keys stored under it.
    keys: u32,
    /// `None` if there are no such keys.
    held: Option<VersionRef>,
}

/// Strong references that keep a version and its policy alive while keys use them.
#[derive(Clone, Debug)]
pub(crate) struct VersionRef {
    pub(crate) node: Arc<VersionNode>,
    pub(crate) head: Arc<PolicyHead>,
}

impl Versions {
    /// Counts one more key under this version and returns its number.
    pub(crate) fn enter(&mut self, held: &VersionRef) -> VersionId {
        let serial = held.node.version.serial;
        if let Some(id) = self.by_serial.get(&serial) {
            self.records[id.index()].keys += 1;
            return *id;
        }
        let record = Record { serial, policy: held.head.id, keys: 1, held: Some(held.clone()) };
        let id = match self.free.pop() {
            Some(id) => {
                self.records[id.index()] = record;
                id
            }
            None => {
                self.records.push(record);
                // The byte budget is spent long before there are 2^32 keys.
                VersionId(u32::try_from(self.records.len() - 1).unwrap_or(u32::MAX))
            }
        };
        self.by_serial.insert(serial, id);
        id
    }

    /// Counts one key less; frees the number after the last.
    pub(crate) fn leave(&mut self, id: VersionId) {
        let record = &mut self.records[id.index()];
        record.keys -= 1;
        if record.keys > 0 {
            return;
        }
        record.held = None;
        self.by_serial.remove(&record.serial);
        self.free.push(id);
        if self.free.len() == self.records.len() {
            *self = Self::default(); // no key left: free the memory
        }
    }

    pub(crate) fn find(&self, serial: Serial) -> Option<VersionId> {
        self.by_serial.get(&serial).copied()
    }

    #[inline]
    pub(crate) fn serial(&self, id: VersionId) -> Serial {
        self.records[id.index()].serial
    }

    /// The policy that this is a version of.
    #[inline]
    pub(crate) fn policy_id(&self, id: VersionId) -> PolicyId {
        self.records[id.index()].policy
    }

    pub(crate) fn held(&self, id: VersionId) -> Option<&VersionRef> {
        self.records[id.index()].held.as_ref()
    }

    /// The policy; `None` only for a number without keys.
    pub(crate) fn policy(&self, id: VersionId) -> Option<&Policy> {
        self.held(id).map(|held| &held.node.version.policy)
    }

    /// Whether a newer version has replaced it.
    pub(crate) fn is_superseded(&self, id: VersionId) -> bool {
        self.held(id).is_some_and(|held| !held.node.version.is_current())
    }
}
