//! A policy's rules with `on_store_failure: local`, reduced to this node's share.
//!
//! Each of `nodes` processes enforces an equal part of every limit while the store is unreachable. A share is at least
//! one permit, because a share of 0 would refuse every request.

use ratekeeper_core::{OnStoreFailure, Period, Policy, Quota, Rule};

/// The local rules of one policy.
#[derive(Debug)]
pub(crate) struct LocalRules {
    /// This node's share of them, as a policy.
    pub(crate) share: Policy,
    /// Their positions in the whole policy.
    pub(crate) positions: Vec<usize>,
}

impl LocalRules {
    /// `None` if the policy has no local rule.
    pub(crate) fn of(policy: &Policy, nodes: u32) -> Option<Self> {
        let rules = policy.rules().iter().enumerate();
        let local = rules.filter(|(_, rule)| rule.rule().failure_answer() == OnStoreFailure::Local);
        let (positions, rules): (Vec<usize>, Vec<Rule>) =
            local.map(|(position, rule)| (position, share(rule.rule(), u64::from(nodes)))).unzip();
        if rules.is_empty() {
            return None;
        }
        // Cannot fail: the rules compiled before, and `share` keeps only quotas that compile.
        let share = Policy::new(policy.name(), rules).ok()?;
        Some(Self { share, positions })
    }
}

/// One node's share of a rule: limit and burst divided by `nodes`, rounded down, at least 1.
pub(crate) fn share(rule: &Rule, nodes: u64) -> Rule {
    let part = |permits: u64| (permits / nodes.max(1)).max(1);
    let quota = rule.quota();
    let mut shared = match quota.period() {
        Period::Span(span) => Quota::per_micros(part(quota.limit()), span),
        Period::Month => Quota::per_month(part(quota.limit())),
        Period::Year => Quota::per_year(part(quota.limit())),
    };
    if quota.names_burst() {
        shared = shared.burst(part(quota.burst_or_limit()));
    }
    let share =
        Rule::new(rule.name(), shared, rule.algorithm()).shadow(rule.is_shadow()).count_refused(rule.counts_refused());
    // Fewer permits in the same period may need finer units than 2^53 has room for; then the rule is not divided.
    if share.compile().is_ok() { share } else { rule.clone() }
}
