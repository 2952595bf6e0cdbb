//! Decisions while the store is unreachable, by each rule's `on_store_failure`.
//!
//! `closed` refuses, `open` allows, `local` asks this node's share of the limit in the [`ledger`](crate::ledger), which
//! records every grant so that the store is charged for it later. A request that a closed rule refuses charges nothing.

mod combine;
mod granted;

use ratekeeper_core::{
    DecidedBy, Decision, OnStoreFailure, ReadyRule, RuleDecision, Take, Timestamp, Verb, Verdict, algorithm::Algorithm,
};

use self::{
    combine::{combine, extend_to_policy},
    granted::{Grant, RecentGrants},
};
use crate::{
    ledger::{GrantMark, InitialShare, Ledger, NoRoom, RequestKey, StoreReport},
    local_rules::LocalRules,
};

/// The fallback of one store.
#[derive(Debug)]
pub(crate) struct Fallback {
    pub(crate) ledger: Ledger,
    granted: RecentGrants,
}

impl RequestKey<'_> {
    /// Whether all rules of the key count refused requests, so that a refused take is charged to the key as well.
    pub(crate) fn counts_every_refusal(&self) -> bool {
        self.version.policy.rules().iter().all(ReadyRule::counts_refused)
    }

    fn without_cost(&self) -> Self {
        Self { cost: 0, ..*self }
    }

    /// Whether the cost exceeds the limit of an enforced rule that is not decided by the share.
    fn exceeds_a_limit(&self) -> bool {
        let cost = self.cost;
        let mut rules = self.version.policy.rules().iter().filter(|rule| !rule.is_shadow());
        rules.any(|rule| rule.rule().failure_answer() != OnStoreFailure::Local && cost > rule.algorithm().limit())
    }
}

impl Fallback {
    pub(crate) fn new(bytes: usize, start: InitialShare) -> Self {
        Self { ledger: Ledger::new(bytes, start), granted: RecentGrants::default() }
    }

