//! Decisions from the results of a store's script.
//!
//! The script weighs, charges and reads where the state is, and returns raw numbers. The decision is built from them by
//! the same code that the memory store uses.

use crate::{
    adjust::key_status,
    algorithm::{LeaseId, Look, Weighed},
    decision::{Decision, Source},
    evaluation::Evaluation,
    policy::Policy,
    time::Timestamp,
    verb::Take,
};

/// What a script reports about a take.
#[derive(Clone, Copy, Debug)]
pub struct ScriptTake<'a> {
    /// Per rule of all policies, in order: how it weighed the cost (`None` if that exceeds the limit), and its numbers
    /// afterwards.
    pub rules: &'a [(Option<Weighed>, Look)],
    /// Per rule: how it weighs the cost after a refused take was counted. Empty if no rule counts them.
    pub after: &'a [Option<Weighed>],
    /// The latest end of a block on any key.
    pub blocked_until: Timestamp,
    /// Whether the take was denied.
    pub denied: bool,
    /// Whether any key has a cost above 0.
    pub charges: bool,
}

/// The decision on a take that a script carried out.
pub fn decision_from_take(policies: &[&Policy], take: &Take, result: &ScriptTake<'_>, now: Timestamp) -> Decision {
    let ScriptTake { rules, after, blocked_until, denied, charges } = *result;
    let mut evaluation = Evaluation::start(now);
    let ready = || policies.iter().flat_map(|policy| policy.rules()).zip(rules);
    for policy in policies {
        evaluation.bound(blocked_until, policy.horizon());
    }
    for (rule, (weighed, _)) in ready() {
        evaluation.add(rule, *weighed);
    }
    for ((rule, _), after) in ready().zip(after) {
        evaluation.add_after(rule, *after, take, now);
    }
    let rules = evaluation.rule_decisions(ready().map(|(rule, (_, look))| (rule, *look)), take, denied, now);
    let (verdict, decided_by) = evaluation.conclude(&rules, denied, now);
    let holds = !denied && charges && policies.iter().any(|policy| policy.has_leases());
    let lease = holds.then_some(take.lease);
    Decision { verdict, decided_by, source: Source::Store, decided_at: now, lease, granted: None, rules }
}

/// The decision that reports the state of a key after any other verb.
pub fn decision_from_look(
    policy: &Policy,
    looks: &[Look],
    blocked_until: Timestamp,
    lease: Option<LeaseId>,
    now: Timestamp,
) -> Decision {
    key_status(policy.rules().iter().zip(looks.iter().copied()), blocked_until, lease, now)
}
