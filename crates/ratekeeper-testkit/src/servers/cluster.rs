//! Redis Cluster: three primaries that share the slots, with or without a replica each.
//!
//! Created by commands to the nodes instead of `redis-cli --cluster create`, which is about twice as fast and needs no
//! other program. The rest is two seconds for which a new node waits before it reports the cluster as healthy.

mod slot_move;
mod view;

use std::{
    collections::{BTreeSet, HashSet},
    thread,
    time::Duration,
};

use self::view::{NodeView, parse_nodes};
use super::{Acl, Binary, RedisBuilder, RedisServer, wait::wait_until};

pub use self::slot_move::SlotMove;

/// A cluster for one test.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RedisServer>,
}

/// Settings of a [`Cluster`]; made by [`Cluster::with`].
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `start`"]
pub struct ClusterBuilder {
    node: RedisBuilder,
    has_replicas: bool,
}

impl ClusterBuilder {
    /// Another server program than Redis.
    pub fn binary(mut self, binary: Binary) -> Self {
        self.node = self.node.binary(binary);
        self
    }

    /// A line of `redis.conf` for every node.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.node = self.node.config(name, value);
        self
    }

    /// These users on every node.
    pub fn acl(mut self, acl: Acl) -> Self {
        self.node = self.node.acl(acl);
        self
    }

    /// Three nodes in all: faster to start, but a killed primary is not replaced.
    pub fn without_replicas(mut self) -> Self {
        self.has_replicas = false;
        self
    }

    /// Starts the nodes and waits until all of them report a healthy cluster and every replica is linked to its primary.
    #[track_caller]
    pub fn start(self) -> Cluster {
        let count = if self.has_replicas { 2 * PRIMARIES } else { PRIMARIES };
        let nodes = thread::scope(|scope| {
            let starting: Vec<_> = (0..count).map(|_| scope.spawn(|| self.node.clone().start())).collect();
            starting.into_iter().map(|node| node.join().expect("a node that starts")).collect()
        });
        let cluster = Cluster { nodes };
        cluster.share_slots();
        cluster.meet();
        if self.has_replicas {
            cluster.attach_replicas();
        }
        cluster.settle(START_BOUND);
        cluster
    }
}

impl Cluster {
    /// Three primaries, three replicas.
    #[track_caller]
    pub fn start() -> Self {
        Self::with().start()
    }

    /// A cluster with settings.
    pub fn with() -> ClusterBuilder {
        let node = RedisServer::with()
            .cluster_node()
            .config("cluster-node-timeout", NODE_TIMEOUT_MS)
            // A replica may be promoted however long it has been disconnected.
            .config("cluster-replica-validity-factor", "0");
        ClusterBuilder { node, has_replicas: true }
    }

    /// `redis+cluster://` and every node.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.nodes.iter().map(RedisServer::address).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// Every node, running or not; at the start the primaries come first, then their replicas in the same order.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The nodes that own slots now, as seen by the first node that answers.
    pub fn primaries(&self) -> Vec<&RedisServer> {
        let owners = self.view().into_iter().filter(|node| !node.slots.is_empty());
        owners.map(|owner| self.node_at(owner.port)).collect()
    }

    /// The nodes that replicate `primary` now.
    pub fn replicas_of(&self, primary: &RedisServer) -> Vec<&RedisServer> {
        let view = self.view();
        let Some(id) = view.iter().find(|node| node.port == primary.port()).map(|node| node.id.clone()) else {
            return Vec::new();
        };
        let followers = view.into_iter().filter(|node| node.primary.as_ref() == Some(&id));
        followers.map(|follower| self.node_at(follower.port)).collect()
    }

    /// The node that owns the slot now.
    #[track_caller]
    pub fn node_of_slot(&self, slot: u16) -> &RedisServer {
        let owner = self.view().into_iter().find(|node| node.owns(slot));
        self.node_at(owner.unwrap_or_else(|| panic!("no node owns slot {slot}")).port)
    }

    /// The slot of a key, as computed by a node.
    #[track_caller]
    pub fn slot_of(&self, key: &str) -> u16 {
        let answering =
            self.nodes.iter().find_map(|node| node.try_command(&["CLUSTER", "KEYSLOT", key], POLL_TIMEOUT).ok());
        let slot = answering.expect("one node that answers").expect_ok().integer();
        u16::try_from(slot).expect("a slot")
    }

