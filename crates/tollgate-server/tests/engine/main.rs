//! The engine asked directly: matching, deciding, switches, reloads.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

mod envoy;
mod many;
mod matching;
mod overrides;
mod reload;
mod switches;
mod throttle;
mod waits;

use std::sync::Arc;

use tollgate_core::{Micros, Verdict};
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_rules::{Format, read_str};
use tollgate_server::{
    engine::{Answer, AskError, Asked, Engine, Question, Subject},
    telemetry::Telemetry,
    wiring::{Storage, StorageSettings},
};

/// An engine in memory.
pub(crate) struct Bench(pub(crate) Engine);

pub(crate) const TRY: Asked = Asked::Take { max_wait: Micros::ZERO };

impl Bench {
    /// With these rules in force.
    pub(crate) fn new(rules: &str) -> Self {
        let bench = Self::without_rules();
        bench.load(rules).unwrap();
        bench
    }

    pub(crate) fn without_rules() -> Self {
        let store = block_on(Storage::open("memory", &StorageSettings::default())).unwrap();
        Self(Engine::new(store, Arc::new(Telemetry::default())))
    }

    /// With these rules in force, by a clock in the test's hands.
    pub(crate) fn by_clock(rules: &str, now: Micros) -> (Self, ManualClock) {
        let clock = ManualClock::at(now);
        let store = Storage::ByHand(MemoryStore::with_clock(clock.clone()));
        let bench = Self(Engine::new(store, Arc::new(Telemetry::default())));
        bench.load(rules).unwrap();
        (bench, clock)
    }

    pub(crate) fn load(&self, rules: &str) -> Result<(), String> {
        let files = read_str("rules.yaml", rules, Format::Yaml).map(|file| vec![file]);
        self.0.load(files).map_err(|error| error.to_string())
    }

    pub(crate) fn ask(&self, domain: &str, subjects: &[Subject<'_>]) -> Result<Answer, AskError> {
        self.0.ask_now(&Question { domain, subjects, verb: TRY }).expect("memory answers at once")
    }

    pub(crate) fn take(&self, domain: &str, entries: &[(&str, &str)]) -> Answer {
        self.ask(domain, &[Subject::descriptor(entries)]).unwrap()
    }

    pub(crate) fn key(&self, domain: &str, key: &str) -> Answer {
        self.ask(domain, &[Subject::key(key)]).unwrap()
    }

    /// Under which policy these entries fall, and what it has left.
    pub(crate) fn falls_under(&self, entries: &[(&str, &str)]) -> String {
        let answer = self.take("api", entries);
        let policy = answer.subjects[0].policy.as_ref();
        policy.map_or_else(|| answer.subjects[0].fate.name().to_owned(), |policy| policy.name().to_owned())
    }

    pub(crate) fn metric(&self, line: &str) -> bool {
        self.0.telemetry().encode().unwrap().lines().any(|found| found == line)
    }
}

pub(crate) fn remaining(answer: &Answer) -> u64 {
    answer.decision.as_ref().unwrap().remaining()
}

pub(crate) fn is_denied(answer: &Answer) -> bool {
    matches!(answer.verdict(), Verdict::Deny { .. })
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
