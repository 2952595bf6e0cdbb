//! Live topology of a link: one node, or the nodes of a cluster.

use std::{sync::Arc, time::Instant};

use ratekeeper_core::HealthStatus;

use super::{
    call::Destination,
    cluster::Cluster,
    connect::ConnectError,
    node::{Node, NodeContext, NodeState, ServerLocation},
    sentinel::Sentinels,
    slots::slot_of,
};
use crate::address::{Address, HostPort, Topology};

/// One node that owns every key, or a cluster.
#[derive(Debug)]
pub(super) enum LiveTopology {
    Single(Arc<Node>),
    Cluster(Cluster),
}

impl LiveTopology {
    pub(super) fn new(address: &Address, context: NodeContext) -> Self {
        match address.topology.clone() {
            Topology::Standalone(address) => Self::Single(Node::new(ServerLocation::Fixed(address), context)),
            Topology::Sentinel { sentinels, primary_name, credentials } => {
                let sentinels = Sentinels::new(sentinels, primary_name, credentials, address, &context.settings);
                Self::Single(Node::new(ServerLocation::Sentinels(Box::new(sentinels)), context))
            }
            Topology::Cluster { seeds } => Self::Cluster(Cluster::new(seeds, context)),
        }
    }

    /// The node to send to. Waits for the slot map of a cluster, until the deadline.
    pub(super) async fn node_for(
        &self,
        destination: Destination<'_>,
        deadline: Instant,
    ) -> Result<Arc<Node>, ConnectError> {
        match (self, destination) {
            (_, Destination::Node(address)) => self.node_at(address),
            (Self::Single(node), _) => Ok(node.clone()),
            (Self::Cluster(cluster), Destination::Key(key)) => cluster.node_of(slot_of(key), deadline).await,
            (Self::Cluster(cluster), Destination::Any) => cluster.any_node(deadline).await,
        }
    }

    /// Why a call about this key would fail at once; see [`Node::known_failure`].
    pub(super) fn known_failure(&self, key: &[u8]) -> Option<ConnectError> {
        match self {
            Self::Single(node) => node.known_failure(),
            Self::Cluster(cluster) => cluster.known_failure(slot_of(key)),
        }
    }

    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        match self {
            Self::Single(node) => vec![node.clone()],
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// The health of the nodes. A cluster is down if it has no slot map or all of its nodes are down.
    pub(super) fn health(&self) -> HealthStatus {
        let failure = |state: NodeState| Some(format!("{}: {}", state.address, state.failure?));
        match self {
            Self::Single(node) => failure(node.state()).map_or(HealthStatus::Up, HealthStatus::Down),
            Self::Cluster(cluster) => {
                if let Some(cause) = cluster.failure() {
                    return HealthStatus::Down(cause);
                }
                let nodes = cluster.nodes();
                HealthStatus::of_nodes(nodes.len(), nodes.iter().filter_map(|node| failure(node.state())))
            }
        }
    }

    /// The address to report in an error that concerns no particular node.
    pub(super) fn address(&self) -> HostPort {
        match self {
            Self::Single(node) => node.address(),
            Self::Cluster(cluster) => cluster.first_seed(),
        }
    }

    fn node_at(&self, address: &HostPort) -> Result<Arc<Node>, ConnectError> {
        let node = self.nodes().into_iter().find(|node| node.address() == *address);
        node.ok_or_else(|| ConnectError::unreachable(format!("{address} is not one of the nodes in use")))
    }
}
