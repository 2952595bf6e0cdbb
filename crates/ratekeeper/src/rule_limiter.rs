//! Limits by rule files, in process: descriptors are matched and decided as the server does.
//!
//! Matching is the server's code (`ratekeeper_rules::matching`), and policies, overrides and keys have the names that the
//! server gives them. A process with the library and a server that share a Redis count together.
//!
//! The installed rules never change. [`RuleLimiter::replace`] publishes new ones with one pointer; requests in flight
//! finish under the old ones.

mod install;
mod joint;

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use ratekeeper_core::{
    Ask, Decision, Effect, Immediate, OnQuotaChange, Policy, Span, Store, StoreError, Take, Verb, Verdict,
};
use ratekeeper_rules::{RuleFile, matching::Matched};

pub use self::joint::{JointRuleAnswer, PartAnswer};
use self::{
    install::{InstalledRules, RuleEntry},
    joint::JointMatch,
};
use crate::{
    descriptor::{Descriptor, EntriesOrKey},
    error::RequestError,
    limiter::{DefaultStore, Limiter, Shared},
    observer::{Observed, Observer},
    trace::trace_event,
};

/// Decides requests by rule files. Clones share one limiter.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ratekeeper::{MemoryStore, RuleLimiter, rules};
///
/// let file = rules::read_str("rules.yaml", r#"
/// domain: api
/// policies:
///   - name: free
///     match: { user: "*" }
///     rules: [{ name: burst, algorithm: token_bucket, limit: 10, per: 1s }]
///   - name: pro
///     match: { user: "*", plan: pro }
///     rules: [{ name: burst, algorithm: token_bucket, limit: 100, per: 1s }]
/// "#, rules::Format::Yaml)?;
/// let limiter = RuleLimiter::new(&[file], MemoryStore::new())?;
///
/// let answer = limiter.check(("api", [("user", "42"), ("plan", "pro")])).await?;
/// assert!(answer.is_allowed());
/// assert_eq!(answer.policy().map(|policy| policy.name()), Some("pro"));
/// # Ok(())
/// # }
/// ```
pub struct RuleLimiter<S: Store = DefaultStore> {
    inner: Arc<Inner<S>>,
}

struct Inner<S: Store> {
    shared: Arc<Shared<S>>,
    rules: ArcSwap<InstalledRules<S>>,
    /// One replacement at a time.
    replacing: Mutex<()>,
}

/// The answer of a [`RuleLimiter`].
#[derive(Clone, Debug)]
#[must_use = "an answer that is not read limits nothing"]
#[non_exhaustive]
pub enum RuleAnswer {
    /// A policy matched and decided.
    #[non_exhaustive]
    Decided {
        /// The policy, with the rules that decided: those of an override, if the key has one. In a domain with `match: all`,
        /// the policy that determined the decision.
        policy: Arc<Policy>,
        /// The key that was counted.
        key: String,
        /// The decision. In a domain with `match: all` it has the rules of all policies that matched.
        decision: Decision,
    },
    /// The rule file limits nothing here (`unlimited: true`). Allowed.
    Unlimited,
    /// The rule file refuses all such requests (`deny: true`, `requests_per_unit: 0`). Denied.
    RefusedAlways,
    /// No rule of the domain matches. Allowed.
    Unmatched,
    /// No rule file has this domain. Allowed.
    UnknownDomain,
}

/// The policy that a descriptor falls under: a limiter and a request for it.
///
/// For everything beyond a check: waits, reservations, leases, refunds.
#[non_exhaustive]
pub struct RuleMatch<'a, S: Store> {
    /// A limiter whose default policy is the one that matched.
    pub limiter: Limiter<S>,
    /// The key to ask it for.
    pub key: Cow<'a, str>,
    /// The cost of the descriptor, or of the policy.
    pub cost: u64,
}

impl<S: Store> RuleLimiter<S> {
    /// Installs the rules of these files in a store. [`rules::read_path`](crate::rules::read_path) and its siblings read them.
    pub fn new(files: &[RuleFile], store: S) -> Result<Self, StoreError> {
        Self::build(files, store, None)
    }

    /// [`new`](Self::new) with an observer for metrics and logs.
    pub fn with_observer(files: &[RuleFile], store: S, observer: impl Observer) -> Result<Self, StoreError> {
        Self::build(files, store, Some(Observed::new(Arc::new(observer))))
    }

