//! Deletion of all keys under the store's prefix, for simulations and tests.

use std::time::Instant;

use ratekeeper_core::StoreError;
use redis::{Cmd, cmd};
use tokio::task::JoinSet;

use super::{Failure, RedisStore};
use crate::link::{CallError, Destination, Link, Scan, beginning_with};

impl RedisStore {
    /// Deletes every key under this store's prefix, on every node, and returns their number. All limits kept there start
    /// again, for every process: meant for simulations and tests that use a separate prefix.
    ///
    /// Needs the rights `+scan +del`. `SCAN` runs in small steps, so a large server is not blocked.
    pub async fn forget_all(&self) -> Result<u64, StoreError> {
        let deleted = async {
            // Definitions that are being written in the background precede this on the same connection.
            self.command(Destination::Any, cmd("PING")).await?;
            let pattern = beginning_with(&format!("{}:", self.inner.config.prefix));
            let mut deleted = 0;
            for node in self.inner.link.nodes() {
                let mut scan = Scan::new(pattern.clone());
                while let Some(step) = scan.step() {
                    let page = scan.read(&self.command(Destination::Node(&node.address), step).await?);
                    deleted += self.delete(page).await?;
                }
            }
            Ok::<u64, CallError>(deleted)
        };
        deleted.await.map_err(|error| Failure::Call(error).into())
    }

    /// One `DEL` if all keys share a slot, else one per key, concurrently.
    async fn delete(&self, names: Vec<Vec<u8>>) -> Result<u64, CallError> {
        let count = names.len() as u64;
        let all: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let Some(first) = all.first() else { return Ok(0) };
        if self.inner.link.share_a_slot(&all) {
            self.command(Destination::Key(first), cmd("DEL").arg(&all).to_owned()).await?;
            return Ok(count);
        }
        let mut deleting = JoinSet::new();
        for name in names {
            let (link, deadline) = (self.inner.link.clone(), self.deadline());
            deleting.spawn(async move { delete_one(&link, &name, deadline).await });
        }
        while let Some(done) = deleting.join_next().await {
            // The tasks neither panic nor are aborted.
            done.unwrap_or(Ok(()))?;
        }
        Ok(count)
    }

    async fn command(&self, destination: Destination<'_>, command: Cmd) -> Result<redis::Value, CallError> {
        self.inner.link.command(destination, &command, self.deadline()).await
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.inner.config.link.deadline
    }
}

async fn delete_one(link: &Link, name: &[u8], deadline: Instant) -> Result<(), CallError> {
    link.command(Destination::Key(name), cmd("DEL").arg(name), deadline).await.map(drop)
}
