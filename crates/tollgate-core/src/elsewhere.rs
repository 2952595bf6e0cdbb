//! Decisions about steps that were taken elsewhere.
//!
//! A store's script weighs, charges and looks where the state is. It brings home the bare numbers; what they mean for
//! the caller is said here, by the same code that speaks for the store in this process.

use crate::{
    algorithm::{LeaseId, Look, Weighed},
    amend::stands,
    decide::Weighing,
    decision::{Decision, Source},
    policy::Policy,
    time::Micros,
    verb::Take,
};

/// The decision on a take. `rules` are those of all policies, in order: what each weighed the cost as (`None` if it
/// outweighs the limit), and how it looks afterwards. `after` is what each weighs the cost as once refused requests were
/// counted; empty where no rule counts them. `refused` is what the script concluded.
pub fn taken_elsewhere(
    policies: &[&Policy],
    take: &Take,
    rules: &[(Option<Weighed>, Look)],
    after: &[Option<Weighed>],
    blocked_until: Micros,
    refused: bool,
    now: Micros,
) -> Decision {
    let mut weighing = Weighing::start(now);
    let ready = || policies.iter().flat_map(|policy| policy.rules()).zip(rules);
    for policy in policies {
        weighing.bound(blocked_until, policy.horizon());
    }
    for (rule, (weighed, _)) in ready() {
        weighing.add(rule, *weighed);
    }
    for ((rule, _), after) in ready().zip(after) {
        weighing.add_after(rule, *after, take, now);
    }
    let told = weighing.tell(ready().map(|(rule, (_, look))| (rule, *look)), take, refused, now);
    let (verdict, decided_by) = weighing.conclude(&told, refused, now);
    let charged = !refused && take.cost > 0;
    let lease = (charged && policies.iter().any(|policy| policy.holds())).then_some(take.lease);
    Decision { verdict, decided_by, source: Source::Store, decided_at: now, lease, rules: told }
}

/// The decision that tells how a key stands, after any other verb.
pub fn looked_at_elsewhere(
    policy: &Policy,
    looks: &[Look],
    blocked_until: Micros,
    lease: Option<LeaseId>,
    now: Micros,
) -> Decision {
    stands(policy.rules().iter().zip(looks.iter().copied()), blocked_until, lease, now)
}
