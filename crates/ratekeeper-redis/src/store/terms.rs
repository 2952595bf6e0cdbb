//! Requests with terms: ids that are charged once, their commits and cancels, partial grants.
//!
//! They are sent alone: not merged with others, and not answered by allotments. A call of unknown outcome may be sent again
//! if it has an id, because the server records what it has charged: once, after half of its time or half a second.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ratekeeper_core::{
    Ask, Decision, Effect, OnExpiry, RequestId, Span, StoreError, Terms, Verb,
    store_api::{OpenReservation, RequestRecord},
};

use super::{
    Failure, RedisStore,
    keys::{NamedKey, check},
    without_rules::has_effect,
};
use crate::{
    ledger::RequestKey,
    link::{CallError, NotExecuted},
    policies::RedisPolicy,
};

/// A commit or a cancel of a request that was granted without the server.
pub(super) struct LocalFinish {
    key: NamedKey,
    /// The verb that changes the charge.
    change: Verb,
    /// Permits charged in the end.
    granted: u64,
}

impl RedisStore {
    pub(super) async fn decide_under(
        &self,
        asks: &[Ask<'_, RedisPolicy>],
        verb: Verb,
        terms: Terms,
    ) -> Result<Decision, StoreError> {
        use ratekeeper_core::Store;
        if terms.is_none() || !matches!(verb, Verb::Take(_)) {
            return self.decide(asks, verb).await;
        }
        check(asks, &verb)?;
        if self.is_expiry_due() {
            Box::pin(self.expire_due()).await;
        }
        let denies = |ask: &Ask<'_, RedisPolicy>| ask.cost > 0 && ask.policy.load().policy.effect() == Effect::Deny;
        let limited: Vec<Ask<'_, RedisPolicy>> = asks.iter().filter(|ask| !has_effect(ask)).copied().collect();
        if limited.is_empty() || asks.iter().any(denies) {
            return self.decide_without_rules(asks, verb, &terms).await;
        }
        let asks = limited.as_slice();
        let keys: Vec<NamedKey> = asks.iter().map(NamedKey::of).collect();
        let requests: Vec<RequestKey<'_>> = keys.iter().map(NamedKey::request).collect();
        if let Some(repeated) = self.repeated_here(&requests, terms.id) {
            return Ok(repeated);
        }
        let refunds = terms.on_expiry == OnExpiry::Refund && terms.id.is_some();
        if refunds {
            self.inner.expiring.is_full_for(asks.len())?;
        }
        let deadline = Instant::now() + self.inner.config.link.deadline;
        let decision = self.decide_alone_with(&requests, &verb, &terms, deadline).await?;
        self.queue_refund(asks, &terms, &decision);
        Ok(decision)
    }

    /// Queues a reservation for its refund, at the next request of this process after it has expired or by a timer. A
    /// repeated one may have been queued by a process that has gone; refunding twice has no effect.
    pub(super) fn queue_refund(&self, asks: &[Ask<'_, RedisPolicy>], terms: &Terms, decision: &Decision) {
        let (Some(id), OnExpiry::Refund, true) = (terms.id, terms.on_expiry, decision.is_allowed()) else { return };
        let expires = decision.decided_at + terms.lifetime;
        for ask in asks.iter().filter(|ask| ask.cost > 0) {
            let open = OpenReservation { policy: ask.policy.clone(), key: ask.key.into(), id };
            self.inner.expiring.add(expires, open);
        }
        if self.inner.config.clock.is_none() {
            let (inner, pause) = (Arc::downgrade(&self.inner), Duration::from(terms.lifetime) + TIMER_SLACK);
            self.spawn(async move {
                tokio::time::sleep(pause).await;
                if let Some(inner) = inner.upgrade() {
                    Self { inner }.expire_due().await;
                }
            });
        }
    }

    /// Whether reservations of this process have expired.
    #[inline]
    pub(super) fn is_expiry_due(&self) -> bool {
        !self.inner.expiring.is_empty() && self.inner.expiring.is_due(self.now_here())
    }

    /// Refunds the reservations that have expired. What the server does not answer is tried again, while it has the record.
    pub(super) async fn expire_due(&self) {
        for open in self.inner.expiring.take_due(EXPIRED_AT_ONCE, self.now_here()) {
            let ask = Ask::new(&open.policy, &open.key).cost(0);
            let (key, verb) = (NamedKey::of(&ask), Verb::Expire { id: open.id });
            let deadline = Instant::now() + self.inner.config.link.deadline;
            let ended = match self.finish_here(&[ask], &verb) {
                Some(finish) => self.finish_local(finish).await,
                None => self.decide_alone(&[key.request()], &verb, deadline).await,
            };
            if ended.is_err_and(|error| error.is_transient()) {
                self.inner.expiring.add(self.now_here() + Span::SECOND, open);
            }
        }
    }

    fn repeated_here(&self, requests: &[RequestKey<'_>], id: Option<RequestId>) -> Option<Decision> {
        let (id, local) = (id?, &self.inner.local_ids);
        if local.is_empty() {
            return None;
        }
        requests.iter().find_map(|request| local.repeated(request.name, id, self.now_here()))
    }

    /// The request that a commit or a cancel finishes, if it was granted without the server.
    pub(super) fn finish_here(&self, asks: &[Ask<'_, RedisPolicy>], verb: &Verb) -> Option<LocalFinish> {
        let id = verb.finishes()?;
        let ([ask], false) = (asks, self.inner.local_ids.is_empty()) else { return None };
        let key = NamedKey::of(ask);
        let (granted, cost, change) = self.inner.local_ids.finish(&key.name, id, verb, self.now_here())?;
        Some(LocalFinish { key: NamedKey { cost, ..key }, change, granted })
    }

    /// Changes the local grant or, if the server was charged for it, the charge.
    pub(super) async fn finish_local(&self, finish: LocalFinish) -> Result<Decision, StoreError> {
        let LocalFinish { key, change, granted } = finish;
        let (request, fallback) = (key.request(), &self.inner.fallback);
        if fallback.refund(&request, &change, self.now_here()) {
            let (peeked, _) = fallback.decide(&[request], &Verb::Peek, self.now_here());
            return Ok(peeked.with_granted(Some(granted)));
        }
        let deadline = Instant::now() + self.inner.config.link.deadline;
        let decided = self.decide_alone(&[request], &change, deadline).await;
        decided.map(|decision| decision.with_granted(Some(granted)))
    }

    /// Asks the server, and once more on a new connection if the outcome of the first call is unknown and the request has
    /// an id.
    pub(super) async fn ask_or_repeat(
        &self,
        requests: &[RequestKey<'_>],
        verb: &Verb,
        terms: &Terms,
        deadline: Instant,
    ) -> Result<Decision, Failure> {
        let may_repeat = terms.id.is_some() || verb.finishes().is_some();
        if !may_repeat {
            return self.ask(requests, verb, terms, deadline).await;
        }
        let halfway = Instant::now() + (deadline.saturating_duration_since(Instant::now()) / 2).min(FIRST_ATTEMPT);
        match self.ask(requests, verb, terms, halfway).await {
            Err(
                Failure::Late
                | Failure::Call(CallError::Unknown { .. } | CallError::NotExecuted { why: NotExecuted::OutOfTime, .. }),
            ) if Instant::now() < deadline => {
                // A connection that has lost a reply may carry no other.
                if let Some(request) = requests.first() {
                    self.inner.link.replace_connection(request.name, deadline).await;
                }
                self.ask(requests, verb, terms, deadline).await
            }
            decided => decided,
        }
    }

    /// Decides a take or a peek by each rule's `on_store_failure`, under these terms.
    pub(super) fn decide_by_fallback_with(
        &self,
        requests: &[RequestKey<'_>],
        verb: &Verb,
        terms: &Terms,
    ) -> Result<Decision, StoreError> {
        let mut requests = requests.to_vec();
        let mut decision = self.decide_by_fallback(&requests, verb)?;
        if let Some(least) = terms.at_least {
            let most = requests.iter().map(|request| request.cost).max().unwrap_or_default();
            let (mut granted, least) = (most, least.min(most));
            // What remains by the rule that refused; then the least.
            for part in [decision.remaining().clamp(least, most), least] {
                if !decision.is_allowed() && part < granted {
                    granted = part;
                    requests.iter_mut().for_each(|request| request.cost = request.cost.min(granted));
                    decision = self.decide_by_fallback(&requests, verb)?;
                }
            }
            decision.granted = Some(if decision.is_allowed() { granted } else { 0 });
        }
        if let (Some(id), Verb::Take(_), true) = (terms.id, verb, decision.is_allowed()) {
            let now = self.now_here();
            for request in requests.iter().filter(|request| request.cost > 0) {
                let record = RequestRecord::of(&decision, request.cost, terms, now);
                self.inner.local_ids.add(request.name, id, record, decision.clone(), now);
            }
        }
        Ok(decision)
    }
}

/// The keys with the costs that were charged.
pub(super) fn charged<'a>(requests: &[RequestKey<'a>], decision: &Decision) -> Vec<RequestKey<'a>> {
    let most = decision.granted.unwrap_or(u64::MAX);
    requests.iter().map(|request| RequestKey { cost: request.cost.min(most), ..*request }).collect()
}

/// Reservations refunded before one request; more wait for the next.
const EXPIRED_AT_ONCE: usize = 64;
/// The server's clock may be behind its estimate here.
const TIMER_SLACK: Duration = Duration::from_millis(5);
/// The longest first attempt: shorter than the time in which the link takes a silent connection for lost.
const FIRST_ATTEMPT: Duration = Duration::from_millis(500);
