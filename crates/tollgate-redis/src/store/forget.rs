//! Cleaning up after a store that was meant to be thrown away.

use std::time::Instant;

use redis::{Cmd, cmd};
use tokio::task::JoinSet;
use tollgate_core::StoreError;

use super::{Failure, RedisStore};
use crate::{
    link::{CallError, Link, Whom},
    scan::{Scan, beginning_with},
};

impl RedisStore {
    /// Deletes everything under this store's prefix, on every node, and says how many keys that were. Every limit kept
    /// there begins anew, whoever shares it: meant for simulations and tests, with a prefix of their own.
    ///
    /// Needs the rights `+scan +del`. Keys are looked for in small steps, so a large server is not held up.
    pub async fn forget_all(&self) -> Result<u64, StoreError> {
        let gone = async {
            // What is still being written in the background is on its way before the answer to this is here.
            self.command(Whom::Any, cmd("PING")).await?;
            let pattern = beginning_with(&format!("{}:", self.inner.config.prefix));
            let mut gone = 0;
            for node in self.inner.link.nodes() {
                let mut scan = Scan::new(pattern.clone());
                while let Some(step) = scan.step() {
                    let page = scan.read(&self.command(Whom::Node(&node.place), step).await?);
                    gone += self.delete(page).await?;
                }
            }
            Ok::<u64, CallError>(gone)
        };
        gone.await.map_err(|error| Failure::Call(error).into())
    }

    /// All at once where one command can reach all of them, else side by side.
    async fn delete(&self, names: Vec<Vec<u8>>) -> Result<u64, CallError> {
        let count = names.len() as u64;
        let all: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let Some(first) = all.first() else { return Ok(0) };
        if self.inner.link.share_a_slot(&all) {
            self.command(Whom::Key(first), cmd("DEL").arg(&all).to_owned()).await?;
            return Ok(count);
        }
        let mut deleting = JoinSet::new();
        for name in names {
            let (link, deadline) = (self.inner.link.clone(), self.patience());
            deleting.spawn(async move { delete_one(&link, &name, deadline).await });
        }
        while let Some(done) = deleting.join_next().await {
            // A task neither panics nor is aborted here; if one were, its key would expire by itself.
            done.unwrap_or(Ok(()))?;
        }
        Ok(count)
    }

    async fn command(&self, whom: Whom<'_>, command: Cmd) -> Result<redis::Value, CallError> {
        self.inner.link.command(whom, &command, self.patience()).await
    }

    fn patience(&self) -> Instant {
        Instant::now() + self.inner.config.link.deadline
    }
}

async fn delete_one(link: &Link, name: &[u8], deadline: Instant) -> Result<(), CallError> {
    link.command(Whom::Key(name), cmd("DEL").arg(name), deadline).await.map(drop)
}
