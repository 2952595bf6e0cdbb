//! Refresh task of the slot map: reads `CLUSTER SLOTS`, one node at a time.

use std::time::Instant;

use redis::cmd;
use tokio::time::sleep;

use super::*;
use crate::link::{
    outcome::CallOutcome,
    random::Random,
    slots::{Range, read_slots},
};

/// Runs until the cluster is dropped: refreshes at once, then after every lost connection or redirect.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut random = Random::new();
    loop {
        let is_known = match read_map(&shared).await {
            Ok(ranges) => {
                shared.publish(&ranges);
                true
            }
            Err(error) => {
                shared.view.send_if_modified(|view| {
                    // A stale map is better than none.
                    let is_changed = !matches!(view, MapState::Known(_));
                    if is_changed {
                        *view = MapState::Failed(error);
                    }
                    is_changed
                });
                false
            }
        };
        shared.context.health_changed.notify_one();
        // The least time between two refreshes, however many connections are lost.
        let settings = &shared.context.settings;
        sleep(random.between(settings.redial_min, settings.redial_min * 2)).await;
        if is_known {
            shared.context.connection_lost.notified().await;
        }
    }
}

/// The map of the first node that returns one.
async fn read_map(shared: &Shared) -> Result<Vec<Range>, ConnectError> {
    let mut known: Vec<_> = shared.nodes.lock().values().cloned().collect();
    // Connected nodes first: each of the others may cost a timeout.
    known.sort_by_key(|node| !node.is_connected());
    let mut last_error = ConnectError::unreachable("no node is known");
    for node in known {
        match ask(shared, &node).await {
            Ok(ranges) => return Ok(ranges),
            Err(error) => last_error = error,
        }
    }
    for seed in &shared.seeds {
        if shared.nodes.lock().contains_key(seed) {
            continue;
        }
        match ask(shared, &shared.node_at(seed)).await {
            Ok(ranges) => return Ok(ranges),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

async fn ask(shared: &Shared, node: &Node) -> Result<Vec<Range>, ConnectError> {
    let deadline = Instant::now() + shared.context.settings.connect_timeout;
    let command = |_| {
        let mut command = cmd("CLUSTER");
        command.arg("SLOTS");
        command
    };
    match node.ask(deadline, false, command, |_| None).await {
        CallOutcome::Answered(reply) => {
            let ranges = read_slots(&reply.value, &node.address());
            if ranges.is_empty() { Err(ConnectError::NotExecuted(NotExecuted::ClusterDown)) } else { Ok(ranges) }
        }
        CallOutcome::NotExecuted(why) => Err(ConnectError::NotExecuted(why)),
        CallOutcome::Refused(refusal) => Err(ConnectError::Refused(refusal)),
        // Callers that wait for the map have sent nothing, so this is not an unknown outcome for them.
        _ => Err(ConnectError::unreachable(format!("{} does not answer CLUSTER SLOTS", node.address()))),
    }
}

impl Shared {
    /// Publishes a new map and removes the nodes that own no slot.
    fn publish(&self, ranges: &[Range]) {
        let was_known = matches!(&*self.view.borrow(), MapState::Known(_));
        let before: Vec<HostPort> = self.owners();
        let mut map = SlotMap::new();
        for range in ranges {
            map.set_owners(range.first, range.last, &self.node_at(&range.owner));
        }
        self.nodes.lock().retain(|_, node| map.owners().iter().any(|owner| Arc::ptr_eq(owner, node)));
        self.view.send_replace(MapState::Known(Arc::new(map)));
        let after = self.owners();
        let added = after.iter().filter(|node| !before.contains(node)).count();
        let removed = before.iter().filter(|node| !after.contains(node)).count();
        if was_known && added + removed > 0 {
            self.context.events.cluster_changed(after.len(), added, removed);
        }
    }

    fn owners(&self) -> Vec<HostPort> {
        match &*self.view.borrow() {
            MapState::Known(map) => map.owners().iter().map(|node| node.address()).collect(),
            MapState::Loading | MapState::Failed(_) => Vec::new(),
        }
    }
}
