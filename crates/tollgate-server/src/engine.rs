//! The engine: question → policies → store → answer. Wires translate; this is what they translate to.
//!
//! ```text
//! Question ─plan─▶ policies and keys ─store, one atomic step─▶ Decision ─conclude─▶ Answer
//! ```

mod adhoc;
mod answer;
mod lane;
mod manage;
mod plan;
mod question;
mod quotas;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate_core::{
    Ask, DecidedBy, Decision, LeaseId, Micros, Release, RuleDecision, RulesTold, Source, Store, StoreError, Take, Verb,
    Verdict,
};

use self::{adhoc::Adhoc, manage::Managed, plan::Plan, question::check_cost};
pub use self::{
    adhoc::{MAX_ADHOC, Throttle},
    answer::{Answer, AskError, Ban, Fate, SubjectAnswer},
    manage::{LoadError, RulesStatus},
    question::{Asked, MAX_ENTRIES, MAX_ENTRY_KEY_BYTES, MAX_SUBJECTS, Question, RequestedLimit, Subject, Who},
};
use crate::{
    rulebook::{Limited, Rulebook},
    telemetry::{Denial, Telemetry, Told},
    wiring::{Storage, StoredPolicy},
};

/// Answers questions by the rules in force. Clones share it.
#[derive(Clone, Debug)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Storage,
    book: ArcSwap<Rulebook>,
    adhoc: Adhoc,
    telemetry: Arc<Telemetry>,
    /// What the next book is made from; whoever changes it holds it.
    managed: Mutex<Managed>,
    next_lease: AtomicU64,
    envoy_counts_refused: AtomicBool,
}

