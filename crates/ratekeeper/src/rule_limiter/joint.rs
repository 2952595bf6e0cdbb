//! Several descriptors in one decision, and domains with `match: all`: everything that matches is charged, or nothing.

use ratekeeper_core::{
    Ask, DecidedBy, Decision, Immediate, Span, Store, StoreError, Take, Verb, Verdict, bounds::MAX_KEYS,
};
use smallvec::SmallVec;

use super::{Found, FoundPolicy, RuleAnswer, RuleLimiter};
use crate::{check_all::JointDecision, descriptor::Descriptor, error::RequestError};

/// The answer of a [`RuleLimiter`] to several descriptors.
#[derive(Clone, Debug)]
#[must_use = "an answer that is not read limits nothing"]
#[non_exhaustive]
pub struct JointRuleAnswer {
    /// The combined decision; `None` if no policy decided.
    pub decision: Option<Decision>,
    /// The answers of the descriptors, in the order of the request. A descriptor of a domain with `match: all` has one for
    /// each policy that counts it.
    pub parts: Vec<PartAnswer>,
}

/// The answer to one descriptor, under one policy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PartAnswer {
    /// The position of the descriptor in the request.
    pub descriptor: usize,
    /// The answer. A decision in it has the rules of this policy, and their verdict alone.
    pub answer: RuleAnswer,
}

impl JointRuleAnswer {
    /// Whether the request may proceed.
    pub fn is_allowed(&self) -> bool {
        let is_banned = |part: &PartAnswer| matches!(part.answer, RuleAnswer::RefusedAlways);
        self.decision.as_ref().is_none_or(Decision::is_allowed) && !self.parts.iter().any(is_banned)
    }

    /// The answer of the part that determined the decision, with the combined decision.
    pub(super) fn into_deciding(self) -> RuleAnswer {
        if self.parts.iter().any(|part| matches!(part.answer, RuleAnswer::RefusedAlways)) {
            return RuleAnswer::RefusedAlways;
        }
        let Some(combined) = self.decision else {
            return self.parts.into_iter().next().map_or(RuleAnswer::Unmatched, |part| part.answer);
        };
        let mut start = 0;
        let mut first = None;
        for part in self.parts {
            let RuleAnswer::Decided { policy, key, decision } = part.answer else { continue };
            let end = start + decision.rules.len();
            let is_deciding = matches!(combined.decided_by, DecidedBy::Rule(at) if (start..end).contains(&at));
            start = end;
            if is_deciding || first.is_none() {
                first = Some((policy, key));
            }
            if is_deciding {
                break;
            }
        }
        match first {
            Some((policy, key)) => RuleAnswer::Decided { policy, key, decision: combined },
            None => RuleAnswer::Unmatched,
        }
    }
}

/// Several descriptors, resolved.
pub(super) struct JointMatch<'l, 'a, S: Store> {
    limiter: &'l RuleLimiter<S>,
    /// The answers that need no decision, and the positions of the others in `targets`.
    parts: Vec<(usize, Result<usize, RuleAnswer>)>,
    /// Policies and keys, each once, with the sum of the costs.
    targets: SmallVec<[FoundPolicy<'a, S>; 4]>,
}

impl<'l, 'a, S: Store> JointMatch<'l, 'a, S> {
    pub(super) fn new(
        found: impl IntoIterator<Item = (usize, Found<'a, S>)>,
        limiter: &'l RuleLimiter<S>,
    ) -> Result<Self, RequestError> {
        let mut joint = Self { limiter, parts: Vec::new(), targets: SmallVec::new() };
        for (descriptor, found) in found {
            match found {
                Found::Policy(found) => joint.add(descriptor, found),
                Found::Several(all) => {
                    for found in all {
                        match found {
                            Found::Policy(found) => joint.add(descriptor, found),
                            Found::Other(answer) => joint.parts.push((descriptor, Err(answer))),
                            Found::Several(_) => {}
                        }
                    }
                }
                Found::Other(answer) => joint.parts.push((descriptor, Err(answer))),
            }
            if joint.targets.len() > MAX_KEYS {
                return Err(RequestError::KeyCount { found: joint.targets.len(), max: MAX_KEYS });
            }
        }
        Ok(joint)
    }

    fn add(&mut self, descriptor: usize, found: FoundPolicy<'a, S>) {
        let same = |target: &FoundPolicy<'a, S>| {
            std::sync::Arc::ptr_eq(&target.limiter.slot, &found.limiter.slot) && target.key == found.key
        };
        let position = match self.targets.iter().position(same) {
            Some(position) => {
                self.targets[position].cost = self.targets[position].cost.saturating_add(found.cost);
                position
            }
            None => {
                self.targets.push(found);
                self.targets.len() - 1
            }
        };
        self.parts.push((descriptor, Ok(position)));
    }

