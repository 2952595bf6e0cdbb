//! What is answered while the server cannot: each rule by its own word.
//!
//! `closed` refuses, `open` lets pass, `local` asks a limiter in this process that holds this node's share. That one
//! counts all the time, with the server and without, so that an outage does not hand out fresh bursts.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tollgate_core::{
    Ask, DecidedBy, Decision, Micros, OnStoreFailure, Period, Policy, Quota, ReadyRule, Rule, RuleDecision, RulesTold,
    Source, Store, StoreError, Take, Verb, Verdict, algorithm::Algorithm,
};
use tollgate_memory::{InstalledPolicy, MemoryConfig, MemoryStore, SystemClock};

use crate::policies::Version;

/// The limiter in this process, and the share of the limits it holds.
#[derive(Debug)]
pub(crate) struct Fallback {
    store: MemoryStore,
    nodes: u32,
    granted: Granted,
}

/// The rules of a policy that are answered locally.
#[derive(Debug)]
pub(crate) struct LocalRules {
    installed: InstalledPolicy,
    /// Their places in the whole policy.
    places: Vec<usize>,
}

/// What a store's silence means for a key.
pub(crate) struct Without<'a> {
    pub(crate) version: &'a Version,
    pub(crate) key: &'a str,
    /// How many times the cost of a take it is charged.
    pub(crate) times: u64,
}

impl Without<'_> {
    /// Whether all of its rules count refused requests, so that a refused take is charged to the key in any case.
    pub(crate) fn counts_every_refusal(&self) -> bool {
        self.version.policy.rules().iter().all(ReadyRule::counts_refused)
    }

    /// Whether it costs more than a rule ever lets through that is not asked about locally.
    fn outweighs(&self, take: &Take) -> bool {
        let cost = take.times(self.times).cost;
        let mut rules = self.version.policy.rules().iter().filter(|rule| !rule.is_shadow());
        rules.any(|rule| rule.rule().failure_answer() != OnStoreFailure::Local && cost > rule.limiting().limit())
    }
}

impl Fallback {
    pub(crate) fn new(nodes: u32, bytes: usize) -> Self {
        Self {
            store: MemoryStore::with(MemoryConfig::default().budget_bytes(bytes), SystemClock::default()),
            nodes,
            granted: Granted::default(),
        }
    }

    /// Prepares a policy's local rules; none if it has none.
    pub(crate) fn install(
        &self,
        policy: &Policy,
        install: impl FnOnce(&MemoryStore, Policy) -> Result<InstalledPolicy, StoreError>,
    ) -> Result<Option<LocalRules>, StoreError> {
        let is_local = |rule: &&(usize, &ReadyRule)| rule.1.rule().failure_answer() == OnStoreFailure::Local;
        let rules: Vec<(usize, &ReadyRule)> = policy.rules().iter().enumerate().collect();
        let (places, rules): (Vec<usize>, Vec<Rule>) =
            rules.iter().filter(is_local).map(|(place, rule)| (*place, self.share(rule.rule()))).unzip();
        if rules.is_empty() {
            return Ok(None);
        }
        // The rules were sound before, and a share of a sound quota is one.
        let Ok(share) = Policy::new(policy.name(), rules) else { return Ok(None) };
        let share =
            if policy.domain().is_empty() { share } else { share.clone().in_domain(policy.domain()).unwrap_or(share) };
        let installed = install(&self.store, share)?;
        Ok(Some(LocalRules { installed, places }))
    }

    /// This node's part of a rule: never nothing, or the key would be shut.
    fn share(&self, rule: &Rule) -> Rule {
        let part = |permits: u64| (permits / u64::from(self.nodes)).max(1);
        let quota = rule.quota();
        let mut shared = match quota.period() {
            Period::Span(span) => Quota::per_micros(part(quota.limit()), span),
            Period::Month => Quota::per_month(part(quota.limit())),
        };
        if quota.names_burst() {
            shared = shared.burst(part(quota.burst_or_limit()));
        }
        let share = Rule::new(rule.name(), shared, rule.algorithm())
            .shadow(rule.is_shadow())
            .count_refused(rule.counts_refused());
        // Fewer permits in the same time may need finer units than fit; then the rule stays whole.
        if share.limiting().is_ok() { share } else { rule.clone() }
    }

