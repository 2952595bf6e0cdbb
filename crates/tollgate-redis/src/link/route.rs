//! From an address to the node that answers for a key.

use std::{sync::Arc, time::Instant};

use tokio::sync::Notify;

use super::{
    Whom,
    cluster::Cluster,
    dial::{DialError, Dialer},
    node::{Common, Node, NodeState, Whereabouts},
    sentinel::Sentinels,
    settings::LinkSettings,
    slots::slot_of,
};
use crate::{
    address::{Address, HostPort, Topology},
    counters::Counters,
    standing::Standing,
};

/// One node that answers for everything, or a cluster of them.
#[derive(Debug)]
pub(super) enum Route {
    Single(Arc<Node>),
    Cluster(Cluster),
}

impl Route {
    pub(super) fn new(address: &Address, settings: LinkSettings, counters: Arc<Counters>) -> Self {
        let dialer = Arc::new(Dialer::new(address, &settings));
        let common = Common { dialer, settings, counters, trouble: Arc::new(Notify::new()) };
        match address.topology.clone() {
            Topology::Standalone(place) => Self::Single(Node::new(Whereabouts::Fixed(place), common)),
            Topology::Sentinel { sentinels, primary_name, credentials } => {
                let sentinels = Sentinels::new(sentinels, primary_name, credentials, address, &common.settings);
                Self::Single(Node::new(Whereabouts::Watched(Box::new(sentinels)), common))
            }
            Topology::Cluster { seeds } => Self::Cluster(Cluster::new(seeds, common)),
        }
    }

    /// Whom to ask. A cluster may have to be heard of first.
    pub(super) async fn node_for(&self, whom: Whom<'_>, deadline: Instant) -> Result<Arc<Node>, DialError> {
        match (self, whom) {
            (_, Whom::Node(place)) => self.node_at(place),
            (Self::Single(node), _) => Ok(node.clone()),
            (Self::Cluster(cluster), Whom::Key(key)) => cluster.node_of(slot_of(key), deadline).await,
            (Self::Cluster(cluster), Whom::Any) => cluster.any_node(deadline).await,
        }
    }

    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        match self {
            Self::Single(node) => vec![node.clone()],
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// Whether there is somebody to ask. A cluster is away when all of it is.
    pub(super) fn standing(&self) -> Standing {
        let told = |state: NodeState| Some(format!("{}: {}", state.place, state.trouble?));
        match self {
            Self::Single(node) => told(node.state()).map_or(Standing::Well, Standing::Away),
            Self::Cluster(cluster) => {
                if let Some(why) = cluster.trouble() {
                    return Standing::Away(why);
                }
                let nodes = cluster.nodes();
                Standing::of_nodes(nodes.len(), nodes.iter().filter_map(|node| told(node.state())))
            }
        }
    }

    /// The name to put on a failure that no node is to blame for.
    pub(super) fn place(&self) -> HostPort {
        match self {
            Self::Single(node) => node.place(),
            Self::Cluster(cluster) => cluster.first_seed(),
        }
    }

    fn node_at(&self, place: &HostPort) -> Result<Arc<Node>, DialError> {
        let node = self.nodes().into_iter().find(|node| node.place() == *place);
        node.ok_or_else(|| DialError::unreachable(format!("{place} is not one of the nodes in use")))
    }
}
