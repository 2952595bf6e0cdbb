//! State shared by all limiters of a client: link, settings, client id and scripts.

use std::time::Instant;

use ratekeeper_redis::link::{Call, DEADLINE_BYTES, Destination, Link, Script};
use redis::{Cmd, Value};

use super::{
    client_id::{ClientId, RandomIds},
    error::RedissonError,
    keys::Keys,
    reply::ScriptReply,
    scripts::Scripts,
    settings::RedissonConfig,
};
use crate::failure::CallFailure;

#[derive(Debug)]
pub(super) struct SharedClient {
    pub(super) link: Link,
    pub(super) config: RedissonConfig,
    pub(super) client_id: ClientId,
    pub(super) random: RandomIds,
    pub(super) scripts: Scripts,
}

impl SharedClient {
    /// Runs a script. Runs it again if it replies "late" before the deadline: then the server's clock was set, the script
    /// has done nothing, and its reply has updated the clock estimate.
    pub(super) async fn call(
        &self,
        script: &Script,
        keys: &[&[u8]],
        words: impl IntoIterator<Item = Vec<u8>>,
        deadline: Instant,
    ) -> Result<ScriptReply, CallFailure> {
        let mut args = vec![vec![0; DEADLINE_BYTES], self.config.clock.word()];
        args.extend(words);
        for _ in 0..CLOCK_STEPS {
            let value = self.link.call(Call { script, keys, args: args.clone(), deadline }).await?;
            match ScriptReply::read(&value) {
                Err(CallFailure::Late) if Instant::now() < deadline => {}
                read => return read,
            }
        }
        Err(CallFailure::Late)
    }

    /// Runs a script that must not be sent again if its outcome is unknown.
    pub(super) async fn call_once(
        &self,
        script: &Script,
        keys: &[&[u8]],
        words: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<ScriptReply, RedissonError> {
        self.call(script, keys, words, self.deadline()).await.map_err(store_error)
    }

    /// A plain command about one limiter.
    pub(super) async fn command(&self, keys: &Keys, command: &Cmd) -> Result<Value, RedissonError> {
        let called = self.link.command(Destination::Key(keys.name().as_bytes()), command, self.deadline()).await;
        called.map_err(|error| store_error(error.into()))
    }

    /// An error with a remedy unless all keys share a slot.
    pub(super) fn check_slots(&self, name: &str, keys: &[&[u8]], advice: &'static str) -> Result<(), RedissonError> {
        if self.link.share_a_slot(keys) {
            return Ok(());
        }
        Err(RedissonError::ApartInCluster { name: name.to_owned(), advice })
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.config.link.deadline
    }
}

pub(super) fn store_error(failure: CallFailure) -> RedissonError {
    RedissonError::Store(failure.into())
}

/// Calls of a script whose server's clock is set meanwhile.
const CLOCK_STEPS: u32 = 4;