    fn build(files: &[RuleFile], store: S, observer: Option<Observed>) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared::new(store, Vec::new(), observer));
        let rules = InstalledRules::install(files, &shared.store, None, OnQuotaChange::Keep)?;
        Ok(Self { inner: Arc::new(Inner { shared, rules: ArcSwap::from_pointee(rules), replacing: Mutex::new(()) }) })
    }

    /// Replaces all rules. Policies whose rules are the same keep their counts and are not installed again; the keys of
    /// changed ones are migrated, and permits they have used stay used. On an error the old rules stay in force.
    pub fn replace(&self, files: &[RuleFile]) -> Result<(), StoreError> {
        self.replace_with(files, OnQuotaChange::Keep)
    }

    /// [`replace`](Self::replace) with another migration of the keys of changed policies.
    pub fn replace_with(&self, files: &[RuleFile], on_change: OnQuotaChange) -> Result<(), StoreError> {
        let inner = &*self.inner;
        let _one_at_a_time = inner.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = inner.rules.load_full();
        let rules = InstalledRules::install(files, &inner.shared.store, Some(&before), on_change)?;
        trace_event!(info, policies = rules.len(), before = before.len(), "rules replaced");
        inner.rules.store(Arc::new(rules));
        Ok(())
    }

    /// Takes the permits if the policy that matches the descriptor admits the request now; in a domain with `match: all`, if
    /// all policies that match do.
    pub async fn check<'a>(&self, descriptor: impl Into<Descriptor<'a>>) -> Result<RuleAnswer, RequestError> {
        let found = match self.resolve(&descriptor.into())? {
            Found::Policy(found) => found,
            Found::Other(answer) => return Ok(answer),
            Found::Several(all) => {
                let joint = JointMatch::new(all.into_iter().map(|found| (0, found)), self)?;
                return Ok(joint.ask().await?.into_deciding());
            }
        };
        let verb = found.take();
        let decision = found.limiter.decide(&found.limiter.slot, &found.key, found.cost, verb).await?;
        Ok(found.answer(decision))
    }

    /// The limiter and the key of the policy that matches; `None` if no policy does. Every way of asking works on it. In a
    /// domain with `match: all`, the first of the policies that match: see [`find_all`](Self::find_all).
    pub fn find<'a>(&self, descriptor: impl Into<Descriptor<'a>>) -> Result<Option<RuleMatch<'a, S>>, RequestError> {
        Ok(self.find_all(descriptor)?.into_iter().next())
    }

    /// The limiters and keys of all policies that count the descriptor: at most one, or in a domain with `match: all` any
    /// number.
    pub fn find_all<'a>(&self, descriptor: impl Into<Descriptor<'a>>) -> Result<Vec<RuleMatch<'a, S>>, RequestError> {
        let all = match self.resolve(&descriptor.into())? {
            Found::Several(all) => all,
            one => vec![one],
        };
        let matched = |found| match found {
            Found::Policy(FoundPolicy { limiter, key, cost, .. }) => Some(RuleMatch { limiter, key, cost }),
            _ => None,
        };
        Ok(all.into_iter().filter_map(matched).collect())
    }

    /// The store, for its statistics and health.
    pub fn store(&self) -> &S {
        &self.inner.shared.store
    }

    fn resolve<'a>(&self, descriptor: &Descriptor<'a>) -> Result<Found<'a, S>, RequestError> {
        let rules = self.inner.rules.load();
        let Some(matcher) = rules.matchers.domain(descriptor.domain) else {
            trace_event!(debug, domain = descriptor.domain, "no rule file has this domain");
            return Ok(Found::Other(RuleAnswer::UnknownDomain));
        };
        let mut found = match &descriptor.selector {
            EntriesOrKey::Entries(entries) => matcher.find_all(entries),
            EntriesOrKey::Key(key) => matcher.find_all_by_key(key)?,
        };
        Ok(match found.len() {
            0 => {
                trace_event!(debug, domain = descriptor.domain, "no rule matches");
                Found::Other(RuleAnswer::Unmatched)
            }
            1 => found.pop().map_or(Found::Other(RuleAnswer::Unmatched), |found| self.found(found, descriptor.cost)),
            _ => Found::Several(found.into_iter().map(|found| self.found(found, descriptor.cost)).collect()),
        })
    }

    /// What a rule that matches says about a descriptor of this cost.
    fn found<'a>(&self, (entry, key): Matched<'_, 'a, RuleEntry<S>>, cost: Option<u64>) -> Found<'a, S> {
        match entry {
            RuleEntry::Unlimited => Found::Other(RuleAnswer::Unlimited),
            // A look is not over a limit of 0, as it is over no unused limit.
            RuleEntry::RefuseAll { shadow } if *shadow || cost == Some(0) => Found::Other(RuleAnswer::Unlimited),
            RuleEntry::RefuseAll { .. } => Found::Other(RuleAnswer::RefusedAlways),
            RuleEntry::Policy { policy, is_quota } => {
                let rules = policy.for_key(&key, || self.inner.shared.store.now());
                match rules.shown.effect() {
                    Effect::Deny if cost != Some(0) => return Found::Other(RuleAnswer::RefusedAlways),
                    Effect::Deny | Effect::Unlimited => return Found::Other(RuleAnswer::Unlimited),
                    _ => {}
                }
                Found::Policy(FoundPolicy {
                    limiter: Limiter { shared: Arc::clone(&self.inner.shared), slot: Arc::clone(&rules.slot) },
                    policy: Arc::clone(&rules.shown),
                    key,
                    cost: cost.unwrap_or(policy.cost),
                    is_quota: *is_quota,
                })
            }
        }
    }
}