    /// Records a decision of the store. `false` if the store granted permits while this process granted permits of the
    /// same key locally.
    pub(crate) fn observe(
        &self,
        requests: &[RequestKey<'_>],
        verb: &Verb,
        decision: &Decision,
        mark: GrantMark,
    ) -> bool {
        let mut rules: &[RuleDecision] = &decision.rules;
        let mut is_sound = true;
        for request in requests {
            let (own, rest) = rules.split_at(request.version.policy.rules().len().min(rules.len()));
            rules = rest;
            is_sound &= self.ledger.observe(request, &report(verb, decision, own, requests.len()), mark);
        }
        is_sound
    }

    /// Records the decisions of a merged call; `request` has the largest cost that was granted, 0 if none was. `false` as in
    /// [`observe`](Self::observe).
    pub(crate) fn observe_merged(&self, request: &RequestKey<'_>, decisions: &[Decision], mark: GrantMark) -> bool {
        // All were made at one time, so the last one reports the state after them.
        let Some(last) = decisions.last() else { return true };
        let verb = Verb::Take(Take::now());
        let report = StoreReport { is_allowed: request.cost > 0, ..report(&verb, last, &last.rules, 1) };
        self.ledger.observe(request, &report, mark)
    }

    /// Applies an undo, refund or settlement to a local grant. `false` if the grant is not known here, or if the store
    /// has been or is being charged for it: then the verb goes to the store.
    pub(crate) fn refund(&self, request: &RequestKey<'_>, verb: &Verb, now: Timestamp) -> bool {
        let at = match verb {
            Verb::Undo { at, .. } | Verb::Refund { at: Some(at), .. } | Verb::Settle { at: Some(at), .. } => *at,
            _ => return false,
        };
        match self.granted.take(request.name, at) {
            None => false,
            Some(Grant::Uncounted) => true,
            Some(Grant::Local(grant)) => {
                // The store is charged for local rules only, so it may refund only if there are no others.
                let is_all_local = |local: &LocalRules| local.positions.len() == request.version.policy.rules().len();
                self.ledger.give_back(request, verb, grant, now)
                    || !request.version.local.as_ref().is_some_and(is_all_local)
            }
        }
    }

    /// Releases or renews a lease. `None` if the lease is not known here.
    pub(crate) fn hold(&self, request: &RequestKey<'_>, verb: &Verb, now: Timestamp) -> Option<Decision> {
        if !matches!(verb, Verb::Release(_) | Verb::Heartbeat(_)) || request.version.local.is_none() {
            return None;
        }
        let local = self.ledger.hold(request, verb, now)?;
        Some(extend_to_policy(request.version, local))
    }

    /// Decides a take or a peek. `NoRoom` if the decision is a refusal because the ledger could not record a grant.
    pub(crate) fn decide(
        &self,
        requests: &[RequestKey<'_>],
        verb: &Verb,
        now: Timestamp,
    ) -> (Decision, Result<(), NoRoom>) {
        let peeked: Vec<RequestKey<'_>>;
        let (take, requests) = match verb {
            Verb::Take(take) => (*take, requests),
            _ => {
                peeked = requests.iter().map(RequestKey::without_cost).collect();
                (Take::now(), peeked.as_slice())
            }
        };
        let charges = requests.iter().any(|request| request.cost > 0);
        let mut closed =
            rules(requests).any(|rule| !rule.is_shadow() && rule.rule().failure_answer() == OnStoreFailure::Closed);
        let local: Vec<RequestKey<'_>> =
            requests.iter().filter(|request| request.version.local.is_some()).copied().collect();
        let is_refused = closed || requests.iter().any(RequestKey::exceeds_a_limit);
        let without_cost: Vec<RequestKey<'_>> = local.iter().map(RequestKey::without_cost).collect();
        // A request that another rule refuses is charged to no share.
        let (local, local_take) = if is_refused && charges { (&without_cost, Take::now()) } else { (&local, take) };
        let mut recorded = Ok(());
        let decided = match local.as_slice() {
            [] => None,
            [request] if *verb == Verb::Peek => Some((self.ledger.peek(request, now), 0)),
            parties => match self.ledger.take(parties, &local_take, now) {
                Ok(decided) => Some(decided),
                Err(NoRoom) => {
                    let is_enforced =
                        |rule: &ReadyRule| !rule.is_shadow() && rule.rule().failure_answer() == OnStoreFailure::Local;
                    if rules(requests).any(is_enforced) {
                        (recorded, closed) = (Err(NoRoom), true);
                    }
                    self.ledger.take(&without_cost, &Take::now(), now).ok()
                }
            },
        };
        let grant = decided.as_ref().map_or(Grant::Uncounted, |(_, grant)| Grant::Local(*grant));
        let local = decided.map(|(decision, _)| decision);
        let mut decision = combine(requests, local.as_ref(), closed, recorded.is_err());
        if decision.decided_at == Timestamp::EPOCH {
            decision.decided_at = now;
        }
        if decision.is_allowed() && charges {
            for request in requests {
                self.granted.add(request.name, decision.proceed_at(), grant);
            }
        }
        (decision, recorded)
    }
}

fn rules<'a>(requests: &'a [RequestKey<'_>]) -> impl Iterator<Item = &'a ReadyRule> {
    requests.iter().flat_map(|request| request.version.policy.rules())
}

/// The part of a decision that concerns one of `keys` keys. A block is attributed to a key only if it is the only one.
fn report<'a>(verb: &'a Verb, decision: &Decision, rules: &'a [RuleDecision], keys: usize) -> StoreReport<'a> {
    let blocked_until = match (decision.decided_by, decision.verdict) {
        (DecidedBy::Block, Verdict::Deny { retry_after }) if keys == 1 => decision.decided_at + retry_after,
        _ => Timestamp::EPOCH,
    };
    StoreReport {
        verb,
        rules,
        at: decision.decided_at,
        blocked_until,
        is_allowed: decision.is_allowed(),
        wait: decision.verdict.wait(),
        lease: decision.lease,
    }
}

/// The store's report after a charge.
pub(crate) fn report_of_charge(decision: &Decision) -> StoreReport<'_> {
    report(&Verb::Peek, decision, &decision.rules, 1)
}