    pub(super) async fn ask(self) -> Result<JointRuleAnswer, RequestError> {
        if self.targets.is_empty() {
            return Ok(self.answer(None));
        }
        let verb = self.take();
        let decided = self.limiter.inner.shared.store.decide(&self.asks(), verb).await;
        self.conclude(&verb, decided)
    }

    fn asks(&self) -> SmallVec<[Ask<'_, S::Policy>; 4]> {
        // A ban refuses the request, so the others are not charged.
        let is_banned = self.is_banned();
        let cost =
            |found: &FoundPolicy<'_, S>| if is_banned && !found.policy.counts_refused() { 0 } else { found.cost };
        self.targets.iter().map(|found| Ask::new(&found.limiter.slot.handle, &found.key).cost(cost(found))).collect()
    }

    /// Whether a policy refuses the request whatever its rules.
    fn is_banned(&self) -> bool {
        self.parts.iter().any(|(_, part)| matches!(part, Err(RuleAnswer::RefusedAlways)))
    }

    fn take(&self) -> Verb {
        let holder = self.targets.iter().find(|found| found.limiter.slot.has_leases());
        holder.map_or(Verb::Take(Take::now()), FoundPolicy::take)
    }

    fn conclude(self, verb: &Verb, decided: Result<Decision, StoreError>) -> Result<JointRuleAnswer, RequestError> {
        let mut end = 0;
        let ends = self.targets.iter().map(|found| {
            end += found.limiter.slot.rule_count();
            end
        });
        let decided = decided.map(|combined| JointDecision::new(combined, ends.collect()));
        let shared = &self.limiter.inner.shared;
        if let Some(observer) = &shared.observer {
            for (index, found) in self.targets.iter().enumerate() {
                let part = match &decided {
                    Ok(joint) => Ok(joint.key(index).unwrap_or_else(|| joint.combined.clone())),
                    Err(error) => Err(error),
                };
                let (name, asked) = (&found.limiter.slot.name, (&*found.key, found.cost));
                observer.decided(&shared.store, name, asked, verb, part.as_ref().map_err(|error| *error));
            }
        }
        let mut joint = decided?;
        self.refuse_over_all_quotas(&mut joint);
        if self.is_banned() {
            joint.combined = joint.combined.with_verdict(Verdict::Never, DecidedBy::Nothing);
        }
        Ok(self.answer(Some(joint)))
    }

    /// Limits in quota mode refuse a request if all of them are exceeded.
    fn refuse_over_all_quotas(&self, joint: &mut JointDecision) {
        let quotas = self.targets.iter().enumerate().filter(|(_, found)| found.is_quota);
        let mut soonest: Option<Option<Span>> = None;
        for (index, _) in quotas {
            let Some(part) = joint.key(index).filter(|part| part.rules.iter().any(|rule| !rule.is_allowed())) else {
                return;
            };
            let waits: Option<Vec<Span>> = part.rules.iter().map(|rule| rule.verdict.retry_after_span()).collect();
            let wait = waits.and_then(|waits| waits.into_iter().max());
            soonest = Some(match (soonest.flatten(), wait) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            });
        }
        if let (Some(soonest), true) = (soonest, joint.combined.is_allowed()) {
            joint.combined.verdict = soonest.map_or(Verdict::Never, |retry_after| Verdict::Deny { retry_after });
        }
    }

