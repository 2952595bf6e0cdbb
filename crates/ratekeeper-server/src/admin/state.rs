//! `GET /api/state`: a snapshot of rules, counts, switches, overrides, store and denied keys.
//!
//! The dashboard and `ratekeeper top` show it.

use std::collections::BTreeMap;

use ratekeeper_core::Policy;
use serde::Serialize;

use super::{Admin, overrides, recent, switch};
use crate::{
    engine::Resolution,
    rulebook::PolicyCounts,
    telemetry::{INLINE_POLICY, Totals},
    wiring::StoreHealth,
};

/// The reply of `/api/state`.
#[derive(Debug, Serialize)]
pub(super) struct StateView {
    version: &'static str,
    uptime_seconds: f64,
    ready: bool,
    rules: RulesState,
    policies: Vec<PolicyState>,
    /// Requests allowed because no rule limits them.
    unlimited: u64,
    /// Decisions by source, of all policies.
    sources: BTreeMap<&'static str, u64>,
    switches: switch::SwitchesView,
    overrides: Vec<overrides::OverrideView>,
    store: StoreState,
    top_denied: Vec<Denied>,
    /// The latest first.
    recent_refusals: Vec<recent::RefusalView>,
}

#[derive(Debug, Serialize)]
struct RulesState {
    generation: u64,
    domains: Vec<String>,
    problem: Option<String>,
    /// Time since the rules were loaded.
    in_force_seconds: Option<u64>,
}

#[derive(Debug, Serialize)]
struct PolicyState {
    domain: String,
    policy: String,
    /// The counts are those of inline limits, to which only the switches for everything apply.
    inline: bool,
    /// `prepaid` if the policy is and its rules allow it, else `exact`. A store in memory ignores it.
    speed: &'static str,
    allowed: u64,
    denied: u64,
    never: u64,
    /// Denials by rules in shadow mode.
    shadow_denied: u64,
    rules: Vec<RuleState>,
}

#[derive(Debug, Serialize)]
struct RuleState {
    name: String,
    algorithm: &'static str,
    quota: String,
    shadow: bool,
}

#[derive(Debug, Serialize)]
struct StoreState {
    kind: &'static str,
    keys: u64,
    bytes: u64,
    evicted: u64,
    overflowed: u64,
    /// Whether the store answers, all of it or a part.
    answers: bool,
    last_failure: Option<String>,
    /// Counts of link events, by event.
    events: BTreeMap<&'static str, u64>,
    /// The allotments of this process; absent if the store is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    allotments: Option<AllotmentState>,
}

/// Permits that the store has granted in advance: `granted` is the sum of `used`, `returned`, `expired`, `lost` and `held`.
#[derive(Debug, Serialize)]
struct AllotmentState {
    /// Permits held now.
    held: u64,
    /// Keys with held permits.
    holders: u64,
    granted: u64,
    used: u64,
    returned: u64,
    expired: u64,
    lost: u64,
}

#[derive(Debug, Serialize)]
struct Denied {
    domain: String,
    policy: String,
    key: String,
    /// `refused` by a limit, `banned` by a ban, or `shadow`: denied only by rules in shadow mode, and allowed.
    kind: &'static str,
    denied: u64,
    error: u64,
}

impl Admin {
    pub(super) fn state(&self) -> StateView {
        let engine = &self.0.engine;
        let (book, status) = (engine.rulebook(), engine.rules_status());
        let telemetry = engine.telemetry();
        let readiness = self.0.health.readiness();
        let in_force = status.loaded_at.and_then(|at| at.elapsed().ok());
        let (policies, inline) = (book.policy_counts(), telemetry.inline_totals());
        let totals = policies.iter().map(|counted| &counted.totals).chain(inline.iter().map(|(_, totals)| totals));
        let mut sources = BTreeMap::new();
        for (source, count) in totals.flat_map(|totals| &totals.sources) {
            *sources.entry(*source).or_default() += count;
        }
        StateView {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: self.0.began.elapsed().as_secs_f64(),
            ready: readiness.ready,
            rules: RulesState {
                generation: status.generation,
                domains: book.domains().into_iter().map(str::to_owned).collect(),
                problem: status.problem,
                in_force_seconds: in_force.map(|span| span.as_secs()),
            },
            policies: policies.iter().map(policy_state).chain(inline.into_iter().map(inline_state)).collect(),
            sources,
            unlimited: telemetry.let_through_total(Resolution::WITHOUT_LIMIT.map(Resolution::name)),
            switches: switch::view(engine),
            overrides: overrides::list(engine),
            store: store_state(&StoreHealth::of(engine.store()), readiness.store_answers),
            recent_refusals: recent::refusals(engine, RECENT),
            top_denied: telemetry
                .top_denied
                .top(TOP)
                .into_iter()
                .map(|key| Denied {
                    domain: key.domain,
                    policy: key.policy,
                    key: key.key,
                    kind: key.denial.name(),
                    denied: key.denied,
                    error: key.error,
                })
                .collect(),
        }
    }
}

fn policy_state(counted: &PolicyCounts) -> PolicyState {
    let [allowed, denied, never] = counted.totals.verdicts;
    PolicyState {
        domain: counted.policy.domain().to_owned(),
        policy: counted.policy.name().to_owned(),
        inline: false,
        speed: if counted.policy.prepaid().is_some() { "prepaid" } else { "exact" },
        allowed,
        denied,
        never,
        shadow_denied: counted.shadow_denials,
        rules: rules_of(&counted.policy),
    }
}

fn inline_state((domain, totals): (String, Totals)) -> PolicyState {
    let [allowed, denied, never] = totals.verdicts;
    let (policy, rules) = (INLINE_POLICY.to_owned(), Vec::new());
    PolicyState { domain, policy, inline: true, speed: "exact", allowed, denied, never, shadow_denied: 0, rules }
}

fn rules_of(policy: &Policy) -> Vec<RuleState> {
    let rules = policy.rules().iter().map(|rule| RuleState {
        name: rule.name().to_owned(),
        algorithm: rule.rule().algorithm().name(),
        quota: rule.rule().quota().to_string(),
        shadow: rule.is_shadow(),
    });
    rules.collect()
}

fn store_state(health: &StoreHealth, answers: bool) -> StoreState {
    StoreState {
        kind: health.kind,
        keys: health.keys,
        bytes: health.bytes,
        evicted: health.evicted,
        overflowed: health.overflowed,
        answers,
        events: health.counts.iter().copied().collect(),
        allotments: health.shared.map(|counts| AllotmentState {
            held: counts.allotment_held,
            holders: counts.allotment_holders,
            granted: counts.allotment_granted,
            used: counts.allotment_used,
            returned: counts.allotment_returned,
            expired: counts.allotment_expired,
            lost: counts.allotment_lost,
        }),
        last_failure: health.last_failure.as_ref().map(|(ago, what)| format!("{ago:.1} s ago: {what}")),
    }
}

/// Denied keys in the reply.
const TOP: usize = 20;
/// Recent refusals in the reply.
const RECENT: usize = 20;