impl Engine {
    /// An engine without rules: everything is let through until some are [loaded](Self::load).
    pub fn new(store: Storage, telemetry: Arc<Telemetry>) -> Self {
        let inner = Inner {
            store,
            book: ArcSwap::default(),
            adhoc: Adhoc::new(),
            telemetry,
            managed: Mutex::default(),
            next_lease: AtomicU64::new(random_lease()),
            envoy_counts_refused: AtomicBool::new(true),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Answers a question.
    pub async fn ask(&self, question: &Question<'_>) -> Result<Answer, AskError> {
        if let Some(answered) = self.ask_now(question) {
            return answered;
        }
        question.check()?;
        let book = self.inner.book.load_full();
        let plan = Plan::of(question, &book, self)?;
        let decision = match self.verbs(&plan, question.verb) {
            Verbs::Nothing => None,
            Verbs::Together(verb) => Some(self.decide(&plan.asks(), verb).await?),
            Verbs::InTurn(verbs) => {
                let mut told = Vec::with_capacity(verbs.len());
                for (ask, verb) in plan.asks().iter().zip(verbs) {
                    told.push(self.decide(&[*ask], verb).await?);
                }
                joined(told)
            }
        };
        Ok(self.conclude(plan, decision, question))
    }

    /// The answer, if it can be had without waiting: limits are kept in this process.
    #[inline]
    pub fn ask_now(&self, question: &Question<'_>) -> Option<Result<Answer, AskError>> {
        self.inner.store.is_immediate().then(|| self.ask_immediately(question))
    }

    #[inline]
    fn ask_immediately(&self, question: &Question<'_>) -> Result<Answer, AskError> {
        question.check()?;
        let book = self.inner.book.load();
        let plan = Plan::of(question, &book, self)?;
        let decision = match self.verbs(&plan, question.verb) {
            Verbs::Nothing => None,
            Verbs::Together(verb) => Some(self.decide_now(&plan.asks(), &verb)?),
            Verbs::InTurn(verbs) => {
                let asks = plan.asks();
                let told = asks.iter().zip(verbs).map(|(ask, verb)| self.decide_now(&[*ask], &verb));
                joined(told.collect::<Result<_, _>>()?)
            }
        };
        Ok(self.conclude(plan, decision, question))
    }

    /// A token bucket whose numbers come with the call. A key is the same whatever the numbers: what is kept of it is the
    /// moment at which it is as good as new.
    pub async fn throttle(&self, key: &str, throttle: Throttle, cost: u64) -> Result<Decision, AskError> {
        if let Some(decision) = self.switched_off(throttle) {
            return Ok(decision);
        }
        let limited = self.prepare_throttle(key, throttle, cost)?;
        let verb = Verb::Take(Take::now(cost));
        let decision = self.decide(&[ask(&limited, key)], verb).await?;
        Ok(self.conclude_throttle(&limited, key, decision, cost))
    }

    /// The same, if it can be had without waiting.
    #[inline]
    pub fn throttle_now(&self, key: &str, throttle: Throttle, cost: u64) -> Option<Result<Decision, AskError>> {
        self.inner.store.is_immediate().then(|| {
            if let Some(decision) = self.switched_off(throttle) {
                return Ok(decision);
            }
            let limited = self.prepare_throttle(key, throttle, cost)?;
            let decision = self.decide_now(&[ask(&limited, key)], &Verb::Take(Take::now(cost)))?;
            Ok(self.conclude_throttle(&limited, key, decision, cost))
        })
    }

    /// Resets keys of such buckets, and counts those that were not at rest before. What is kept of a key does not
    /// depend on the numbers, so any will do.
    pub async fn reset_throttles(&self, keys: &[impl AsRef<str>]) -> Result<usize, AskError> {
        let mut reset = 0;
        for key in keys.iter().map(AsRef::as_ref) {
            let limited = self.prepare_reset(key)?;
            let found = self.decide(&[ask(&limited, key)], Verb::Peek).await?;
            if is_kept(&found) {
                let _ = self.decide(&[ask(&limited, key)], Verb::Reset).await?;
                reset += 1;
            }
        }
        Ok(reset)
    }

    /// The same, if it can be had without waiting.
    pub fn reset_throttles_now(&self, keys: &[&str]) -> Option<Result<usize, AskError>> {
        let reset = |key: &str| {
            let limited = self.prepare_reset(key)?;
            let kept = is_kept(&self.decide_now(&[ask(&limited, key)], &Verb::Peek)?);
            if kept {
                let _ = self.decide_now(&[ask(&limited, key)], &Verb::Reset)?;
            }
            Ok(usize::from(kept))
        };
        self.inner.store.is_immediate().then(|| keys.iter().map(|key| reset(key)).sum())
    }

    /// What is counted.
    pub fn telemetry(&self) -> &Telemetry {
        &self.inner.telemetry
    }

    /// Where limits are kept.
    pub fn store(&self) -> &Storage {
        &self.inner.store
    }

    /// The rules in force.
    pub fn rulebook(&self) -> Arc<Rulebook> {
        self.inner.book.load_full()
    }
}

/// What the store is to be asked.
enum Verbs {
    Nothing,
    /// One verb for all places.
    Together(Verb),
    /// One verb for each place, one after the other: only takes are decided together.
    InTurn(Vec<Verb>),
}

impl Engine {
    #[inline]
    fn verbs(&self, plan: &Plan<'_>, asked: Asked) -> Verbs {
        if plan.places.is_empty() {
            return Verbs::Nothing;
        }
        if let Asked::Take { max_wait } = asked {
            // One is charged the cost itself; several are each charged their own cost times 1.
            let cost = if plan.places.len() == 1 { plan.cost_of(&plan.places[0]) } else { 1 };
            let holds = plan.places.iter().any(|place| place.limited.policy.holds());
            let lease = if holds { self.new_lease() } else { LeaseId(0) };
            // What is refused anyway is only counted, and reserves nothing.
            let max_wait = if plan.refused { Micros::ZERO } else { max_wait };
            return Verbs::Together(Verb::Take(Take { lease, ..Take::up_to(cost, max_wait) }));
        }
        let verb = |cost: u64| match asked {
            Asked::Take { .. } | Asked::Peek => Verb::Peek,
            Asked::Refund { at } => Verb::Refund { cost, at },
            Asked::Settle { reserved, actual, at } => Verb::Settle { reserved, actual, at },
            Asked::Release { lease: Some(lease) } => Verb::Release(Release::Lease(lease)),
            Asked::Release { lease: None } => Verb::Release(Release::Oldest(cost)),
            Asked::Heartbeat { lease } => Verb::Heartbeat(lease),
            Asked::Penalize => Verb::Penalize { cost },
            Asked::Reset => Verb::Reset,
        };
        Verbs::InTurn(plan.places.iter().map(|place| verb(place.cost)).collect())
    }

    #[inline]
    fn conclude(&self, plan: Plan<'_>, decision: Option<Decision>, question: &Question<'_>) -> Answer {
        let is_take = matches!(question.verb, Asked::Take { .. });
        let decision = if plan.refused && is_take { Some(refused(decision, self.inner.store.now())) } else { decision };
        let answer = plan.conclude(question.domain, decision, is_take, self);
        self.inner.telemetry.traces().tell(|| answer.told(question.domain));
        answer
    }

    async fn decide(&self, asks: &[Ask<'_, StoredPolicy>], verb: Verb) -> Result<Decision, AskError> {
        let call = self.inner.telemetry.traces().store_call(&self.inner.store);
        let decided = self.inner.store.decide(asks, verb).await;
        call.ended(&decided);
        self.noted(decided)
    }

    #[inline]
    fn decide_now(&self, asks: &[Ask<'_, StoredPolicy>], verb: &Verb) -> Result<Decision, AskError> {
        let call = self.inner.telemetry.traces().store_call(&self.inner.store);
        let decided = self.inner.store.decide_now(asks, verb).unwrap_or_else(|| {
            Err(StoreError::Refused {
                address: "this process".to_owned(),
                reason: "it has to be waited for".to_owned(),
            })
        });
        call.ended(&decided);
        self.noted(decided)
    }

    #[inline]
    fn noted(&self, decided: Result<Decision, StoreError>) -> Result<Decision, AskError> {
        decided.map_err(|error| {
            let error = AskError::Store(error);
            if !error.is_callers_fault() {
                self.inner.telemetry.undecided.inc();
            }
            error
        })
    }

    #[inline]
    fn prepare_throttle(&self, key: &str, throttle: Throttle, cost: u64) -> Result<Arc<Limited>, AskError> {
        check_cost("the quantity", cost)?;
        question::check_length("the key", key, tollgate_core::bounds::MAX_KEY_BYTES)?;
        self.inner.adhoc.throttle(&throttle, &self.inner.store, &self.inner.telemetry)
    }

    fn prepare_reset(&self, key: &str) -> Result<Arc<Limited>, AskError> {
        question::check_length("the key", key, tollgate_core::bounds::MAX_KEY_BYTES)?;
        self.inner.adhoc.any_throttle(&self.inner.store, &self.inner.telemetry)
    }

    /// The answer where everything is switched off: the store is not asked, as for rules from files.
    #[inline]
    fn switched_off(&self, throttle: Throttle) -> Option<Decision> {
        self.inner.book.load().switches().everything_off.then(|| {
            self.let_through(Fate::SwitchedOff);
            let (limit, verdict) = (throttle.burst, Verdict::Allow { wait: Micros::ZERO });
            let full = RuleDecision { verdict, limit, remaining: limit, reset_after: Micros::ZERO, shadow: false };
            Decision { source: Source::Open, ..Decision::of_one(full, self.inner.store.now()) }
        })
    }

    #[inline]
    fn conclude_throttle(&self, limited: &Limited, key: &str, mut decision: Decision, cost: u64) -> Decision {
        if !decision.is_allowed() {
            let (policy, watches) = (&limited.policy, self.inner.book.load().switches().everything_watches);
            let denial = if watches { Denial::Shadow } else { Denial::Refused };
            self.inner.telemetry.top_denied.note(denial, policy.domain(), policy.name(), key);
            if watches {
                let watching = decision.rules.iter().map(|rule| RuleDecision { shadow: true, ..*rule });
                decision.rules = RulesTold::collect(watching.collect::<Vec<_>>());
                decision.verdict = Verdict::Allow { wait: Micros::ZERO };
            }
        }
        limited.meters.count(&decision.rules, &decision, decision.verdict);
        self.inner.telemetry.traces().tell(|| Told {
            domain: Some(limited.policy.domain()),
            policy: Some(limited.policy.name()),
            rule: None,
            verdict: decision.verdict,
            source: decision.source.name(),
            cost,
            subjects: 1,
        });
        decision
    }

    fn requested(&self, domain: &str, limit: RequestedLimit) -> Result<Arc<Limited>, AskError> {
        let counts = self.inner.envoy_counts_refused.load(Ordering::Relaxed);
        self.inner.adhoc.limit(domain, limit, counts, &self.inner.store, &self.inner.telemetry)
    }

    fn let_through(&self, fate: Fate) {
        self.inner.telemetry.let_through(fate.name());
    }

    fn report_unknown(&self, domain: &str) {
        if self.inner.telemetry.is_news(domain) {
            tracing::warn!(domain = %domain.escape_debug(), "no rule file is about this domain; its requests are let through (said once)");
        }
    }

    fn new_lease(&self) -> LeaseId {
        LeaseId(self.inner.next_lease.fetch_add(1, Ordering::Relaxed) & LEASE_MASK)
    }
}

/// Whether the store has something of a key that was looked at; where the store could not be asked, it may have.
fn is_kept(found: &Decision) -> bool {
    found.reset_after() > Micros::ZERO || found.source != Source::Store
}

#[inline]
fn ask<'a>(limited: &'a Limited, key: &'a str) -> Ask<'a, StoredPolicy> {
    Ask::new(&limited.stored, key)
}

/// The decision when a rule file refuses one subject whatever comes.
fn refused(decision: Option<Decision>, now: Micros) -> Decision {
    match decision {
        Some(decision) => Decision { verdict: Verdict::Never, decided_by: DecidedBy::Nothing, ..decision },
        None => Decision {
            verdict: Verdict::Never,
            decided_by: DecidedBy::Nothing,
            source: Source::Store,
            decided_at: now,
            lease: None,
            rules: RulesTold::collect([]),
        },
    }
}

/// One decision out of several that were made in turn: the one with the least remaining speaks.
fn joined(mut told: Vec<Decision>) -> Option<Decision> {
    if told.len() <= 1 {
        return told.pop();
    }
    let speaker = (0..told.len()).min_by_key(|index| (told[*index].is_allowed(), told[*index].remaining()))?;
    let before: usize = told[..speaker].iter().map(|decision| decision.rules.len()).sum();
    let decided_by = match told[speaker].decided_by {
        DecidedBy::Rule(rule) => DecidedBy::Rule(before + rule),
        other => other,
    };
    let rules = RulesTold::collect(told.iter().flat_map(|decision| decision.rules.iter().copied()));
    let lease = told.iter().find_map(|decision| decision.lease);
    let speaker = told.swap_remove(speaker);
    Some(Decision { decided_by, source: Source::InTurn, lease, rules, ..speaker })
}

/// Leases of different processes must not be confused, so each begins at a place of its own.
fn random_lease() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() & LEASE_MASK
}

/// Lease names are numbers below 2^53, which Lua and JSON readers can tell apart.
const LEASE_MASK: u64 = (1 << 53) - 1;
