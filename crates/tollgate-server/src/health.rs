//! Alive, and ready? Two different questions.
//!
//! Alive: the process can answer. A store that is away does not change that; a restart would not bring it back. Ready:
//! this process should get requests now. Not while it stops, not before it has rules, and not while the store is away if
//! a rule says `closed`, because then it would turn everybody away.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde::Serialize;
use tollgate_core::OnStoreFailure;

use crate::{engine::Engine, wiring::StoreHealth};

/// What is known about the server's health. Clones share it.
#[derive(Clone, Debug)]
pub struct Health {
    engine: Engine,
    stopping: Arc<AtomicBool>,
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
        Self { engine, stopping: Arc::default() }
    }

    /// From now on nobody new should come.
    pub fn stops(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// How ready the server is.
    pub fn readiness(&self) -> Readiness {
        let rules = self.engine.rules_status();
        let store_fails = store_fails(&self.engine.store().health());
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
        if let Some(failure) = &store_fails {
            details.push(format!("the store does not answer: {failure}"));
            if self.refuses_without_store() {
                hindrances.push("rules that say `closed` turn everybody away meanwhile".to_owned());
            }
        }
        let ready = hindrances.is_empty();
        details.extend(hindrances);
        Readiness {
            ready,
            details,
            rules_generation: rules.generation,
            rules_current: rules.problem.is_none(),
            store_answers: store_fails.is_none(),
        }
    }

    fn refuses_without_store(&self) -> bool {
        let policies = self.engine.rulebook().policies();
        let mut rules = policies.iter().flat_map(|policy| policy.rules());
        rules.any(|rule| !rule.is_shadow() && rule.rule().failure_answer() == OnStoreFailure::Closed)
    }
}

/// What last went wrong, if that was a moment ago.
fn store_fails(health: &StoreHealth) -> Option<String> {
    health.last_failure.as_ref().filter(|(ago, _)| *ago < RECENT_SECONDS).map(|(_, what)| what.clone())
}

/// A failure this long ago says nothing about now: somebody has asked since, or nobody has.
const RECENT_SECONDS: f64 = 5.0;
