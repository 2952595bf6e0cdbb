//! The versions that the keys of one shard are counted under, numbered for this shard.
//!
//! An entry has 16 bits for its version, so it holds a number that means something in its shard only. A number is in
//! use while a key has it, and is given out anew after that; that is safe because both happen under the shard's lock.
//! Numbers beyond 16 bits are kept in entries whose state lies outside the table (see [`entry`](crate::entry)).
//!
//! Bound: one record for each version that has a key here.

use std::{collections::HashMap, sync::Arc};

use tollgate_core::Policy;

use crate::{
    entry::VersionId,
    policies::{PolicyHead, PolicyId, Serial, VersionNode},
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
    /// How many keys are counted under it.
    keys: u32,
    /// Nothing if no key is.
    held: Option<Held>,
}

/// What keeps a version and its policy alive while a key refers to them.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) node: Arc<VersionNode>,
    pub(crate) head: Arc<PolicyHead>,
}

impl Versions {
    /// One more key is counted under this version.
    pub(crate) fn enter(&mut self, held: &Held) -> VersionId {
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
                // The byte budget ends long before four thousand million keys do.
                VersionId(u32::try_from(self.records.len() - 1).unwrap_or(u32::MAX))
            }
        };
        self.by_serial.insert(serial, id);
        id
    }

    /// One key less is.
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
            *self = Self::default(); // no key left: give the memory back
        }
    }

    pub(crate) fn find(&self, serial: Serial) -> Option<VersionId> {
        self.by_serial.get(&serial).copied()
    }

    #[inline]
    pub(crate) fn serial(&self, id: VersionId) -> Serial {
        self.records[id.index()].serial
    }

    /// Which policy this is a version of.
    #[inline]
    pub(crate) fn policy_id(&self, id: VersionId) -> PolicyId {
        self.records[id.index()].policy
    }

    pub(crate) fn held(&self, id: VersionId) -> Option<&Held> {
        self.records[id.index()].held.as_ref()
    }

    /// The rules; nothing only for a number that no key has.
    pub(crate) fn policy(&self, id: VersionId) -> Option<&Policy> {
        self.held(id).map(|held| &held.node.version.policy)
    }

    /// Whether another version has replaced it.
    pub(crate) fn is_superseded(&self, id: VersionId) -> bool {
        self.held(id).is_some_and(|held| !held.node.version.is_current())
    }
}
