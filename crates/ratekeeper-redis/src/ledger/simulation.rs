//! Simulation of processes, a store and a network, in one thread with a seed; every decision is checked against the bounds.
//!
//! Each process has a [`Ledger`] and some calls in flight. A step advances one call by one stage, or moves the clock, cuts
//! or restores a link, restarts a process, or clears the store. Requests and replies are lost at random. The store is the
//! core and the twin of the charging script. [`checker`] then checks all admissions, the store's and local ones.

mod calls;
mod checker;
mod scenes;
mod store;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ratekeeper_core::{OnQuotaChange, Period, Policy, Span, Timestamp};
use ratekeeper_testkit::random::{Kind, Random};

use self::{calls::SimulatedCall, checker::Books, store::Store};
use super::*;
use crate::{key::Together, policies::Policies};

/// What may happen in a world.
#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    processes: u64,
    restarts: bool,
    losses: bool,
    /// No message is lost and every link is up: the core alone.
    perfect: bool,
    /// Mutations that the checker has to find.
    skips_charges: bool,
    ignores_races: bool,
}

struct World {
    random: Random,
    rules: Rules,
    now: Timestamp,
    /// This machine's clock, which spaces attempts to charge.
    instant: Instant,
    spans: Vec<u64>,
    version: Arc<Version>,
    store: Store,
    processes: Vec<Process>,
    books: Books,
    leases: u64,
}

struct Process {
    id: u64,
    ledger: Ledger,
    is_linked: bool,
    calls: Vec<SimulatedCall>,
}

const NAME: &[u8] = b"key";

impl World {
    fn new(seed: u64, rules: Rules) -> Self {
        let mut random = Random::new(seed);
        let count = random.between(1, 3);
        let list: Vec<_> = (0..count)
            .map(|index| {
                let kind = random.pick(&Kind::ALL);
                random.rule(&format!("rule {index}"), kind)
            })
            .collect();
        let policy = Policy::new("policy", list).unwrap();
        let mut spans = vec![1, 1_000];
        spans.extend(policy.rules().iter().filter_map(|rule| match rule.rule().quota().period() {
            Period::Span(span) => Some(span.as_micros()),
            Period::Month | Period::Year => None,
        }));
        let now = Timestamp::from_micros(1_700_000_000_000_000 + random.below(1 << 40));
        let nodes = u32::try_from(rules.processes).unwrap();
        let version = Policies::default().install(policy, OnQuotaChange::Keep, "t", Together::ByKey, nodes).current();
        let processes = (0..rules.processes).map(|id| Process::new(id, now, true)).collect();
        let books = Books::new(&version, rules.processes);
        Self {
            random,
            rules,
            now,
            instant: Instant::now(),
            spans,
            version,
            store: Store::default(),
            processes,
            books,
            leases: 0,
        }
    }

    fn run(mut self, steps: u64) -> Result<(), String> {
        for _ in 0..steps {
            self.step();
        }
        self.books.check()
    }

    fn step(&mut self) {
        if self.random.one_in(4) {
            self.instant += Duration::from_secs(1);
        }
        let place = usize::try_from(self.random.below(self.processes.len() as u64)).unwrap();
        match self.random.below(64) {
            0..=5 => self.wait(),
            6 | 7 if !self.rules.perfect => self.processes[place].is_linked ^= true,
            8 if self.rules.restarts && self.random.one_in(4) => self.restart(place),
            9 if self.rules.losses && self.random.one_in(4) => self.lose(),
            10 => self.release(place),
            11 => self.charge_in_the_background(place),
            12..=24 if self.processes[place].calls.len() < 4 => self.begin(place),
            _ => self.advance(place),
        }
    }

    /// Advances the clock. Calls end at their deadline, a second here, with a local decision.
    fn wait(&mut self) {
        let pause = self.random.pause(&self.spans);
        if pause >= Span::SECOND {
            for place in 0..self.processes.len() {
                for call in std::mem::take(&mut self.processes[place].calls) {
                    self.decide_locally(place, call.cost, &call.take);
                }
            }
        }
        self.now = self.now + pause;
    }

    fn restart(&mut self, place: usize) {
        let old = &self.processes[place];
        // Its uncharged grants and calls are lost with it, and it does not know of reservations beyond the limit.
        let is_promised = self.store.subject.as_ref().is_some_and(|subject| subject.promised > self.now);
        if old.ledger.owing().0 > 0 || is_promised {
            self.books.forgive_share();
        }
        let id = old.id + self.rules.processes;
        let is_linked = old.is_linked;
        self.processes[place] = Process::new(id, self.now, is_linked);
    }

    /// Clears the store, unless there are reservations ahead: those would be lost on top of the limit.
    fn lose(&mut self) {
        if self.store.subject.as_ref().is_none_or(|subject| subject.promised <= self.now) {
            self.store = Store::default();
            self.books.forgive_whole();
        }
    }
}

impl Process {
    fn new(id: u64, at: Timestamp, is_linked: bool) -> Self {
        Self { id, ledger: Ledger::new(1 << 20, InitialShare { at, free_permille: 0 }), is_linked, calls: Vec::new() }
    }
}