    fn answer(self, joint: Option<JointDecision>) -> JointRuleAnswer {
        let parts = self.parts.into_iter().map(|(descriptor, part)| {
            let answer = match (part, &joint) {
                (Err(answer), _) => answer,
                (Ok(position), Some(joint)) => {
                    let found = &self.targets[position];
                    let decision = joint.key(position).unwrap_or_else(|| joint.combined.clone());
                    RuleAnswer::Decided { policy: found.policy.clone(), key: found.key.to_string(), decision }
                }
                (Ok(_), None) => RuleAnswer::Unmatched,
            };
            PartAnswer { descriptor, answer }
        });
        let parts = parts.collect();
        JointRuleAnswer { decision: joint.map(|joint| joint.combined), parts }
    }
}

impl<S: Immediate> JointMatch<'_, '_, S> {
    pub(super) fn ask_now(self) -> Result<JointRuleAnswer, RequestError> {
        if self.targets.is_empty() {
            return Ok(self.answer(None));
        }
        let verb = self.take();
        let decided = self.limiter.inner.shared.store.decide_now(&self.asks(), &verb);
        self.conclude(&verb, decided)
    }
}

/// Several descriptors
impl<S: Store> RuleLimiter<S> {
    /// Takes the permits of several descriptors if all policies that count them admit the request now. If one of them denies
    /// it, none is charged. 64 keys under policies are the most.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ratekeeper::{MemoryStore, RuleLimiter, rules};
    ///
    /// let file = rules::read_str("rules.yaml", r#"
    /// domain: api
    /// policies:
    ///   - { name: user, match: { user: "*" }, rules: [{ name: user, algorithm: token_bucket, limit: 10, per: 1m }] }
    ///   - { name: tenant, match: { tenant: "*" }, rules: [{ name: tenant, algorithm: token_bucket, limit: 1, per: 1m }] }
    /// "#, rules::Format::Yaml)?;
    /// let limiter = RuleLimiter::new(&[file], MemoryStore::new())?;
    /// let both = || [("api", [("user", "42")]), ("api", [("tenant", "acme")])];
    /// assert!(limiter.check_all(both()).await?.is_allowed());
    /// assert!(!limiter.check_all(both()).await?.is_allowed());
    /// let left = limiter.check(("api", [("user", "42")])).await?;
    /// assert_eq!(left.decision().map(|decision| decision.remaining()), Some(8)); // charged once before
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_all<'a, D: Into<Descriptor<'a>>>(
        &self,
        descriptors: impl IntoIterator<Item = D>,
    ) -> Result<JointRuleAnswer, RequestError> {
        self.resolve_all(descriptors)?.ask().await
    }

    fn resolve_all<'a, D: Into<Descriptor<'a>>>(
        &self,
        descriptors: impl IntoIterator<Item = D>,
    ) -> Result<JointMatch<'_, 'a, S>, RequestError> {
        let mut all = Vec::new();
        for (position, descriptor) in descriptors.into_iter().enumerate() {
            if position == MAX_KEYS {
                return Err(RequestError::KeyCount { found: MAX_KEYS + 1, max: MAX_KEYS });
            }
            all.push((position, self.resolve(&descriptor.into())?));
        }
        if all.is_empty() {
            return Err(RequestError::KeyCount { found: 0, max: MAX_KEYS });
        }
        JointMatch::new(all, self)
    }
}

/// Several descriptors, without a runtime
impl<S: Immediate> RuleLimiter<S> {
    /// [`check_all`](Self::check_all) without a future, for stores that answer at once.
    pub fn check_all_now<'a, D: Into<Descriptor<'a>>>(
        &self,
        descriptors: impl IntoIterator<Item = D>,
    ) -> Result<JointRuleAnswer, RequestError> {
        self.resolve_all(descriptors)?.ask_now()
    }
}
