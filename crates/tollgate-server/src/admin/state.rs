//! Everything at a glance: what the dashboard and `tollgate top` show.

use serde::Serialize;
use tollgate_core::Policy;

use super::{Admin, switch};
use crate::{rulebook::Counted, wiring::StoreHealth};

/// What `/api/state` answers.
#[derive(Debug, Serialize)]
pub(super) struct State {
    version: &'static str,
    uptime_seconds: f64,
    rules: RulesState,
    policies: Vec<PolicyState>,
    switches: switch::Told,
    store: StoreState,
    top_denied: Vec<Denied>,
}

#[derive(Debug, Serialize)]
struct RulesState {
    generation: u64,
    domains: Vec<String>,
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct PolicyState {
    domain: String,
    policy: String,
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
    last_failure: Option<String>,
}

#[derive(Debug, Serialize)]
struct Denied {
    domain: String,
    policy: String,
    key: String,
    denied: u64,
    error: u64,
}

impl Admin {
    pub(super) fn state(&self) -> State {
        let engine = &self.0.engine;
        let (book, status) = (engine.rulebook(), engine.rules_status());
        State {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: self.0.began.elapsed().as_secs_f64(),
            rules: RulesState {
                generation: status.generation,
                domains: book.domains().into_iter().map(str::to_owned).collect(),
                problem: status.problem,
            },
            policies: book.counted().iter().map(policy_state).collect(),
            switches: switch::told(engine),
            store: store_state(&engine.store().health()),
            top_denied: engine
                .telemetry()
                .top_denied
                .top(TOP)
                .into_iter()
                .map(|key| Denied {
                    domain: key.domain,
                    policy: key.policy,
                    key: key.key,
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
        allowed,
        denied,
        never,
        shadow_denied: counted.shadow_denials,
        rules: rules_of(&counted.policy),
    }
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

fn store_state(health: &StoreHealth) -> StoreState {
    StoreState {
        kind: health.kind,
        keys: health.keys,
        bytes: health.bytes,
        evicted: health.evicted,
        overflowed: health.overflowed,
        last_failure: health.last_failure.as_ref().map(|(ago, what)| format!("{ago:.1} s ago: {what}")),
    }
}

/// Keys that are listed.
const TOP: usize = 20;
