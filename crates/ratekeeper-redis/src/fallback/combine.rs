//! The decision of a whole policy, from the decision of its local rules and the fixed answers of the others.

use ratekeeper_core::{
    DecidedBy, Decision, OnStoreFailure, ReadyRule, RuleDecision, RuleDecisions, RuleRole, Source, Span, Timestamp,
    Verdict,
    algorithm::Algorithm,
    store_api::{least_remaining, strictest_denial},
};

use crate::{ledger::RequestKey, policies::Version};

/// Combines the decision of the local shares with the answers of open and closed rules.
///
/// `closed`: an enforced rule refuses. `is_full`: local rules refuse because a grant could not be noted.
pub(super) fn combine(requests: &[RequestKey<'_>], local: Option<&Decision>, closed: bool, is_full: bool) -> Decision {
    let mut local_rules = local.iter().flat_map(|decision| decision.rules.iter());
    let all = requests.iter().flat_map(|request| {
        let positions = request.version.local.as_ref().map_or(&[][..], |local| &local.positions);
        let rules = request.version.policy.rules().iter().enumerate();
        rules.map(|(position, rule)| (rule, positions.contains(&position), request.cost))
    });
    let rules: Vec<RuleDecision> = all
        .map(|(rule, is_local, cost)| match rule.rule().failure_answer() {
            // A cost above the limit itself never passes, with or without the store.
            OnStoreFailure::Closed | OnStoreFailure::Open if cost > rule.algorithm().limit() => {
                rule_decision(rule, Verdict::Never, open(rule).remaining)
            }
            OnStoreFailure::Closed => rule_decision(rule, Verdict::Deny { retry_after: RETRY_AFTER }, 0),
            OnStoreFailure::Local if is_local && is_full => {
                let _ = local_rules.next();
                rule_decision(rule, Verdict::Deny { retry_after: RETRY_AFTER }, 0)
            }
            OnStoreFailure::Local if is_local => {
                local_rules.next().map_or_else(|| open(rule), |decision| under_whole_limit(rule, decision, cost))
            }
            OnStoreFailure::Open | OnStoreFailure::Local => open(rule),
        })
        .collect();
    let (source, decided_at, lease) = match local {
        _ if closed && !is_full => (Source::Closed, Timestamp::EPOCH, None),
        Some(local) => (Source::Local, local.decided_at, local.lease),
        None => (Source::Open, Timestamp::EPOCH, None),
    };
    let blocked = local.filter(|local| local.decided_by == DecidedBy::Block);
    let (verdict, decided_by) = match (strictest_denial(&rules), blocked) {
        (Some((index, verdict)), _) => (verdict, DecidedBy::Rule(index)),
        (None, Some(local)) => (local.verdict, DecidedBy::Block),
        (None, None) => {
            let wait = local.map_or(Span::ZERO, |local| local.verdict.wait());
            (Verdict::Allow { wait }, least_remaining(&rules))
        }
    };
    Decision::new(verdict, decided_by, RuleDecisions::collect(rules), decided_at).with_source(source).with_lease(lease)
}

/// Extends a decision about the local rules to all rules of the policy; the others are reported as untouched.
pub(super) fn extend_to_policy(version: &Version, mut local: Decision) -> Decision {
    let positions = version.local.as_ref().map_or(&[][..], |local| &local.positions);
    let rules = version.policy.rules().iter().enumerate().map(|(position, rule)| {
        positions
            .iter()
            .position(|local| *local == position)
            .and_then(|index| local.rules.get(index).copied())
            .unwrap_or_else(|| open(rule))
    });
    local.rules = RuleDecisions::collect(rules);
    local.decided_by = match local.decided_by {
        DecidedBy::Rule(index) => {
            positions.get(index).map_or(DecidedBy::Nothing, |position| DecidedBy::Rule(*position))
        }
        other => other,
    };
    local.with_source(Source::Local)
}

/// The share's decision, reported under the rule's whole limit. A cost above the share passes once the store answers.
fn under_whole_limit(rule: &ReadyRule, share: &RuleDecision, cost: u64) -> RuleDecision {
    let limit = rule.algorithm().limit();
    let verdict = match share.verdict {
        Verdict::Never if cost <= limit => Verdict::Deny { retry_after: RETRY_AFTER },
        other => other,
    };
    RuleDecision::new(verdict, limit, share.remaining, share.reset_after).with_shadow(share.shadow)
}

fn open(rule: &ReadyRule) -> RuleDecision {
    rule_decision(rule, Verdict::Allow { wait: Span::ZERO }, rule.algorithm().limit())
}

fn rule_decision(rule: &ReadyRule, verdict: Verdict, remaining: u64) -> RuleDecision {
    let limit = rule.algorithm().limit();
    let role = if rule.is_auto_block() { RuleRole::Block } else { RuleRole::Limit };
    RuleDecision::new(verdict, limit, remaining, Span::ZERO).with_shadow(rule.is_shadow()).with_role(role)
}

/// When to retry while the store does not answer. Reconnects are attempted more often than this.
const RETRY_AFTER: Span = Span::SECOND;
