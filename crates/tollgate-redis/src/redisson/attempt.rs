//! One attempt to acquire: sent again while its fate is unknown, and undone when nobody waits for the answer any more.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    runtime::Handle,
    task::{JoinError, JoinHandle},
};
use tollgate_core::StoreError;

use super::{
    core::{Core, in_store_words},
    error::RedissonError,
    keys::Keys,
    reply::Outcome,
};
use crate::{link::CallError, store::Failure};

/// A grant by its name, which makes sending it twice harmless and giving it back exact.
#[derive(Clone, Copy, Debug)]
struct Grant {
    id: [u8; 16],
    permits: u64,
}

/// An attempt under way. It goes on when its caller leaves, and then gives back what it got.
#[derive(Debug)]
pub(super) struct Attempt {
    core: Arc<Core>,
    keys: Arc<Keys>,
    grant: Grant,
    /// Nothing once the caller has the answer.
    asking: Option<JoinHandle<Result<Outcome, RedissonError>>>,
    runtime: Handle,
}

impl Attempt {
    /// Starts asking. With `until`, nothing is sent after that moment, nor granted by a server that reads it later.
    pub(super) fn start(core: &Arc<Core>, keys: &Arc<Keys>, permits: u64, until: Option<Instant>) -> Self {
        let grant = Grant { id: core.chance.sixteen(), permits };
        let (core, keys) = (Arc::clone(core), Arc::clone(keys));
        let asking = {
            let (core, keys) = (Arc::clone(&core), Arc::clone(&keys));
            tokio::spawn(async move { ask(&core, &keys, grant, until).await })
        };
        Self { core, keys, grant, asking: Some(asking), runtime: Handle::current() }
    }

    /// The answer. Whoever stops waiting for it gives back what may have been granted.
    pub(super) async fn answer(mut self) -> Result<Outcome, RedissonError> {
        let Some(asking) = &mut self.asking else { return Err(in_store_words(Failure::Strange)) };
        let answer = asking.await;
        self.asking = None;
        answer.unwrap_or_else(|error| Err(cut_short(error)))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some(asking) = self.asking.take() else { return };
        let (core, keys, grant) = (Arc::clone(&self.core), Arc::clone(&self.keys), self.grant);
        self.runtime.spawn(async move {
            if let Ok(Ok(Outcome::Granted { .. })) = asking.await {
                give_back(&core, &keys, grant).await;
            }
        });
    }
}

async fn ask(core: &Arc<Core>, keys: &Keys, grant: Grant, until: Option<Instant>) -> Result<Outcome, RedissonError> {
    let mut was_sent = false;
    let mut tries_left = core.config.tries;
    let mut patience = core.patience();
    loop {
        let deadline = until.map_or(patience, |until| patience.min(until));
        let mut words = grant.words().to_vec();
        words.push(if was_sent { b"1".to_vec() } else { b"0".to_vec() });
        let failure = match core.call(&core.scripts.acquire, &keys.all(), words, deadline).await {
            Ok(reply) => return reply.outcome(keys, grant.permits),
            Err(failure) => failure,
        };
        let pause = match &failure {
            Failure::Call(CallError::Unknown { .. }) => {
                was_sent = true;
                Some(Duration::ZERO)
            }
            Failure::Late => Some(Duration::ZERO),
            Failure::Call(CallError::NotRun { .. }) => Some(RETRY_PAUSE + core.chance.below(RETRY_PAUSE)),
            _ => None,
        };
        // A server that cannot be reached costs no try while an answer is missing: what it said is worth some patience.
        let is_sought = was_sent && !matches!(failure, Failure::Call(CallError::Unknown { .. }));
        if !(is_sought && Instant::now() < deadline) {
            tries_left = tries_left.saturating_sub(1);
            patience = core.patience();
        }
        match pause {
            Some(pause) if tries_left > 0 && until.is_none_or(|until| Instant::now() + pause < until) => {
                tokio::time::sleep(pause).await;
            }
            _ => {
                if was_sent {
                    let (core, keys) = (Arc::clone(core), keys.clone());
                    tokio::spawn(async move { give_back(&core, &keys, grant).await });
                }
                return Err(in_store_words(failure));
            }
        }
    }
}

/// Takes a grant back, by name, so that any number of tries takes back no more than that. If none of them gets through,
/// the permits count as taken until they lapse.
async fn give_back(core: &Core, keys: &Keys, grant: Grant) {
    for round in 0..GIVING_BACK_TRIES {
        let words = grant.words();
        match core.call(&core.scripts.undo, &keys.all(), words, core.patience()).await {
            Err(Failure::Late | Failure::Call(CallError::Unknown { .. } | CallError::NotRun { .. })) => {
                tokio::time::sleep(RETRY_PAUSE * (1 << round)).await;
            }
            _ => return,
        }
    }
}

impl Grant {
    fn words(&self) -> [Vec<u8>; 2] {
        [self.permits.to_string().into_bytes(), self.id.to_vec()]
    }
}

fn cut_short(error: JoinError) -> RedissonError {
    StoreError::Unreachable { address: "the server".to_owned(), cause: Box::new(error) }.into()
}

/// Before asking a server again that could not be asked: time for it to be found, or for another to take over.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Six seconds in all, which is longer than a failover takes.
const GIVING_BACK_TRIES: u32 = 7;
