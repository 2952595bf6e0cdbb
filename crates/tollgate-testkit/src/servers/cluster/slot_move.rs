//! A slot on its way from one node to another, step by step, as `redis-cli --cluster reshard` does it.
//!
//! Between the steps the slot is in two places: the old owner answers for the keys it still has and sends clients on
//! with `ASK` for the rest; the new owner answers those who come `ASKING`. That is the time worth testing in.

use super::{Cluster, id_of};
use crate::servers::{RedisServer, Reply};

/// A move that has begun. Dropped unfinished, the slot stays in two places, as after a crashed reshard.
#[derive(Debug)]
#[must_use = "the slot stays in two places until `finish`"]
pub struct SlotMove<'a> {
    cluster: &'a Cluster,
    slot: String,
    from: &'a RedisServer,
    to: &'a RedisServer,
    to_id: String,
}

impl<'a> SlotMove<'a> {
    pub(super) fn begin(cluster: &'a Cluster, slot: u16, from: &'a RedisServer, to: &'a RedisServer) -> Self {
        assert_ne!(from.port(), to.port(), "slot {slot} is there already");
        let this = Self { cluster, slot: slot.to_string(), from, to, to_id: id_of(to) };
        let from_id = id_of(from);
        // The new owner first: the other way round, clients would be sent to a node that sends them back.
        this.set_slot(to, "IMPORTING", &from_id);
        this.set_slot(from, "MIGRATING", &this.to_id);
        this
    }

    /// The node that gives the slot away.
    pub fn from(&self) -> &RedisServer {
        self.from
    }

    /// The node that receives it.
    pub fn to(&self) -> &RedisServer {
        self.to
    }

    /// Moves up to so many keys; says how many went. Zero means that none are left.
    #[track_caller]
    pub fn move_keys(&self, most: usize) -> usize {
        let found = self.from.command(&["CLUSTER", "GETKEYSINSLOT", &self.slot, &most.to_string()]).expect_ok();
        let keys = found.items().iter().map(|key| match key {
            Reply::Bulk(name) => name.clone(),
            other => panic!("expected a key, found {other:?}"),
        });
        if keys.len() == 0 {
            return 0;
        }
        let port = self.to.port().to_string();
        let count = keys.len();
        // No key name, database 0, five seconds, then all the keys at once.
        let head = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"].map(|word| word.as_bytes().to_vec());
        let words: Vec<_> = head.into_iter().chain(keys).collect();
        let _ = self.from.command(&words).expect_ok();
        count
    }

    /// Moves what is left and tells every primary who owns the slot now. Replicas hear of it by gossip.
    #[track_caller]
    pub fn finish(self) {
        while self.move_keys(BATCH) > 0 {}
        self.set_slot(self.to, "NODE", &self.to_id);
        self.set_slot(self.from, "NODE", &self.to_id);
        for other in self.cluster.primaries() {
            if other.port() != self.to.port() && other.port() != self.from.port() {
                self.set_slot(other, "NODE", &self.to_id);
            }
        }
    }

    #[track_caller]
    fn set_slot(&self, on: &RedisServer, state: &str, node: &str) {
        let _ = on.command(&["CLUSTER", "SETSLOT", &self.slot, state, node]).expect_ok();
    }
}

/// Keys in one `MIGRATE`; both nodes stand still for that long.
const BATCH: usize = 100;
