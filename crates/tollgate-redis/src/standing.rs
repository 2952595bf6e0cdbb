//! Whether the server can decide: known from the link, and where calls are refused, asked for.
//!
//! The link knows by itself whether somebody is there: it dials, feels the pulse and gives sick nodes a rest, whether
//! anybody calls or not. What it cannot know is whether a server that answers would also decide: one out of memory, or
//! turned into a replica, answers every greeting and refuses every write. A call that was refused may be of that kind,
//! or be about one key and nothing else. So it is only a reason to ask, with a script that touches nothing and that a
//! server refuses whenever it would refuse ours.
//!
//! Nothing told here names a key.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redis::{Cmd, cmd};

use crate::{
    link::{Background, CallError, NotRun, Whom},
    store::{Inner, RedisStore},
};

/// Whether a store's servers can decide.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Standing {
    /// They can.
    #[default]
    Well,
    /// Some nodes of a cluster cannot; whose keys those are is decided by each rule's policy. Which, and why.
    Partly(String),
    /// None can, and why.
    Away(String),
}

impl Standing {
    /// Of so many nodes, with what is wrong with some of them.
    pub(crate) fn of_nodes(count: usize, troubles: impl Iterator<Item = String>) -> Self {
        let troubles: Vec<String> = troubles.collect();
        match troubles.as_slice() {
            [] => Self::Well,
            [first, ..] if troubles.len() >= count => Self::Away(first.clone()),
            [first, ..] => Self::Partly(format!("{} of {count} nodes: {first}", troubles.len())),
        }
    }
}

/// A reason to ask the server whether it would decide, and what it said.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    is_raised: AtomicBool,
    found: Mutex<Standing>,
    asking: Background,
}

impl Doubt {
    /// Whether the server is being asked: from a call that was refused until a second after it would decide again.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking.is_running()
    }
}

impl RedisStore {
    /// Whether the server can decide, without waiting: as the link knows it, and as the server said when it was last
    /// asked. It is asked when a call was refused, and from then on every second until it would decide again.
    pub fn standing(&self) -> Standing {
        let found = || self.inner.doubt.found.lock().clone();
        match self.inner.link.standing() {
            Standing::Well => found(),
            Standing::Partly(why) => match found() {
                away @ Standing::Away(_) => away,
                _ => Standing::Partly(why),
            },
            away => away,
        }
    }

    /// A call was refused: has it been the call, or would any be?
    pub(crate) fn doubt(&self) {
        let doubt = &self.inner.doubt;
        doubt.is_raised.store(true, Ordering::Relaxed);
        doubt.asking.ensure(|| {
            let store = Arc::downgrade(&self.inner);
            async move {
                while let Some(inner) = store.upgrade() {
                    inner.doubt.is_raised.store(false, Ordering::Relaxed);
                    inner.look_closer().await;
                    let is_well = *inner.doubt.found.lock() == Standing::Well;
                    drop(inner);
                    tokio::time::sleep(BETWEEN_LOOKS).await;
                    let Some(inner) = store.upgrade() else { return };
                    if is_well && !inner.doubt.is_raised.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
    }
}

impl Inner {
    /// Asks every server whether it would decide. Whoever is silent has told nothing; the link will.
    async fn look_closer(&self) {
        let key = format!("{}:standing", self.config.prefix);
        let keyed = self.would_decide(Whom::Key(key.as_bytes()), would_decide(Some(&key))).await;
        let found = match (keyed, self.link.is_cluster()) {
            (Told::Nothing, _) => return,
            (Told::Yes, false) => Standing::Well,
            // A cluster that is down says so to whoever names a key, and no node is better than the others.
            (Told::No(why, is_everywhere), is_cluster) if is_everywhere || !is_cluster => Standing::Away(why),
            (_, _) => self.ask_nodes().await,
        };
        *self.doubt.found.lock() = found;
    }

    async fn ask_nodes(&self) -> Standing {
        let (mut troubles, nodes) = (Vec::new(), self.link.nodes());
        for node in &nodes {
            if let Told::No(why, _) = self.would_decide(Whom::Node(&node.place), would_decide(None)).await {
                troubles.push(why);
            }
        }
        Standing::of_nodes(nodes.len(), troubles.into_iter())
    }

    async fn would_decide(&self, whom: Whom<'_>, question: Cmd) -> Told {
        let deadline = Instant::now() + self.config.link.connect_timeout;
        match self.link.command(whom, &question, deadline).await {
            Ok(_) => Told::Yes,
            Err(CallError::Unknown { .. }) => Told::Nothing,
            // These are the link's to tell, and it does.
            Err(CallError::NotRun {
                why: NotRun::Unreachable { .. } | NotRun::BreakerOpen | NotRun::TooBusy | NotRun::OutOfTime,
                ..
            }) => Told::Nothing,
            Err(error) => {
                let is_everywhere = matches!(&error, CallError::NotRun { why: NotRun::ClusterDown, .. });
                Told::No(error.to_string(), is_everywhere)
            }
        }
    }
}

/// What a server said to the question whether it would decide.
enum Told {
    Yes,
    /// Why not, and whether all others would say the same.
    No(String, bool),
    Nothing,
}

/// A script that does nothing. With its first line, servers refuse it for all the reasons for which they refuse writes.
fn would_decide(key: Option<&str>) -> Cmd {
    let mut question = cmd("EVAL");
    question.arg("#!lua\nreturn 1").arg(u8::from(key.is_some()));
    if let Some(key) = key {
        question.arg(key);
    }
    question
}

/// How often a server is asked, at most.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
