//! Decisions while the store cannot decide: each rule by its own setting.
//!
//! `closed` refuses, `open` lets pass, `local` asks this node's share of the limit in the [`ledger`](crate::ledger), which
//! notes every grant so that the store is charged for it later.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tollgate_core::{
    DecidedBy, Decision, Micros, OnStoreFailure, Period, Policy, Quota, ReadyRule, Rule, RuleDecision, RulesTold,
    Source, Take, Verb, Verdict, algorithm::Algorithm,
};

use crate::{
    ledger::{Ledger, Mark, NoRoom, Party, Said, Start},
    policies::Version,
};

/// The share of the limits that this process holds.
#[derive(Debug)]
pub(crate) struct Fallback {
    pub(crate) ledger: Ledger,
    granted: Granted,
}

/// The rules of a policy that are answered locally.
#[derive(Debug)]
pub(crate) struct LocalRules {
    /// This node's part of them.
    pub(crate) share: Policy,
    /// Their places in the whole policy.
    pub(crate) places: Vec<usize>,
}

impl Party<'_> {
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

impl LocalRules {
    /// A policy's local rules; none if it has none.
    pub(crate) fn of(policy: &Policy, nodes: u32) -> Option<Self> {
        let rules = policy.rules().iter().enumerate();
        let local = rules.filter(|(_, rule)| rule.rule().failure_answer() == OnStoreFailure::Local);
        let (places, rules): (Vec<usize>, Vec<Rule>) =
            local.map(|(place, rule)| (place, share(rule.rule(), u64::from(nodes)))).unzip();
        if rules.is_empty() {
            return None;
        }
        // The rules were sound before, and a share of a sound quota is one.
        let share = Policy::new(policy.name(), rules).ok()?;
        Some(Self { share, places })
    }
}

/// One node's part of a rule: never nothing, or the key would be shut.
pub(crate) fn share(rule: &Rule, nodes: u64) -> Rule {
    let part = |permits: u64| (permits / nodes.max(1)).max(1);
    let quota = rule.quota();
    let mut shared = match quota.period() {
        Period::Span(span) => Quota::per_micros(part(quota.limit()), span),
        Period::Month => Quota::per_month(part(quota.limit())),
    };
    if quota.names_burst() {
        shared = shared.burst(part(quota.burst_or_limit()));
    }
    let share =
        Rule::new(rule.name(), shared, rule.algorithm()).shadow(rule.is_shadow()).count_refused(rule.counts_refused());
    // Fewer permits in the same time may need finer units than fit; then the rule stays whole.
    if share.limiting().is_ok() { share } else { rule.clone() }
}

impl Fallback {
    pub(crate) fn new(bytes: usize, start: Start) -> Self {
        Self { ledger: Ledger::new(bytes, start), granted: Granted::default() }
    }

