//! Decisions by the server or not at all, for whoever would rather have no answer than a local one.

use std::time::Instant;

use tollgate_core::{Ask, Decision, StoreError, Verb};

use super::{Keys, RedisStore, check};
use crate::{ledger::Party, policies::RedisPolicy};

impl RedisStore {
    /// Decides as [`decide`](tollgate_core::Store::decide) does, but only by the server: where it cannot answer, the
    /// error says why, whatever the rules say about a store that fails. For simulations and tests.
    pub async fn decide_by_server(&self, asks: &[Ask<'_, RedisPolicy>], verb: &Verb) -> Result<Decision, StoreError> {
        check(asks, verb)?;
        let keys = Keys::of(asks);
        let asks: Vec<Party<'_>> = keys.parties(asks).collect();
        let deadline = Instant::now() + self.inner.config.link.deadline;
        let mark = self.inner.fallback.ledger.mark();
        let asked = async {
            self.charge_first(&asks, verb, deadline).await?;
            self.ask(&asks, verb, deadline).await
        };
        let decision = asked.await.inspect_err(|failure| self.count_foreign(failure))?;
        // Nothing is decided locally here, so there is nothing that it could have raced with.
        let _ = self.inner.fallback.heard(&asks, verb, &decision, mark);
        self.inner.counters.decided_by_store.add_one();
        Ok(decision)
    }
}
