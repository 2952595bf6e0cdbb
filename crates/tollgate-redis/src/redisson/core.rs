//! What all limiters of a client have in common: the way to the server, and how scripts are called.

use std::time::Instant;

use redis::{Cmd, Value};

use super::{
    client_id::{Chance, ClientId},
    error::RedissonError,
    keys::Keys,
    reply::Reply,
    scripts::Scripts,
    settings::RedissonConfig,
};
use crate::{
    link::{Call, DEADLINE_BYTES, Link, Script, Whom},
    store::Failure,
};

#[derive(Debug)]
pub(super) struct Core {
    pub(super) link: Link,
    pub(super) config: RedissonConfig,
    pub(super) client_id: ClientId,
    pub(super) chance: Chance,
    pub(super) scripts: Scripts,
}

impl Core {
    /// Runs a script; again if it says that it came too late while there is time left, which is when the server's clock
    /// was set. It has done nothing then, and has told the time.
    pub(super) async fn call(
        &self,
        script: &Script,
        keys: &[&[u8]],
        words: impl IntoIterator<Item = Vec<u8>>,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        let mut args = vec![vec![0; DEADLINE_BYTES], self.config.clock.word()];
        args.extend(words);
        for _ in 0..CLOCK_STEPS {
            let value = self.link.call(Call { script, keys, args: args.clone(), deadline }).await?;
            match Reply::read(&value) {
                Err(Failure::Late) if Instant::now() < deadline => {}
                read => return read,
            }
        }
        Err(Failure::Late)
    }

    /// The same for operations that are sent once, whatever becomes of them.
    pub(super) async fn call_once(
        &self,
        script: &Script,
        keys: &[&[u8]],
        words: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<Reply, RedissonError> {
        self.call(script, keys, words, self.patience()).await.map_err(in_store_words)
    }

    /// A plain command about one limiter.
    pub(super) async fn command(&self, keys: &Keys, command: &Cmd) -> Result<Value, RedissonError> {
        let called = self.link.command(Whom::Key(keys.name().as_bytes()), command, self.patience()).await;
        called.map_err(|error| in_store_words(error.into()))
    }

    /// All keys in one slot, or an error that says what would do.
    pub(super) fn check_slots(&self, name: &str, keys: &[&[u8]], advice: &'static str) -> Result<(), RedissonError> {
        if self.link.share_a_slot(keys) {
            return Ok(());
        }
        Err(RedissonError::ApartInCluster { name: name.to_owned(), advice })
    }

    pub(super) fn patience(&self) -> Instant {
        Instant::now() + self.config.link.deadline
    }
}

pub(super) fn in_store_words(failure: Failure) -> RedissonError {
    RedissonError::Store(failure.into())
}

/// So often may a server's clock be set during one call.
const CLOCK_STEPS: u32 = 4;