impl<S: Immediate> RuleLimiter<S> {
    /// [`check`](Self::check) without a future, for stores that answer at once.
    pub fn check_now<'a>(&self, descriptor: impl Into<Descriptor<'a>>) -> Result<RuleAnswer, RequestError> {
        let found = match self.resolve(&descriptor.into())? {
            Found::Policy(found) => found,
            Found::Other(answer) => return Ok(answer),
            Found::Several(all) => {
                let joint = JointMatch::new(all.into_iter().map(|found| (0, found)), self)?;
                return Ok(joint.ask_now()?.into_deciding());
            }
        };
        let (shared, slot, verb) = (&*found.limiter.shared, &*found.limiter.slot, found.take());
        let decided = shared.store.decide_now(&[Ask::new(&slot.handle, &found.key).cost(found.cost)], &verb);
        if let Some(observer) = &shared.observer {
            observer.decided(&shared.store, &slot.name, (&found.key, found.cost), &verb, decided.as_ref());
        }
        Ok(found.answer(decided?))
    }
}

/// What the rules say about a descriptor, before the store is asked.
enum Found<'a, S: Store> {
    Policy(FoundPolicy<'a, S>),
    /// What several policies of a domain with `match: all` say.
    Several(Vec<Found<'a, S>>),
    Other(RuleAnswer),
}

struct FoundPolicy<'a, S: Store> {
    limiter: Limiter<S>,
    policy: Arc<Policy>,
    key: Cow<'a, str>,
    cost: u64,
    /// A limit with `quota_mode`: its rules are in shadow mode, and a request whose only quota is over is denied.
    is_quota: bool,
}

impl<S: Store> FoundPolicy<'_, S> {
    fn take(&self) -> Verb {
        Verb::Take(self.limiter.take(&self.limiter.slot, Take::now()))
    }

    fn answer(self, mut decision: Decision) -> RuleAnswer {
        if self.is_quota && decision.is_allowed() && decision.rules.iter().any(|rule| !rule.is_allowed()) {
            let waits: Option<Vec<Span>> = decision.rules.iter().map(|rule| rule.verdict.retry_after_span()).collect();
            decision.verdict = match waits.and_then(|waits| waits.into_iter().max()) {
                Some(retry_after) => Verdict::Deny { retry_after },
                None => Verdict::Never,
            };
        }
        RuleAnswer::Decided { policy: self.policy, key: self.key.into_owned(), decision }
    }
}

impl RuleAnswer {
    /// Whether the request may proceed.
    pub fn is_allowed(&self) -> bool {
        match self {
            Self::Decided { decision, .. } => decision.is_allowed(),
            Self::Unlimited | Self::Unmatched | Self::UnknownDomain => true,
            Self::RefusedAlways => false,
        }
    }

    /// The decision, if a policy made one.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Decided { decision, .. } => Some(decision),
            _ => None,
        }
    }

    /// The policy that decided, if any.
    pub fn policy(&self) -> Option<&Policy> {
        match self {
            Self::Decided { policy, .. } => Some(policy),
            _ => None,
        }
    }
}

impl<S: Store> Clone for RuleLimiter<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<S: Store> fmt::Debug for RuleLimiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleLimiter").field("policies", &self.inner.rules.load().len()).finish_non_exhaustive()
    }
}

impl<S: Store> fmt::Debug for RuleMatch<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleMatch").field("key", &self.key).field("cost", &self.cost).finish_non_exhaustive()
    }
}
