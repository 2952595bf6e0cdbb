//! Policies without rules: they deny or exempt every request, so the server is not asked about their keys.

use std::time::Instant;

use ratekeeper_core::{
    Ask, DecidedBy, Decision, Effect, RuleDecisions, Span, Store, StoreError, Take, Terms, Verb, Verdict,
};

use super::{RedisStore, keys::NamedKey};
use crate::{ledger::RequestKey, policies::RedisPolicy};

impl RedisStore {
    /// Decides a request with keys of such policies. The other keys are decided by the server; if a policy denies the
    /// request, they are only looked at.
    pub(super) async fn decide_without_rules(
        &self,
        asks: &[Ask<'_, RedisPolicy>],
        verb: Verb,
        terms: &Terms,
    ) -> Result<Decision, StoreError> {
        let is_denied = matches!(verb, Verb::Take(_))
            && asks.iter().any(|ask| ask.cost > 0 && ask.policy.load().policy.effect() == Effect::Deny);
        let cost = |ask: &Ask<'_, RedisPolicy>| if is_denied { 0 } else { ask.cost };
        let others = asks.iter().filter(|ask| !has_effect(ask));
        let keys: Vec<NamedKey> =
            others.map(|ask| NamedKey::of(&Ask::new(ask.policy, ask.key).cost(cost(ask)))).collect();
        let decision = if keys.is_empty() {
            let allow = Verdict::Allow { wait: Span::ZERO };
            Decision::new(allow, DecidedBy::Nothing, RuleDecisions::collect([]), self.now())
        } else {
            let requests: Vec<RequestKey<'_>> = keys.iter().map(NamedKey::request).collect();
            let verb = if is_denied { Verb::Take(Take::now()) } else { verb };
            let deadline = Instant::now() + self.inner.config.link.deadline;
            Box::pin(self.decide_alone(&requests, &verb, deadline)).await?
        };
        let decision = if is_denied { decision.with_verdict(Verdict::Never, DecidedBy::Nothing) } else { decision };
        let most = asks.iter().map(|ask| ask.cost).max().unwrap_or(0);
        let granted = terms.at_least.map(|_| if decision.is_allowed() { most } else { 0 });
        Ok(decision.with_granted(granted))
    }
}

/// Whether the policy denies or exempts every request.
#[inline]
pub(super) fn has_effect(ask: &Ask<'_, RedisPolicy>) -> bool {
    ask.policy.load().policy.effect() != Effect::Limit
}