    /// Starts to move a slot while clients use it. The caller makes the steps: see [`SlotMove`].
    #[track_caller]
    pub fn begin_move(&self, slot: u16, to: &RedisServer) -> SlotMove<'_> {
        SlotMove::begin(self, slot, self.node_of_slot(slot), self.node_at(to.port()))
    }

    /// Moves a slot with all its keys.
    #[track_caller]
    pub fn migrate_slot(&self, slot: u16, to: &RedisServer) {
        self.begin_move(slot, to).finish();
    }

    /// Waits until every node that answers reports a healthy cluster, all agree on the owners of slots and on the replicas,
    /// no owner is marked as failing, and every replica is linked to its primary. To be called after a kill, a restart or
    /// a failover.
    #[track_caller]
    pub fn settle(&self, within: Duration) {
        wait_until("a healthy cluster whose nodes agree", within, || {
            let answering = self.nodes.iter().filter_map(|node| Some((node, nodes_seen_by(node)?)));
            let (nodes, views): (Vec<_>, Vec<_>) = answering.unzip();
            let no_owner_failing = views.iter().flatten().all(|node| node.slots.is_empty() || !node.is_failing);
            let roles = views.iter().map(|view| roles_in(view)).collect::<HashSet<_>>();
            no_owner_failing && roles.len() == 1 && nodes.into_iter().all(is_healthy)
        });
    }

    fn share_slots(&self) {
        for (index, node) in (0_u32..).zip(&self.nodes) {
            // Distinct epochs: nodes with the same epoch take seconds to resolve the conflict.
            let _ = node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]).expect_ok();
        }
        let share = SLOTS.div_ceil(PRIMARIES);
        for (index, node) in self.nodes[..PRIMARIES].iter().enumerate() {
            let (first, last) = (index * share, ((index + 1) * share).min(SLOTS) - 1);
            let _ = node.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).expect_ok();
        }
    }

    /// Connects every node to every other one, instead of waiting for gossip.
    fn meet(&self) {
        let bus_ports: Vec<_> = self.nodes.iter().map(bus_port).collect();
        for (index, node) in self.nodes.iter().enumerate() {
            for (other, bus_port) in self.nodes.iter().zip(&bus_ports).skip(index + 1) {
                let port = other.port().to_string();
                let _ = node.command(&["CLUSTER", "MEET", "127.0.0.1", &port, bus_port]).expect_ok();
            }
        }
        wait_until("nodes that know each other", START_BOUND, || {
            let known = |node| nodes_seen_by(node).is_some_and(|view| view.len() == self.nodes.len());
            self.nodes.iter().all(known)
        });
    }

    fn attach_replicas(&self) {
        let (primaries, replicas) = self.nodes.split_at(PRIMARIES);
        for (primary, replica) in primaries.iter().zip(replicas) {
            let _ = replica.command(&["CLUSTER", "REPLICATE", &id_of(primary)]).expect_ok();
        }
        wait_until("every node to know the replicas", START_BOUND, || {
            let knows = |node| {
                let followers = |view: Vec<NodeView>| view.iter().filter(|node| node.primary.is_some()).count();
                nodes_seen_by(node).map(followers) == Some(replicas.len())
            };
            self.nodes.iter().all(knows)
        });
    }

    fn view(&self) -> Vec<NodeView> {
        self.nodes.iter().find_map(nodes_seen_by).expect("one node that answers")
    }

    #[track_caller]
    fn node_at(&self, port: u16) -> &RedisServer {
        self.nodes.iter().find(|node| node.port() == port).expect("a node of this cluster")
    }
}

/// The cluster as one node reports it; `None` if the node does not answer, or is in a handshake with another.
fn nodes_seen_by(node: &RedisServer) -> Option<Vec<NodeView>> {
    parse_nodes(&node.try_command(&["CLUSTER", "NODES"], POLL_TIMEOUT).ok()?.text())
}

/// A node's port, its primary, and the slots it owns.
type Role<'a> = (u16, Option<&'a str>, &'a [(u16, u16)]);

/// The roles of all nodes, in an order that does not depend on the node that reports them.
fn roles_in(view: &[NodeView]) -> BTreeSet<Role<'_>> {
    view.iter().map(|node| (node.port, node.primary.as_deref(), &node.slots[..])).collect()
}

fn is_healthy(node: &RedisServer) -> bool {
    let state = node.try_command(&["CLUSTER", "INFO"], POLL_TIMEOUT).map(|info| info.text());
    let is_linked = node.info("master_link_status").is_none_or(|status| status == "up");
    state.is_ok_and(|info| info.contains("cluster_state:ok")) && is_linked
}

fn id_of(node: &RedisServer) -> String {
    node.command(&["CLUSTER", "MYID"]).expect_ok().text()
}

fn bus_port(node: &RedisServer) -> String {
    node.command(&["CONFIG", "GET", "cluster-port"]).items()[1].text()
}

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;
/// Short enough for a failover within seconds, long enough that a busy machine does not cause one.
const NODE_TIMEOUT_MS: &str = "2000";
const START_BOUND: Duration = Duration::from_secs(20);
const POLL_TIMEOUT: Duration = Duration::from_secs(1);
