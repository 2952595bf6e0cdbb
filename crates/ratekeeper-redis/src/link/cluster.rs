//! Redis Cluster: nodes and slot map.
//!
//! A background task reads the map at the start, after a redirect, and after a connection was lost. Callers use the
//! current map; a stale entry costs one redirect.

mod map;
mod refresh;

use std::{collections::HashMap, sync::Arc, time::Instant};

use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout_at};

use self::map::SlotMap;
use super::{
    background::Background,
    connect::ConnectError,
    error::NotExecuted,
    node::{NOT_YET, Node, NodeContext, ServerLocation},
    outcome::Redirect,
};
use crate::address::HostPort;

/// A cluster as callers use it.
#[derive(Debug)]
pub(super) struct Cluster {
    shared: Arc<Shared>,
    refresh_task: Background,
}

/// What callers and the refresh task share.
#[derive(Debug)]
struct Shared {
    seeds: Vec<HostPort>,
    context: NodeContext,
    nodes: Mutex<HashMap<HostPort, Arc<Node>>>,
    view: watch::Sender<MapState>,
}

/// The slot map, or why there is none.
#[derive(Clone, Debug)]
enum MapState {
    /// Being read for the first time. Callers wait for it.
    Loading,
    Known(Arc<SlotMap>),
    /// No node could be asked. Callers do not wait for the next attempt.
    Failed(ConnectError),
}

impl Cluster {
    pub(super) fn new(seeds: Vec<HostPort>, context: NodeContext) -> Self {
        let shared =
            Shared { seeds, context, nodes: Mutex::new(HashMap::new()), view: watch::Sender::new(MapState::Loading) };
        let cluster = Self { shared: Arc::new(shared), refresh_task: Background::default() };
        cluster.ensure_refresh_task();
        cluster
    }

    /// The node that owns a slot.
    pub(super) async fn node_of(&self, slot: u16, deadline: Instant) -> Result<Arc<Node>, ConnectError> {
        let owner = self.map(deadline).await?.owner(slot);
        owner.ok_or_else(|| {
            self.refresh();
            ConnectError::NotExecuted(NotExecuted::NoOwner { slot })
        })
    }

    /// A connected node, or the first one if none is.
    pub(super) async fn any_node(&self, deadline: Instant) -> Result<Arc<Node>, ConnectError> {
        let map = self.map(deadline).await?;
        let owners = map.owners();
        let connected = owners.iter().find(|node| node.is_connected()).or(owners.first());
        connected.cloned().ok_or(ConnectError::NotExecuted(NotExecuted::NoOwner { slot: 0 }))
    }

    /// Why a call about this slot would fail at once; see [`Node::known_failure`].
    pub(super) fn known_failure(&self, slot: u16) -> Option<ConnectError> {
        self.ensure_refresh_task();
        match &*self.shared.view.borrow() {
            MapState::Loading => None,
            MapState::Known(map) => map.owner(slot)?.known_failure(),
            MapState::Failed(why) => Some(why.clone()),
        }
    }

    /// The node that a redirect names. `MOVED` updates the map at once and starts a refresh, since other slots may have
    /// moved too.
    pub(super) fn follow(&self, redirect: &Redirect, sender: &HostPort) -> Option<Arc<Node>> {
        let address = HostPort::from_redirect(&redirect.to, sender)?;
        let node = self.shared.node_at(&address);
        if !redirect.is_ask {
            self.shared.set_owner(redirect.slot, &node);
            self.refresh();
        }
        Some(node)
    }

    /// Starts a refresh of the map.
    pub(super) fn refresh(&self) {
        self.shared.context.connection_lost.notify_one();
    }

    /// All nodes in use.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        let mut nodes: Vec<_> = self.shared.nodes.lock().values().cloned().collect();
        nodes.sort_by_key(|node| node.address());
        nodes
    }

    /// Why there is no slot map.
    pub(super) fn failure(&self) -> Option<String> {
        match &*self.shared.view.borrow() {
            MapState::Known(_) => None,
            MapState::Failed(why) => Some(why.to_string()),
            MapState::Loading => Some(NOT_YET.to_owned()),
        }
    }

    /// The address to report while no node is known.
    pub(super) fn first_seed(&self) -> HostPort {
        self.shared.seeds.first().cloned().unwrap_or_else(HostPort::unknown)
    }

    async fn map(&self, deadline: Instant) -> Result<Arc<SlotMap>, ConnectError> {
        self.ensure_refresh_task();
        if let MapState::Known(map) = &*self.shared.view.borrow() {
            return Ok(map.clone());
        }
        let mut view = self.shared.view.subscribe();
        let settled = view.wait_for(|view| !matches!(view, MapState::Loading));
        let out_of_time = Err(ConnectError::NotExecuted(NotExecuted::OutOfTime));
        let Ok(Ok(view)) = timeout_at(deadline.into(), settled).await else { return out_of_time };
        match &*view {
            MapState::Known(map) => Ok(map.clone()),
            MapState::Failed(why) => Err(why.clone()),
            MapState::Loading => out_of_time,
        }
    }

    fn ensure_refresh_task(&self) {
        self.refresh_task.ensure(|| refresh::run(self.shared.clone()));
    }
}

impl Shared {
    /// The node at an address, added if it is new. The next refresh removes nodes that own no slot.
    fn node_at(&self, address: &HostPort) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        let node = nodes
            .entry(address.clone())
            .or_insert_with(|| Node::new(ServerLocation::Fixed(address.clone()), self.context.clone()));
        node.clone()
    }

    fn set_owner(&self, slot: u16, node: &Arc<Node>) {
        self.view.send_if_modified(|view| {
            let MapState::Known(map) = view else { return false };
            let is_changed = !map.owner(slot).is_some_and(|owner| Arc::ptr_eq(&owner, node));
            if is_changed {
                Arc::make_mut(map).set_owner(slot, node);
            }
            is_changed
        });
    }
}
