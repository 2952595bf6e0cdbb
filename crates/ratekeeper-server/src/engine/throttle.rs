//! Throttles: token buckets whose numbers come with the request, as in `CL.THROTTLE`.
//!
//! A key has one state for all numbers: the time at which the bucket is full again. A reset therefore needs no numbers.

use ratekeeper_core::{
    Ask, Decision, RuleDecision, RuleDecisions, Source, Span, Take, Verb, Verdict, bounds::MAX_KEY_BYTES,
};

use super::{Engine, INLINE_DOMAIN, Resolution, Throttle};
use crate::{
    request::{RequestError, check_cost, check_length},
    rulebook::PolicyEntry,
    telemetry::{DecisionAttributes, DecisionRecord, Denial},
};

impl Engine {
    /// Takes permits from the token bucket of a key.
    pub async fn throttle(&self, key: &str, throttle: Throttle, cost: u64) -> Result<Decision, RequestError> {
        if let Some(decision) = self.switched_off(throttle) {
            return Ok(decision);
        }
        check_cost("the quantity", cost)?;
        check_length("the key", key, MAX_KEY_BYTES)?;
        let entry = self.inner.inline_limits.throttle(&throttle, &self.inner.store, &self.inner.telemetry)?;
        let ask = Ask::new(&entry.stored, key).cost(cost);
        let decision = self.ask_store(&[ask], Verb::Take(Take::now())).await?;
        Ok(self.conclude_throttle(&entry, key, decision, cost))
    }

    /// Resets these keys under inline limits: the token bucket, and the state of rules that came without a domain. Returns
    /// the number of keys that may not have been in their initial state.
    pub async fn reset_throttles(&self, keys: &[impl AsRef<str>]) -> Result<usize, RequestError> {
        let mut reset = 0;
        for key in keys.iter().map(AsRef::as_ref) {
            check_length("the key", key, MAX_KEY_BYTES)?;
            let inline = &self.inner.inline_limits;
            let throttle = inline.any_throttle(&self.inner.store, &self.inner.telemetry)?;
            let mut is_reset = self.reset(&throttle, key).await?;
            // A key of rules is not empty.
            if !key.is_empty() {
                let rules = inline.any_rules(&self.inner.store, &self.inner.telemetry)?;
                is_reset |= self.reset(&rules, key).await?;
            }
            reset += usize::from(is_reset);
        }
        Ok(reset)
    }

    /// Resets a key; whether it may not have been in its initial state.
    async fn reset(&self, entry: &PolicyEntry, key: &str) -> Result<bool, RequestError> {
        let ask = [Ask::new(&entry.stored, key)];
        let has_state = may_have_state(&self.ask_store(&ask, Verb::Peek).await?);
        // A peek under other rules than those of the key may not see its state.
        if has_state || entry.policy.domain() == INLINE_DOMAIN {
            let _ = self.ask_store(&ask, Verb::Reset).await?;
        }
        Ok(has_state)
    }

    /// The decision while the kill switch is on; `None` if it is off. The store is not asked.
    #[inline]
    fn switched_off(&self, throttle: Throttle) -> Option<Decision> {
        self.inner.book.load().switches().everything_off.then(|| {
            self.let_through(Resolution::SwitchedOff);
            let (limit, verdict) = (throttle.burst, Verdict::Allow { wait: Span::ZERO });
            let full = RuleDecision::new(verdict, limit, limit, Span::ZERO);
            Decision::of_one(full, self.store_time()).with_source(Source::Open)
        })
    }

    /// Updates metrics and traces. Allows the request if the switch for shadow mode of all rules is on.
    #[inline]
    fn conclude_throttle(&self, entry: &PolicyEntry, key: &str, mut decision: Decision, cost: u64) -> Decision {
        let mut denial = None;
        if !decision.is_allowed() {
            let shadow = self.inner.book.load().switches().everything_shadow;
            denial = Some(if shadow { Denial::Shadow } else { Denial::Refused });
            if shadow {
                let rules = decision.rules.iter().map(|rule| rule.with_shadow(true));
                decision.rules = RuleDecisions::collect(rules.collect::<Vec<_>>());
                decision.verdict = Verdict::Allow { wait: Span::ZERO };
            }
        }
        entry.meters.count(&decision.rules, &decision, decision.verdict);
        let record = DecisionRecord {
            policy: &entry.policy,
            key,
            cost,
            rules: &decision.rules,
            decision: &decision,
            verdict: decision.verdict,
            denial,
        };
        self.inner.telemetry.record(&entry.meters, record);
        self.inner.telemetry.traces().set_decision(|| DecisionAttributes {
            domain: Some(entry.policy.domain()),
            policy: Some(entry.policy.name()),
            rule: None,
            verdict: decision.verdict,
            source: decision.source.name(),
            cost,
            subjects: 1,
        });
        decision
    }
}

/// Whether a peeked key may have state in the store: it is not in its initial state, or the store did not decide.
fn may_have_state(peeked: &Decision) -> bool {
    peeked.reset_after_span() > Span::ZERO || peeked.source != Source::Store
}
