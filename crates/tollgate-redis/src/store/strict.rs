//! Decisions by the server or not at all, for whoever would rather have no answer than a local one.

use std::{sync::Arc, time::Instant};

use tollgate_core::{Ask, Decision, StoreError, Verb};

use super::{RedisStore, check};
use crate::{
    fallback::Without,
    policies::{RedisPolicy, Version},
};

impl RedisStore {
    /// Decides as [`decide`](tollgate_core::Store::decide) does, but only by the server: where it cannot answer, the
    /// error says why, whatever the rules say about a store that fails. For simulations and tests.
    pub async fn decide_by_server(&self, asks: &[Ask<'_, RedisPolicy>], verb: &Verb) -> Result<Decision, StoreError> {
        check(asks, verb)?;
        let versions: Vec<Arc<Version>> = asks.iter().map(|ask| ask.policy.current()).collect();
        let asks = asks.iter().zip(&versions).map(|(ask, version)| Without { version, key: ask.key, times: ask.times });
        let deadline = Instant::now() + self.inner.config.link.deadline;
        let decision = self.ask(&asks.collect::<Vec<_>>(), verb, deadline).await?;
        self.inner.counters.decided_by_store.add_one();
        Ok(decision)
    }
}