    /// Notes what the store said. `false` if it granted permits while one of the keys was granted some here.
    pub(crate) fn heard(&self, asks: &[Party<'_>], verb: &Verb, decision: &Decision, mark: Mark) -> bool {
        let mut rules: &[RuleDecision] = &decision.rules;
        let mut is_sound = true;
        for party in asks {
            let (own, rest) = rules.split_at(party.version.policy.rules().len().min(rules.len()));
            rules = rest;
            is_sound &= self.ledger.heard(party, &said(verb, decision, own, asks.len()), mark);
        }
        is_sound
    }

    /// Carries out a verb that concerns a local grant; says whether it did. One that is charged already, or is being
    /// charged, is the store's.
    pub(crate) fn takes_back(&self, party: &Party<'_>, verb: &Verb, now: Micros) -> bool {
        let at = match verb {
            Verb::Undo { at, .. } | Verb::Refund { at: Some(at), .. } | Verb::Settle { at: Some(at), .. } => *at,
            _ => return false,
        };
        match self.granted.take(party.name, at) {
            None => false,
            Some(Grant::Uncounted) => true,
            Some(Grant::Local(grant)) => {
                // The store is charged for local rules only, so it may give back only where there are no others.
                let is_all_local = |local: &LocalRules| local.places.len() == party.version.policy.rules().len();
                self.ledger.give_back(party, verb, grant, now)
                    || !party.version.local.as_ref().is_some_and(is_all_local)
            }
        }
    }

    /// Ends or renews a lease while the store cannot; the decision if the lease is known here.
    pub(crate) fn holds(&self, party: &Party<'_>, verb: &Verb, now: Micros) -> Option<Decision> {
        if !matches!(verb, Verb::Release(_) | Verb::Heartbeat(_)) || party.version.local.is_none() {
            return None;
        }
        let told = self.ledger.hold(party, verb, now)?;
        Some(spread(party.version, told))
    }

    /// Answers a take or a look. `NoRoom` with the answer if it is a refusal because a grant could not be noted.
    pub(crate) fn decide(&self, asks: &[Party<'_>], verb: &Verb, now: Micros) -> (Decision, Result<(), NoRoom>) {
        let take = if let Verb::Take(take) = verb { *take } else { Take::now(0) };
        let mut closed =
            rules(asks).any(|rule| !rule.is_shadow() && rule.rule().failure_answer() == OnStoreFailure::Closed);
        let local: Vec<Party<'_>> = asks.iter().filter(|party| party.version.local.is_some()).copied().collect();
        // What is refused here is charged nowhere.
        let is_refused = closed || asks.iter().any(|party| party.outweighs(&take));
        let asked = if is_refused && take.cost > 0 { Take::now(0) } else { take };
        let mut noted = Ok(());
        let told = match local.as_slice() {
            [] => None,
            [party] if *verb == Verb::Peek => Some((self.ledger.peek(party, now), 0)),
            parties => match self.ledger.take(parties, &asked, now) {
                Ok(told) => Some(told),
                Err(NoRoom) => {
                    let is_enforced =
                        |rule: &ReadyRule| !rule.is_shadow() && rule.rule().failure_answer() == OnStoreFailure::Local;
                    if rules(asks).any(is_enforced) {
                        (noted, closed) = (Err(NoRoom), true);
                    }
                    self.ledger.take(parties, &Take::now(0), now).ok()
                }
            },
        };
        let grant = match &told {
            Some((_, grant)) => Grant::Local(*grant),
            None => Grant::Uncounted,
        };
        let told = told.map(|(told, _)| told);
        let mut decision = self.combine(asks, &take, told, closed, noted.is_err());
        if decision.decided_at == Micros::ZERO {
            decision.decided_at = now;
        }
        if decision.is_allowed() && take.cost > 0 {
            for party in asks {
                self.granted.add(party.name, decision.decided_at + decision.wait(), grant);
            }
        }
        (decision, noted)
    }

    fn combine(
        &self,
        asks: &[Party<'_>],
        take: &Take,
        told: Option<Decision>,
        closed: bool,
        is_full: bool,
    ) -> Decision {
        let mut local = told.iter().flat_map(|told| told.rules.iter());
        let all = asks.iter().flat_map(|party| {
            let places = party.version.local.as_ref().map_or(&[][..], |local| &local.places);
            let rules = party.version.policy.rules().iter().enumerate();
            rules.map(|(place, rule)| (rule, places.contains(&place), take.times(party.times).cost))
        });
        let rules: Vec<RuleDecision> = all
            .map(|(rule, is_local, cost)| match rule.rule().failure_answer() {
                // What outweighs the limit itself would not pass with a server either.
                OnStoreFailure::Closed | OnStoreFailure::Open if cost > rule.limiting().limit() => {
                    answered(rule, Verdict::Never, open(rule).remaining)
                }
                OnStoreFailure::Closed => answered(rule, Verdict::Deny { retry_after: LOOK_AGAIN }, 0),
                OnStoreFailure::Local if is_local && is_full => {
                    let _ = local.next();
                    answered(rule, Verdict::Deny { retry_after: LOOK_AGAIN }, 0)
                }
                OnStoreFailure::Local if is_local => {
                    local.next().map_or_else(|| open(rule), |told| whole(rule, told, cost))
                }
                OnStoreFailure::Open | OnStoreFailure::Local => open(rule),
            })
            .collect();
        let (source, decided_at, lease) = match &told {
            _ if closed && !is_full => (Source::Closed, Micros::ZERO, None),
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

fn rules<'a>(asks: &'a [Party<'_>]) -> impl Iterator<Item = &'a ReadyRule> {
    asks.iter().flat_map(|party| party.version.policy.rules())
}

/// The store's word on one of several keys that were decided together. Which of them is blocked is known for one alone.
fn said<'a>(verb: &'a Verb, decision: &Decision, rules: &'a [RuleDecision], keys: usize) -> Said<'a> {
    let blocked_until = match (decision.decided_by, decision.verdict) {
        (DecidedBy::Block, Verdict::Deny { retry_after }) if keys == 1 => decision.decided_at + retry_after,
        _ => Micros::ZERO,
    };
    Said {
        verb,
        rules,
        at: decision.decided_at,
        blocked_until,
        is_allowed: decision.is_allowed(),
        wait: decision.wait(),
        lease: decision.lease,
    }
}

/// The store's word after a charge.
pub(crate) fn said_by_charge(decision: &Decision) -> Said<'_> {
    said(&Verb::Peek, decision, &decision.rules, 1)
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

/// The latest takes that were granted here, counted or not, so that a refund of one finds where it was counted.
#[derive(Debug, Default)]
struct Granted(Mutex<VecDeque<GrantedTake>>);

#[derive(Debug)]
struct GrantedTake {
    name: Box<[u8]>,
    /// When it goes.
    at: Micros,
    grant: Grant,
}

/// How a take was granted.
#[derive(Clone, Copy, Debug)]
enum Grant {
    /// By a rule that lets everything pass, which counts nothing.
    Uncounted,
    /// By the local share; the grant's number.
    Local(u64),
}

impl Granted {
    fn add(&self, name: &[u8], at: Micros, grant: Grant) {
        let mut granted = self.0.lock();
        if granted.len() >= MOST_GRANTS {
            granted.pop_front();
        }
        granted.push_back(GrantedTake { name: name.into(), at, grant });
    }

    fn take(&self, name: &[u8], at: Micros) -> Option<Grant> {
        let mut granted = self.0.lock();
        let found = granted.iter().rposition(|take| *take.name == *name && take.at == at)?;
        granted.remove(found).map(|take| take.grant)
    }
}

/// Waiters that may still change their mind. A refund of an older local grant goes to the store, which was charged.
const MOST_GRANTS: usize = 4_096;
/// When to ask again while the server does not answer: it is looked for more often than that.
const LOOK_AGAIN: Micros = Micros::SECOND;
