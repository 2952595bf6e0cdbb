//! The nodes of a cluster, and which of them to ask for a key.
//!
//! The map of slots is learnt from the cluster and kept up in the background: at the start, when a node sends a caller
//! elsewhere, and when a connection is lost. Callers use the map there is; a wrong one costs them a redirect, no more.

mod map;
mod refresh;

use std::{collections::HashMap, sync::Arc, time::Instant};

use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout_at};

use self::map::SlotMap;
use super::{
    background::Background,
    dial::DialError,
    error::NotRun,
    fate::Redirect,
    node::{Common, NOT_YET, Node, Whereabouts},
};
use crate::address::HostPort;

/// A cluster, as callers see it.
#[derive(Debug)]
pub(super) struct Cluster {
    shared: Arc<Shared>,
    refresher: Background,
}

/// What callers and the refresher share.
#[derive(Debug)]
struct Shared {
    seeds: Vec<HostPort>,
    common: Common,
    nodes: Mutex<HashMap<HostPort, Arc<Node>>>,
    view: watch::Sender<View>,
}

/// What is known of the cluster.
#[derive(Clone, Debug)]
enum View {
    /// Nothing yet. Worth waiting for.
    Asking,
    Known(Arc<SlotMap>),
    /// Nobody could be asked. Being tried again, but nobody waits for it.
    Lost(DialError),
}

impl Cluster {
    pub(super) fn new(seeds: Vec<HostPort>, common: Common) -> Self {
        let shared =
            Shared { seeds, common, nodes: Mutex::new(HashMap::new()), view: watch::Sender::new(View::Asking) };
        let cluster = Self { shared: Arc::new(shared), refresher: Background::default() };
        cluster.be_refreshed();
        cluster
    }

    /// The node that answers for a slot.
    pub(super) async fn node_of(&self, slot: u16, deadline: Instant) -> Result<Arc<Node>, DialError> {
        let owner = self.map(deadline).await?.owner(slot);
        owner.ok_or_else(|| {
            self.refresh();
            DialError::NotRun(NotRun::NoOwner { slot })
        })
    }

    /// Any node that is connected, or one that might be.
    pub(super) async fn any_node(&self, deadline: Instant) -> Result<Arc<Node>, DialError> {
        let map = self.map(deadline).await?;
        let owners = map.owners();
        let connected = owners.iter().find(|node| node.is_connected()).or(owners.first());
        connected.cloned().ok_or(DialError::NotRun(NotRun::NoOwner { slot: 0 }))
    }

    /// The node a caller was sent to. A move for good is taken into the map at once; the rest of it may have changed, too.
    pub(super) fn follow(&self, redirect: &Redirect, teller: &HostPort) -> Option<Arc<Node>> {
        let place = HostPort::from_redirect(&redirect.to, teller)?;
        let node = self.shared.node_at(&place);
        if !redirect.is_for_once {
            self.shared.patch(redirect.slot, &node);
            self.refresh();
        }
        Some(node)
    }

    /// Has the map looked over soon.
    pub(super) fn refresh(&self) {
        self.shared.common.trouble.notify_one();
    }

    /// All nodes in use.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        let mut nodes: Vec<_> = self.shared.nodes.lock().values().cloned().collect();
        nodes.sort_by_key(|node| node.place());
        nodes
    }

    /// Why nobody knows whom to ask.
    pub(super) fn trouble(&self) -> Option<String> {
        match &*self.shared.view.borrow() {
            View::Known(_) => None,
            View::Lost(why) => Some(why.to_string()),
            View::Asking => Some(NOT_YET.to_owned()),
        }
    }

    /// Where to look when nothing else is known.
    pub(super) fn first_seed(&self) -> HostPort {
        self.shared.seeds.first().cloned().unwrap_or_else(|| HostPort::new("nowhere", 0))
    }

    async fn map(&self, deadline: Instant) -> Result<Arc<SlotMap>, DialError> {
        self.be_refreshed();
        if let View::Known(map) = &*self.shared.view.borrow() {
            return Ok(map.clone());
        }
        let mut view = self.shared.view.subscribe();
        let settled = view.wait_for(|view| !matches!(view, View::Asking));
        let too_late = Err(DialError::NotRun(NotRun::OutOfTime));
        let Ok(Ok(view)) = timeout_at(deadline.into(), settled).await else { return too_late };
        match &*view {
            View::Known(map) => Ok(map.clone()),
            View::Lost(why) => Err(why.clone()),
            View::Asking => too_late,
        }
    }

    fn be_refreshed(&self) {
        self.refresher.ensure(|| refresh::keep(self.shared.clone()));
    }
}

impl Shared {
    /// The node at a place, made known if it is new. Those that own nothing are forgotten at the next refresh.
    fn node_at(&self, place: &HostPort) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        let node = nodes
            .entry(place.clone())
            .or_insert_with(|| Node::new(Whereabouts::Fixed(place.clone()), self.common.clone()));
        node.clone()
    }

    fn patch(&self, slot: u16, node: &Arc<Node>) {
        self.view.send_if_modified(|view| {
            let View::Known(map) = view else { return false };
            let is_news = !map.owner(slot).is_some_and(|owner| Arc::ptr_eq(&owner, node));
            if is_news {
                Arc::make_mut(map).set_owner(slot, node);
            }
            is_news
        });
    }
}
