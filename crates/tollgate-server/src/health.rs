//! Alive, and ready? Two different questions.
//!
//! Alive: the process can answer. A store that is away does not change that; a restart would not bring it back. Ready:
//! this process should get requests now. Not while it stops, not before it has rules, and not while the store is away if
//! a rule says `closed`, because then it would turn everybody away.
//!
//! Whoever asks needs no token, so no key of a user stands in what is told.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use serde::Serialize;
use tollgate_core::OnStoreFailure;

use crate::{engine::Engine, telemetry::SecretFile, wiring::Standing};

/// What is known about the server's health. Clones share it.
#[derive(Clone, Debug)]
pub struct Health {
    engine: Engine,
    stopping: Arc<AtomicBool>,
    /// Secrets whose files have mistakes, with what is told of them.
    stale_secrets: Arc<Mutex<BTreeMap<SecretFile, String>>>,
}

/// What `/readyz` answers.
#[derive(Debug, Serialize)]
pub struct Readiness {
    /// Whether requests should come here.
    pub ready: bool,
    /// Why not, and what else a person should look at.
    pub details: Vec<String>,
    /// How many times rules were put into force.
    pub rules_generation: u64,
    /// Whether the rules in force are those in the files.
    pub rules_current: bool,
    /// Whether the store answers.
    pub store_answers: bool,
}

impl Health {
    /// Of this engine.
    pub fn new(engine: Engine) -> Self {
        Self { engine, stopping: Arc::default(), stale_secrets: Arc::default() }
    }

    /// From now on nobody new should come.
    pub fn stops(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// A secret was read again; or it could not be, and the one before stays in force.
    pub(crate) fn secret_read(&self, what: SecretFile, problem: Option<String>) {
        let mut stale = self.stale_secrets.lock();
        self.engine.telemetry().upkeep.secret_read(what, problem.is_none());
        match problem {
            Some(problem) => _ = stale.insert(what, problem),
            None => _ = stale.remove(&what),
        }
    }

    /// How ready the server is.
    pub fn readiness(&self) -> Readiness {
        let rules = self.engine.rules_status();
        let store = self.engine.store().health();
        let (mut details, mut hindrances) = (Vec::new(), Vec::new());
        if self.stopping.load(Ordering::Relaxed) {
            hindrances.push("the server is stopping".to_owned());
        }
        if rules.generation == 0 {
            hindrances.push("no rules are in force yet".to_owned());
        }
        if let Some(problem) = &rules.problem {
            details.push(format!("the rule files have mistakes, and the rules before them stay in force: {problem}"));
        }
        details.extend(self.stale_secrets.lock().values().cloned());
        details.extend(self.switched());
        match &store.standing {
            Standing::Well => {}
            Standing::Partly(why) => details.push(format!("a part of the store does not answer: {why}")),
            Standing::Away(why) => {
                details.push(format!("the store does not answer: {why}"));
                if self.refuses_without_store() {
                    hindrances.push("rules that say `closed` turn everybody away meanwhile".to_owned());
                }
            }
        }
        let ready = hindrances.is_empty();
        details.extend(hindrances);
        Readiness {
            ready,
            details,
            rules_generation: rules.generation,
            rules_current: rules.problem.is_none(),
            store_answers: store.answers(),
        }
    }

    /// Switches that are turned: wanted, but not to be forgotten.
    fn switched(&self) -> Vec<String> {
        let book = self.engine.rulebook();
        let switches = book.switches();
        let mut told = Vec::new();
        if switches.everything_off {
            told.push("everything is switched off: nobody is limited".to_owned());
        }
        if switches.everything_watches {
            told.push("everything only watches: nobody is refused".to_owned());
        }
        match switches.off.len() + switches.watching.len() + switches.enforcing.len() {
            0 => {}
            1 => told.push("1 switch is turned; /api/switches tells which".to_owned()),
            count => told.push(format!("{count} switches are turned; /api/switches tells which")),
        }
        told
    }

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