    /// Counts along with the server.
    pub(crate) fn follow(&self, asks: &[Without<'_>], verb: &Verb) {
        let local = locals(asks);
        if !local.is_empty() && !matches!(verb, Verb::Peek) {
            let _ = self.store.decide_now(&local, verb);
        }
    }

    /// Carries out a verb that concerns a local grant; says whether it did.
    pub(crate) fn takes_back(&self, without: &Without<'_>, verb: &Verb) -> bool {
        let at = match verb {
            Verb::Undo { at, .. } | Verb::Refund { at: Some(at), .. } | Verb::Settle { at: Some(at), .. } => *at,
            _ => return false,
        };
        let ours = self.granted.take(without.key, at);
        if ours {
            self.follow(std::slice::from_ref(without), verb);
        }
        ours
    }

    /// Ends or renews a lease that was granted locally; the decision if there was one.
    pub(crate) fn holds(&self, without: &Without<'_>, verb: &Verb) -> Option<Decision> {
        if !matches!(verb, Verb::Release(_) | Verb::Heartbeat(_)) {
            return None;
        }
        let local = locals(std::slice::from_ref(without));
        let told = self.store.decide_now(&local, verb).ok()?;
        told.lease?;
        Some(spread(without.version, told))
    }

    /// Answers a take or a look.
    pub(crate) fn decide(&self, asks: &[Without<'_>], verb: &Verb) -> Result<Decision, StoreError> {
        let take = if let Verb::Take(take) = verb { *take } else { Take::now(0) };
        let closed =
            rules(asks).any(|rule| !rule.is_shadow() && rule.rule().failure_answer() == OnStoreFailure::Closed);
        let local = locals(asks);
        // What is refused here is charged nowhere.
        let is_refused = closed || asks.iter().any(|without| without.outweighs(&take));
        let asked = if is_refused && take.cost > 0 { Take::now(0) } else { take };
        let told = match local.as_slice() {
            [] => None,
            asks => Some(self.store.decide_now(asks, &Verb::Take(asked))?),
        };
        let mut decision = self.combine(asks, &take, told, closed);
        if decision.decided_at == Micros::ZERO {
            decision.decided_at = self.store.now();
        }
        if decision.is_allowed() && take.cost > 0 {
            for without in asks {
                self.granted.add(without.key, decision.decided_at + decision.wait());
            }
        }
        Ok(decision)
    }

    fn combine(&self, asks: &[Without<'_>], take: &Take, told: Option<Decision>, closed: bool) -> Decision {
        let mut local = told.iter().flat_map(|told| told.rules.iter());
        let all = asks.iter().flat_map(|without| {
            let places = without.version.local.as_ref().map_or(&[][..], |local| &local.places);
            let rules = without.version.policy.rules().iter().enumerate();
            rules.map(|(place, rule)| (rule, places.contains(&place), take.times(without.times).cost))
        });
        let rules: Vec<RuleDecision> = all
            .map(|(rule, is_local, cost)| match rule.rule().failure_answer() {
                // What outweighs the limit itself would not pass with a server either.
                OnStoreFailure::Closed | OnStoreFailure::Open if cost > rule.limiting().limit() => {
                    answered(rule, Verdict::Never, open(rule).remaining)
                }
                OnStoreFailure::Closed => answered(rule, Verdict::Deny { retry_after: LOOK_AGAIN }, 0),
                OnStoreFailure::Local if is_local => {
                    local.next().map_or_else(|| open(rule), |told| whole(rule, told, cost))
                }
                OnStoreFailure::Open | OnStoreFailure::Local => open(rule),
            })
            .collect();
        let (source, decided_at, lease) = match &told {
            _ if closed => (Source::Closed, Micros::ZERO, None),
            Some(told) => (Source::Local, told.decided_at, told.lease),
            None => (Source::Open, Micros::ZERO, None),
        };
        let refusal = |rule: &RuleDecision| {
            if rule.shadow { None } else { rule.verdict.retry_after().filter(|wait| *wait > Micros::ZERO) }
        };
        let longest = rules
            .iter()
            .enumerate()
            .filter_map(|(index, rule)| Some((refusal(rule)?, index)))
            .max_by_key(|(wait, index)| (*wait, std::cmp::Reverse(*index)));
        let never = rules.iter().position(|rule| !rule.shadow && rule.verdict == Verdict::Never);
        let blocked = told.as_ref().filter(|told| told.decided_by == DecidedBy::Block);
        let (verdict, decided_by) = match (never, longest, blocked, &told) {
            (Some(index), ..) => (Verdict::Never, DecidedBy::Rule(index)),
            (None, Some((retry_after, index)), ..) => (Verdict::Deny { retry_after }, DecidedBy::Rule(index)),
            (None, None, Some(told), _) => (told.verdict, DecidedBy::Block),
            (None, None, None, told) => {
                let wait = told.as_ref().map_or(Micros::ZERO, Decision::wait);
                let least = rules.iter().enumerate().min_by_key(|(_, rule)| (rule.shadow, rule.remaining));
                (Verdict::Allow { wait }, least.map_or(DecidedBy::Nothing, |(index, _)| DecidedBy::Rule(index)))
            }
        };
        Decision { verdict, decided_by, source, decided_at, lease, rules: RulesTold::collect(rules) }
    }
}

fn rules<'a>(asks: &'a [Without<'_>]) -> impl Iterator<Item = &'a ReadyRule> {
    asks.iter().flat_map(|without| without.version.policy.rules())
}

fn locals<'a>(asks: &[Without<'a>]) -> Vec<Ask<'a, InstalledPolicy>> {
    let local = asks.iter().filter_map(|without| Some((without.version.local.as_ref()?, without)));
    local.map(|(local, without)| Ask::new(&local.installed, without.key).times(without.times)).collect()
}

/// A local answer about some rules, told for all of them.
fn spread(version: &Version, told: Decision) -> Decision {
    let places = version.local.as_ref().map_or(&[][..], |local| &local.places);
    let rules = version.policy.rules().iter().enumerate().map(|(place, rule)| {
        places
            .iter()
            .position(|local| *local == place)
            .and_then(|local| told.rules.get(local).copied())
            .unwrap_or_else(|| open(rule))
    });
    let rules = RulesTold::collect(rules);
    let decided_by = match told.decided_by {
        DecidedBy::Rule(local) => places.get(local).map_or(DecidedBy::Nothing, |place| DecidedBy::Rule(*place)),
        other => other,
    };
    Decision { source: Source::Local, rules, decided_by, ..told }
}

/// What the share told, under the rule's whole limit: a cost above the share can pass again once the server answers.
fn whole(rule: &ReadyRule, told: &RuleDecision, cost: u64) -> RuleDecision {
    let limit = rule.limiting().limit();
    let verdict = match told.verdict {
        Verdict::Never if cost <= limit => Verdict::Deny { retry_after: LOOK_AGAIN },
        other => other,
    };
    RuleDecision { verdict, limit, ..*told }
}

fn open(rule: &ReadyRule) -> RuleDecision {
    answered(rule, Verdict::Allow { wait: Micros::ZERO }, rule.limiting().limit())
}

fn answered(rule: &ReadyRule, verdict: Verdict, remaining: u64) -> RuleDecision {
    let limit = rule.limiting().limit();
    RuleDecision { verdict, limit, remaining, reset_after: Micros::ZERO, shadow: rule.is_shadow() }
}

/// Takes that were granted here, counted or not, so that giving one back does not give the server what it never took.
#[derive(Debug, Default)]
struct Granted(Mutex<VecDeque<(String, Micros)>>);

impl Granted {
    fn add(&self, key: &str, at: Micros) {
        let mut granted = self.0.lock();
        if granted.len() >= MOST_GRANTS {
            granted.pop_front();
        }
        granted.push_back((key.to_owned(), at));
    }

    fn take(&self, key: &str, at: Micros) -> bool {
        let mut granted = self.0.lock();
        let found = granted.iter().rposition(|(name, moment)| name == key && *moment == at);
        found.is_some_and(|found| granted.remove(found).is_some())
    }
}

/// Waiters that may still change their mind.
const MOST_GRANTS: usize = 4_096;
/// When to ask again while the server does not answer: it is looked for more often than that.
const LOOK_AGAIN: Micros = Micros::SECOND;
