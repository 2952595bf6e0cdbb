//! One attempt to acquire permits: resent while its outcome is unknown, undone if its caller is dropped.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ratekeeper_core::StoreError;
use ratekeeper_redis::link::CallError;
use tokio::{
    runtime::Handle,
    task::{JoinError, JoinHandle},
};

use super::{
    client::{SharedClient, store_error},
    error::RedissonError,
    keys::Keys,
    reply::AcquireOutcome,
};
use crate::failure::CallFailure;

/// A grant under a unique id. The id makes resending harmless and returning exact.
#[derive(Clone, Copy, Debug)]
struct Grant {
    id: [u8; 16],
    permits: u64,
}

/// An attempt in flight. If it is dropped, the task continues and returns a grant that it gets.
#[derive(Debug)]
pub(super) struct Attempt {
    client: Arc<SharedClient>,
    keys: Arc<Keys>,
    grant: Grant,
    /// `None` once the caller has the outcome.
    asking: Option<JoinHandle<Result<AcquireOutcome, RedissonError>>>,
    runtime: Handle,
}

impl Attempt {
    /// Starts the task. After `until` nothing is sent, and a server that executes the script later grants nothing.
    pub(super) fn start(client: &Arc<SharedClient>, keys: &Arc<Keys>, permits: u64, until: Option<Instant>) -> Self {
        let grant = Grant { id: client.random.id(), permits };
        let (client, keys) = (Arc::clone(client), Arc::clone(keys));
        let asking = {
            let (client, keys) = (Arc::clone(&client), Arc::clone(&keys));
            tokio::spawn(async move { ask(&client, &keys, grant, until).await })
        };
        Self { client, keys, grant, asking: Some(asking), runtime: Handle::current() }
    }

    /// The outcome. Dropping this future returns what may have been granted.
    pub(super) async fn answer(mut self) -> Result<AcquireOutcome, RedissonError> {
        let Some(asking) = &mut self.asking else { return Err(store_error(CallFailure::UnexpectedReply)) };
        let answer = asking.await;
        self.asking = None;
        answer.unwrap_or_else(|error| Err(cut_short(error)))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some(asking) = self.asking.take() else { return };
        let (client, keys, grant) = (Arc::clone(&self.client), Arc::clone(&self.keys), self.grant);
        self.runtime.spawn(async move {
            if let Ok(Ok(AcquireOutcome::Granted { .. })) = asking.await {
                give_back(&client, &keys, grant).await;
            }
        });
    }
}

async fn ask(
    client: &Arc<SharedClient>,
    keys: &Keys,
    grant: Grant,
    until: Option<Instant>,
) -> Result<AcquireOutcome, RedissonError> {
    let mut was_sent = false;
    let mut tries_left = client.config.tries;
    let mut call_deadline = client.deadline();
    loop {
        let deadline = until.map_or(call_deadline, |until| call_deadline.min(until));
        let mut words = grant.words().to_vec();
        words.push(if was_sent { b"1".to_vec() } else { b"0".to_vec() });
        let failure = match client.call(&client.scripts.acquire, &keys.all(), words, deadline).await {
            Ok(reply) => return reply.outcome(keys, grant.permits),
            Err(failure) => failure,
        };
        let pause = match &failure {
            CallFailure::Call(CallError::Unknown { .. }) => {
                was_sent = true;
                Some(Duration::ZERO)
            }
            CallFailure::Late => Some(Duration::ZERO),
            CallFailure::Call(CallError::NotExecuted { .. }) => Some(RETRY_PAUSE + client.random.below(RETRY_PAUSE)),
            _ => None,
        };
        // While the outcome of a sent call is unknown, an unreachable server does not use up a try: the next call finds
        // out whether the grant exists.
        let is_outcome_open = was_sent && !matches!(failure, CallFailure::Call(CallError::Unknown { .. }));
        if !(is_outcome_open && Instant::now() < deadline) {
            tries_left = tries_left.saturating_sub(1);
            call_deadline = client.deadline();
        }
        match pause {
            Some(pause) if tries_left > 0 && until.is_none_or(|until| Instant::now() + pause < until) => {
                tokio::time::sleep(pause).await;
            }
            _ => {
                if was_sent {
                    let (client, keys) = (Arc::clone(client), keys.clone());
                    tokio::spawn(async move { give_back(&client, &keys, grant).await });
                }
                return Err(store_error(failure));
            }
        }
    }
}

/// Returns a grant by its id, so that any number of tries returns it once. If all fail, the permits count as taken until
/// their interval is over.
async fn give_back(client: &SharedClient, keys: &Keys, grant: Grant) {
    for round in 0..GIVING_BACK_TRIES {
        let words = grant.words();
        match client.call(&client.scripts.undo, &keys.all(), words, client.deadline()).await {
            Err(CallFailure::Late | CallFailure::Call(CallError::Unknown { .. } | CallError::NotExecuted { .. })) => {
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

/// Pause before the next try to an unreachable server: time for a reconnect or a failover.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Six seconds in all, longer than a failover takes.
const GIVING_BACK_TRIES: u32 = 7;
