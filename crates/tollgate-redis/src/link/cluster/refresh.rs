//! Keeps the map of slots up, one question at a time.

use std::time::Instant;

use redis::cmd;
use tokio::time::sleep;

use super::*;
use crate::link::{
    fate::Fate,
    random::Random,
    slots::{Range, read_slots},
};

/// Runs until the cluster is dropped: asks at once, and then whenever there was trouble.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut random = Random::new();
    loop {
        let is_known = match learn(&shared).await {
            Ok(ranges) => {
                shared.publish(&ranges);
                true
            }
            Err(why) => {
                shared.view.send_if_modified(|view| {
                    // An old map is better than none.
                    let is_news = !matches!(view, View::Known(_));
                    if is_news {
                        *view = View::Lost(why);
                    }
                    is_news
                });
                false
            }
        };
        // However much trouble there is, the cluster is not asked more often than this.
        let settings = &shared.common.settings;
        sleep(random.between(settings.redial_min, settings.redial_min * 2)).await;
        if is_known {
            shared.common.trouble.notified().await;
        }
    }
}

/// Asks one node after the other who owns what; the first to know is believed.
async fn learn(shared: &Shared) -> Result<Vec<Range>, DialError> {
    let mut known: Vec<_> = shared.nodes.lock().values().cloned().collect();
    // Those we are connected to first; the rest may cost a timeout each.
    known.sort_by_key(|node| !node.is_connected());
    let mut why = DialError::unreachable("no node is known");
    for node in known {
        match ask(shared, &node).await {
            Ok(ranges) => return Ok(ranges),
            Err(error) => why = error,
        }
    }
    for seed in &shared.seeds {
        if shared.nodes.lock().contains_key(seed) {
            continue;
        }
        match ask(shared, &shared.node_at(seed)).await {
            Ok(ranges) => return Ok(ranges),
            Err(error) => why = error,
        }
    }
    Err(why)
}

async fn ask(shared: &Shared, node: &Node) -> Result<Vec<Range>, DialError> {
    let deadline = Instant::now() + shared.common.settings.connect_timeout;
    let question = |_| {
        let mut question = cmd("CLUSTER");
        question.arg("SLOTS");
        question
    };
    match node.ask(deadline, false, question).await {
        Fate::Answered(answer) => {
            let ranges = read_slots(&answer.value, &node.place());
            if ranges.is_empty() { Err(DialError::NotRun(NotRun::ClusterDown)) } else { Ok(ranges) }
        }
        Fate::NotRun(why) => Err(DialError::NotRun(why)),
        Fate::Refused(refusal) => Err(DialError::Refused(refusal)),
        // The question may have been heard or not. Whoever waits for the map has sent nothing yet.
        _ => Err(DialError::unreachable(format!("{} does not say who owns what", node.place()))),
    }
}

impl Shared {
    /// Takes up what was learnt, and forgets the nodes that own nothing any more.
    fn publish(&self, ranges: &[Range]) {
        let mut map = SlotMap::new();
        for range in ranges {
            map.set_owners(range.first, range.last, &self.node_at(&range.owner));
        }
        self.nodes.lock().retain(|_, node| map.owners().iter().any(|owner| Arc::ptr_eq(owner, node)));
        self.view.send_replace(View::Known(Arc::new(map)));
    }
}
