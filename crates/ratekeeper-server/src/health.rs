//! Liveness and readiness.
//!
//! Live: the process answers. A store that is down does not change that, and a restart would not bring it back. Ready:
//! this process should get requests now. It is not ready during shutdown, before it has rules, and while the store is
//! down if a rule fails closed, because that rule would then refuse every request.
//!
//! Health checks need no token, so the details name no key.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use ratekeeper_core::OnStoreFailure;
use serde::Serialize;

use crate::{
    engine::Engine,
    telemetry::SecretFile,
    wiring::{HealthStatus, StoreHealth},
};

/// The server's health. Clones share it.
#[derive(Clone, Debug)]
pub struct Health {
    engine: Engine,
    stopping: Arc<AtomicBool>,
    /// Secrets whose files have errors, each with its message.
    stale_secrets: Arc<Mutex<BTreeMap<SecretFile, String>>>,
}

/// The answer of `/readyz`.
#[derive(Debug, Serialize)]
pub struct Readiness {
    /// Whether this process should get requests.
    pub ready: bool,
    /// Why it is not ready, and other conditions an operator should look at.
    pub details: Vec<String>,
    /// How many times rules were put into force.
    pub rules_generation: u64,
    /// Whether the rules in force are those in the files.
    pub rules_current: bool,
    /// Whether the store answers.
    pub store_answers: bool,
}

impl Health {
    /// The health of this engine and its store.
    pub fn new(engine: Engine) -> Self {
        Self { engine, stopping: Arc::default(), stale_secrets: Arc::default() }
    }

    /// Marks the server as stopping: not ready from now on.
    pub fn stops(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Records that a secret was reloaded, or that it could not be read and the previous one stays in force.
    pub(crate) fn secret_read(&self, what: SecretFile, problem: Option<String>) {
        let mut stale = self.stale_secrets.lock();
        self.engine.telemetry().admin_metrics.secret_read(what, problem.is_none());
        match problem {
            Some(problem) => _ = stale.insert(what, problem),
            None => _ = stale.remove(&what),
        }
    }

    /// The current readiness, with its reasons.
    pub fn readiness(&self) -> Readiness {
        let rules = self.engine.rules_status();
        let store = StoreHealth::of(self.engine.store());
        let (mut details, mut reasons) = (Vec::new(), Vec::new());
        if self.stopping.load(Ordering::Relaxed) {
            reasons.push("the server is stopping".to_owned());
        }
        if rules.generation == 0 {
            reasons.push("no rules are in force yet".to_owned());
        }
        if let Some(problem) = &rules.problem {
            details.push(format!("the rule files have errors, and the previous rules stay in force: {problem}"));
        }
        details.extend(self.stale_secrets.lock().values().cloned());
        details.extend(self.set_switches());
        match &store.health {
            HealthStatus::Up => {}
            HealthStatus::Degraded(why) => details.push(format!("a part of the store does not answer: {why}")),
            HealthStatus::Down(why) => {
                details.push(format!("the store does not answer: {why}"));
                if self.refuses_without_store() {
                    reasons.push("rules with `on_store_failure: closed` refuse every request".to_owned());
                }
            }
        }
        let ready = reasons.is_empty();
        details.extend(reasons);
        Readiness {
            ready,
            details,
            rules_generation: rules.generation,
            rules_current: rules.problem.is_none(),
            store_answers: store.answers(),
        }
    }

    /// Switches that are set: intended, but easily forgotten.
    fn set_switches(&self) -> Vec<String> {
        let book = self.engine.rulebook();
        let switches = book.switches();
        let mut set = Vec::new();
        if switches.everything_off {
            set.push("everything is switched off: no request is limited".to_owned());
        }
        if switches.everything_shadow {
            set.push("everything is in shadow mode: no request is refused".to_owned());
        }
        match switches.off.len() + switches.shadow.len() + switches.enforce.len() {
            0 => {}
            1 => set.push("1 switch is set; see /api/switches".to_owned()),
            count => set.push(format!("{count} switches are set; see /api/switches")),
        }
        set
    }

    /// Whether an enforced rule fails closed.
    fn refuses_without_store(&self) -> bool {
        let book = self.engine.rulebook();
        if book.switches().everything_off {
            return false;
        }
        let policies = book.policies();
        let mut rules = policies.iter().flat_map(|policy| policy.rules());
        rules.any(|rule| !rule.is_shadow() && rule.rule().failure_answer() == OnStoreFailure::Closed)
    }
}
