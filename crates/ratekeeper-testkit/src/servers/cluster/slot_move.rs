//! Move of a slot from one node to another, step by step, as `redis-cli --cluster reshard` does it.
//!
//! During the move the slot is on two nodes: the old owner serves the keys it still has and replies `ASK` for the rest;
//! the new owner serves clients that send `ASKING`.

use super::{Cluster, id_of};
use crate::servers::{RedisServer, Reply};

/// A move that has begun. If it is dropped, the slot stays on two nodes, as after an aborted reshard.
#[derive(Debug)]
#[must_use = "the slot stays on two nodes until `finish`"]
pub struct SlotMove<'a> {
    cluster: &'a Cluster,
    slot: String,
    from: &'a RedisServer,
    to: &'a RedisServer,
    to_id: String,
}

impl<'a> SlotMove<'a> {
    pub(super) fn begin(cluster: &'a Cluster, slot: u16, from: &'a RedisServer, to: &'a RedisServer) -> Self {
        assert_ne!(from.port(), to.port(), "slot {slot} is on that node already");
        let this = Self { cluster, slot: slot.to_string(), from, to, to_id: id_of(to) };
        let from_id = id_of(from);
        // The new owner first: otherwise clients would be redirected to a node that redirects them back.
        this.set_slot(to, "IMPORTING", &from_id);
        this.set_slot(from, "MIGRATING", &this.to_id);
        this
    }

    /// The old owner.
    pub fn from(&self) -> &RedisServer {
        self.from
    }

    /// The new owner.
    pub fn to(&self) -> &RedisServer {
        self.to
    }

    /// Moves up to `most` keys; returns how many. Zero means that none are left.
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

    /// Moves what is left and announces the new owner to every primary. Replicas learn it by gossip.
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

/// Keys in one `MIGRATE`, which blocks both nodes.
const BATCH: usize = 100;
