//! Decisions by the server without fallback, for simulations and tests.

use std::time::Instant;

use ratekeeper_core::{Ask, Decision, Source, StoreError, Terms, Verb};

use super::{NamedKey, RedisStore, charged, check, without_rules::has_effect};
use crate::{ledger::RequestKey, policies::RedisPolicy};

impl RedisStore {
    /// Decides as [`decide`](ratekeeper_core::Store::decide) does, without fallback: if the server cannot decide, the result
    /// is an error, whatever `on_store_failure` says.
    pub async fn decide_by_server(&self, asks: &[Ask<'_, RedisPolicy>], verb: &Verb) -> Result<Decision, StoreError> {
        self.decide_by_server_with(asks, verb, &Terms::NONE).await
    }

    /// The same under these terms.
    pub async fn decide_by_server_with(
        &self,
        asks: &[Ask<'_, RedisPolicy>],
        verb: &Verb,
        terms: &Terms,
    ) -> Result<Decision, StoreError> {
        check(asks, verb)?;
        if self.is_expiry_due() {
            Box::pin(self.expire_due()).await;
        }
        if asks.iter().any(has_effect) {
            return self.decide_without_rules(asks, *verb, terms).await;
        }
        let named = asks;
        let keys: Vec<NamedKey> = asks.iter().map(NamedKey::of).collect();
        let asks: Vec<RequestKey<'_>> = keys.iter().map(NamedKey::request).collect();
        let deadline = Instant::now() + self.inner.config.link.deadline;
        let mark = self.inner.fallback.ledger.mark();
        let asked = async {
            self.charge_first(&asks, verb, deadline).await?;
            self.ask(&asks, verb, terms, deadline).await
        };
        let decision = asked.await.inspect_err(|failure| self.count_foreign(failure))?;
        // A race with local grants is ignored: this call makes none.
        if decision.source != Source::Repeated {
            let _ = self.inner.fallback.observe(&charged(&asks, &decision), verb, &decision, mark);
        }
        self.queue_refund(named, terms, &decision);
        self.inner.counters.decided_by_store.add_one();
        Ok(decision)
    }
}
