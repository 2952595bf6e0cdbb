//! Everything at a glance: what the dashboard and `tollgate top` show.

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate_core::Policy;

use super::{Admin, overrides, switch};
use crate::{rulebook::Counted, telemetry::ADHOC, wiring::StoreHealth};

/// What `/api/state` answers.
#[derive(Debug, Serialize)]
pub(super) struct State {
    version: &'static str,
    uptime_seconds: f64,
    ready: bool,
    rules: RulesState,
    policies: Vec<PolicyState>,
    /// Requests let through because no rule is about them.
    unlimited: u64,
    switches: switch::Told,
    overrides: Vec<overrides::Told>,
    store: StoreState,
    top_denied: Vec<Denied>,
}

#[derive(Debug, Serialize)]
struct RulesState {
    generation: u64,
    domains: Vec<String>,
    problem: Option<String>,
    /// How long the rules have been in force.
    in_force_seconds: Option<u64>,
}

#[derive(Debug, Serialize)]
struct PolicyState {
    domain: String,
    policy: String,
    /// Its numbers come with calls, not from a file: no switch but those for everything is about it.
    comes_with_calls: bool,
    allowed: u64,
    denied: u64,
    never: u64,
    /// Requests that rules which only watch would have refused.
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
    /// Whether it does, or a part of it.
    answers: bool,
    last_failure: Option<String>,
    /// What happened on the way to it, by event.
    events: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
struct Denied {
    domain: String,
    policy: String,
    key: String,
    /// `refused`; `banned` by a rule file that refuses all of its kind; `shadow`: only rules that watch would refuse it.
    kind: &'static str,
    denied: u64,
    error: u64,
}

impl Admin {
    pub(super) fn state(&self) -> State {
        let engine = &self.0.engine;
        let (book, status) = (engine.rulebook(), engine.rules_status());
        let telemetry = engine.telemetry();
        let readiness = self.0.health.readiness();
        let in_force = status.loaded_at.and_then(|at| at.elapsed().ok());
        let called = telemetry.adhoc_totals().into_iter().map(|(domain, totals)| called_state(domain, totals));
        State {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: self.0.began.elapsed().as_secs_f64(),
            ready: readiness.ready,
            rules: RulesState {
                generation: status.generation,
                domains: book.domains().into_iter().map(str::to_owned).collect(),
                problem: status.problem,
                in_force_seconds: in_force.map(|span| span.as_secs()),
            },
            policies: book.counted().iter().map(policy_state).chain(called).collect(),
            unlimited: telemetry.unlimited(),
            switches: switch::told(engine),
            overrides: overrides::told(engine),
            store: store_state(&engine.store().health(), readiness.store_answers),
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

fn policy_state(counted: &Counted) -> PolicyState {
    let [allowed, denied, never] = counted.totals;
    PolicyState {
        domain: counted.policy.domain().to_owned(),
        policy: counted.policy.name().to_owned(),
        comes_with_calls: false,
        allowed,
        denied,
        never,
        shadow_denied: counted.shadow_denials,
        rules: rules_of(&counted.policy),
    }
}

fn called_state(domain: String, [allowed, denied, never]: [u64; 3]) -> PolicyState {
    let (policy, rules) = (ADHOC.to_owned(), Vec::new());
    PolicyState { domain, policy, comes_with_calls: true, allowed, denied, never, shadow_denied: 0, rules }
}

fn rules_of(policy: &Policy) -> Vec<RuleState> {
    let told = policy.rules().iter().map(|rule| RuleState {
        name: rule.name().to_owned(),
        algorithm: rule.rule().algorithm().name(),
        quota: rule.rule().quota().to_string(),
        shadow: rule.is_shadow(),
    });
    told.collect()
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
        last_failure: health.last_failure.as_ref().map(|(ago, what)| format!("{ago:.1} s ago: {what}")),
    }
}

/// Keys that are listed.
const TOP: usize = 20;
