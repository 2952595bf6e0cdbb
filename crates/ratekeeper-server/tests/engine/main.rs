//! Tests of the engine without a wire: matching, decisions, switches, reloads.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

mod envoy;
mod library;
mod lists;
mod many;
mod match_all;
mod matching;
mod overrides;
mod reload;
mod switches;
mod throttle;
mod waits;

use std::sync::Arc;

use ratekeeper_core::{Take, Timestamp, Verb, Verdict};
use ratekeeper_memory::{ManualClock, MemoryStore};
use ratekeeper_rules::{Format, read_str};
use ratekeeper_server::{
    engine::{Answer, Engine},
    request::{Request, RequestError, Subject},
    telemetry::Telemetry,
    wiring::{AnyStore, StorageSettings, open_store},
};

/// An engine with an embedded store.
pub(crate) struct Bench(pub(crate) Engine);

pub(crate) const TRY: Verb = Verb::Take(Take::now());

impl Bench {
    /// An engine with these rules.
    pub(crate) fn new(rules: &str) -> Self {
        let bench = Self::without_rules();
        bench.load(rules).unwrap();
        bench
    }

    pub(crate) fn without_rules() -> Self {
        let store = block_on(open_store("memory", &StorageSettings::default())).unwrap();
        Self(Engine::new(store, Arc::new(Telemetry::default())))
    }

    /// An engine with these rules, on a manual clock.
    pub(crate) fn by_clock(rules: &str, now: Timestamp) -> (Self, ManualClock) {
        let clock = ManualClock::at(now);
        let store = AnyStore::Manual(MemoryStore::with_clock(clock.clone()));
        let bench = Self(Engine::new(store, Arc::new(Telemetry::default())));
        bench.load(rules).unwrap();
        (bench, clock)
    }

    pub(crate) fn load(&self, rules: &str) -> Result<(), String> {
        let files = read_str("rules.yaml", rules, Format::Yaml).map(|file| vec![file]);
        self.0.load(files).map_err(|error| error.to_string())
    }

    pub(crate) fn ask(&self, domain: &str, subjects: &[Subject<'_>]) -> Result<Answer, RequestError> {
        self.decide(&Request { domain, subjects, verb: TRY })
    }

    pub(crate) fn decide(&self, request: &Request<'_>) -> Result<Answer, RequestError> {
        self.0.now(|| self.0.decide(request)).expect("memory answers at once")
    }

    pub(crate) fn take(&self, domain: &str, entries: &[(&str, &str)]) -> Answer {
        self.ask(domain, &[Subject::descriptor(entries)]).unwrap()
    }

    pub(crate) fn key(&self, domain: &str, key: &str) -> Answer {
        self.ask(domain, &[Subject::key(key)]).unwrap()
    }

    /// Takes once. Returns the name of the policy that matches these entries, else of their resolution.
    pub(crate) fn falls_under(&self, entries: &[(&str, &str)]) -> String {
        let answer = self.take("api", entries);
        let policy = answer.subjects[0].policy.as_ref();
        policy.map_or_else(|| answer.subjects[0].resolution.name().to_owned(), |policy| policy.name().to_owned())
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
