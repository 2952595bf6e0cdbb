//! Processes, a store and a network between them, all in one thread with a seed, and every answer held against the bound.
//!
//! Each process has a [`Ledger`] and some calls under way. A step advances one call by one stage, or moves the clock, cuts
//! or mends a link, restarts a process, or takes the store's memory. Requests and replies are lost on the way. What the
//! store does is the core's own code and the twin of the charging script. [`checker`] then looks at all admissions, the
//! store's and local ones.

mod checker;
mod scenes;

use std::{collections::HashMap, sync::Arc};

use tollgate_core::{Carry, Decision, LeaseId, Micros, Period, Policy, Release, Subject, Take, Verb, carry_over};
use tollgate_testkit::random::{Kind, Random};

use self::checker::{Admission, Books};
use super::*;
use crate::{fallback::said_by_charge, key::Together, policies::Policies};

/// What may happen in a world.
#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    processes: u64,
    restarts: bool,
    losses: bool,
    /// Nothing is lost, and every link is up: what the core alone does.
    perfect: bool,
    /// Mutations that the checker has to notice.
    skips_charges: bool,
    ignores_races: bool,
}

struct World {
    random: Random,
    rules: Rules,
    now: Micros,
    spans: Vec<u64>,
    version: Arc<Version>,
    store: Store,
    processes: Vec<Process>,
    books: Books,
    leases: u64,
}

/// The shared state, and the ids that were carried out.
#[derive(Default)]
struct Store {
    subject: Option<Subject>,
    ids: HashMap<u64, u64>,
}

struct Process {
    id: u64,
    ledger: Ledger,
    is_linked: bool,
    calls: Vec<Call>,
}

/// One take on its way.
struct Call {
    take: Take,
    mark: Mark,
    stage: Stage,
}

enum Stage {
    /// The key's debt is looked at, and charged.
    Owes,
    /// The charge was carried out, and its reply is on its way.
    Charged(u64, Decision),
    /// The take may be sent.
    Asks,
    /// It was carried out, and its reply is on its way.
    Told(Decision),
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
            Period::Span(span) => Some(span.0),
            Period::Month => None,
        }));
        let now = Micros(1_700_000_000_000_000 + random.below(1 << 40));
        let nodes = u32::try_from(rules.processes).unwrap();
        let version = Policies::default().install(policy, Carry::Keep, "t", Together::ByKey, nodes).current();
        let processes = (0..rules.processes).map(|id| Process::new(id, now, true)).collect();
        let books = Books::new(&version, rules.processes);
        Self { random, rules, now, spans, version, store: Store::default(), processes, books, leases: 0 }
    }

    fn run(mut self, steps: u64) -> Result<(), String> {
        for _ in 0..steps {
            self.step();
        }
        self.books.check()
    }

    fn step(&mut self) {
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

    /// Calls do not outlive their deadline, which is a second here.
    fn wait(&mut self) {
        let pause = self.random.pause(&self.spans);
        if pause >= Micros::SECOND {
            for place in 0..self.processes.len() {
                for call in std::mem::take(&mut self.processes[place].calls) {
                    self.decide_locally(place, &call.take);
                }
            }
        }
        self.now = self.now + pause;
    }

    fn begin(&mut self, place: usize) {
        let limits: Vec<u64> = self.version.policy.rules().iter().map(|rule| rule.limiting().limit()).collect();
        let limit = self.random.pick(&limits);
        let cost = self.random.between(1, limit.div_ceil(2));
        self.leases += 1;
        let take = if self.random.one_in(4) { self.random.take(cost, &self.spans) } else { Take::now(cost) };
        let take = take.held_as(LeaseId(self.leases));
        let process = &mut self.processes[place];
        let mark = process.ledger.mark();
        process.calls.push(Call { take, mark, stage: Stage::Owes });
    }

    fn advance(&mut self, place: usize) {
        let calls = self.processes[place].calls.len() as u64;
        if calls == 0 {
            return;
        }
        let call = usize::try_from(self.random.below(calls)).unwrap();
        let Call { take, mark, stage } = self.processes[place].calls.swap_remove(call);
        let next = match stage {
            Stage::Owes => match self.due(place) {
                None => Some(Stage::Asks),
                Some(charge) => self.send(place, &charge).map(|decision| Stage::Charged(charge.sequence, decision)),
            },
            Stage::Charged(sequence, decision) => {
                self.charged(place, sequence, &decision);
                Some(Stage::Owes)
            }
            Stage::Asks => self
                .over_the_network(place, |world, _| world.store.decide(&world.version, &Verb::Take(take), world.now))
                .map(Stage::Told),
            Stage::Told(decision) => {
                self.told(place, &take, mark, &decision);
                return;
            }
        };
        match next {
            Some(stage) => self.processes[place].calls.push(Call { take, mark, stage }),
            None => self.decide_locally(place, &take),
        }
    }

    /// Without a link it is known that the charge was not carried out.
    fn send(&mut self, place: usize, charge: &Charge) -> Option<Decision> {
        let charged =
            self.over_the_network(place, |world, id| world.store.charge(&world.version, id, charge, world.now));
        let process = &self.processes[place];
        if charged.is_none() {
            process.ledger.not_charged(NAME, charge.sequence, !process.is_linked);
        }
        charged
    }

    fn due(&mut self, place: usize) -> Option<Charge> {
        if self.rules.skips_charges {
            return None;
        }
        self.processes[place].ledger.due(&self.version, NAME, self.now)
    }

    fn charged(&mut self, place: usize, sequence: u64, decision: &Decision) {
        let party = Party { version: &self.version, name: NAME, times: 1 };
        self.processes[place].ledger.charged(&party, sequence, &said_by_charge(decision));
    }

    fn told(&mut self, place: usize, take: &Take, mark: Mark, decision: &Decision) {
        let party = Party { version: &self.version, name: NAME, times: 1 };
        let verb = Verb::Take(*take);
        let said = Said {
            verb: &verb,
            rules: &decision.rules,
            at: decision.decided_at,
            blocked_until: Micros::ZERO,
            is_allowed: decision.is_allowed(),
            wait: decision.wait(),
            lease: decision.lease,
        };
        if self.processes[place].ledger.heard(&party, &said, mark) || self.rules.ignores_races {
            self.admit(place, take, decision);
            return;
        }
        self.decide_locally(place, take);
    }

    fn decide_locally(&mut self, place: usize, take: &Take) {
        let party = Party { version: &self.version, name: NAME, times: 1 };
        let ledger = &self.processes[place].ledger;
        let owed = ledger.owing().1 > 0;
        let (decision, _) = ledger.take(&[party], take, self.now).unwrap();
        if decision.is_allowed() && !owed {
            self.books.begin_share();
        }
        self.admit(place, take, &decision);
    }

    fn admit(&mut self, place: usize, take: &Take, decision: &Decision) {
        if decision.is_allowed() {
            let at = decision.decided_at + decision.wait();
            self.books.admissions.push(Admission {
                cost: take.cost,
                at,
                process: place,
                lease: take.lease,
                ended: None,
            });
        }
    }

    /// A holder lets go: at the store, after what is owed, or here if that fails.
    fn release(&mut self, place: usize) {
        if !self.version.policy.holds() {
            return;
        }
        let now = self.now;
        let ours = |admission: &&mut Admission| admission.process == place && admission.ended.is_none();
        let Some(admission) = self.books.admissions.iter_mut().rfind(ours).filter(|admission| admission.at <= now)
        else {
            return;
        };
        let verb = Verb::Release(Release::Lease(admission.lease));
        let id = admission.lease;
        let party = Party { version: &Arc::clone(&self.version), name: NAME, times: 1 };
        let owed = self.due(place);
        if let Some(charge) = &owed {
            self.processes[place].ledger.not_charged(NAME, charge.sequence, true);
        }
        let at_store = if owed.is_none() {
            self.over_the_network(place, |world, _| world.store.decide(&world.version, &verb, world.now))
        } else {
            None
        };
        let ledger = &self.processes[place].ledger;
        let told = match at_store {
            Some(decision) => {
                let said = Said { verb: &verb, ..said_by_charge(&decision) };
                let _ = ledger.heard(&party, &Said { lease: decision.lease, ..said }, ledger.mark());
                Some(decision)
            }
            None => ledger.hold(&party, &verb, self.now),
        };
        if told.is_some_and(|decision| decision.lease.is_some()) {
            let found = self.books.admissions.iter_mut().find(|admission| admission.lease == id);
            found.unwrap().ended = Some(now);
        }
    }

    fn charge_in_the_background(&mut self, place: usize) {
        let keys = self.processes[place].ledger.some_owing(1);
        if keys.is_empty() || self.rules.skips_charges {
            return;
        }
        if let Some(charge) = self.due(place) {
            match self.send(place, &charge) {
                Some(decision) => self.charged(place, charge.sequence, &decision),
                None => self.processes[place].ledger.name_again(NAME),
            }
        }
    }

    fn restart(&mut self, place: usize) {
        let old = &self.processes[place];
        // What was charged nowhere is forgotten with it, and so are the calls without a waiting caller. Nor does it
        // know of reservations beyond the limit.
        let is_promised = self.store.subject.as_ref().is_some_and(|subject| subject.promised > self.now);
        if old.ledger.owing().0 > 0 || is_promised {
            self.books.forgive_share();
        }
        let id = old.id + self.rules.processes;
        let is_linked = old.is_linked;
        self.processes[place] = Process::new(id, self.now, is_linked);
    }

    /// The store forgets everything. Reservations ahead would be forgotten as well, on top of the limit.
    fn lose(&mut self) {
        if self.store.subject.as_ref().is_none_or(|subject| subject.promised <= self.now) {
            self.store = Store::default();
            self.books.forgive_whole();
        }
    }

    /// Whether it arrives is chance, and so is whether the reply does. Without a link neither does.
    fn over_the_network(&mut self, place: usize, act: impl FnOnce(&mut Self, u64) -> Decision) -> Option<Decision> {
        let process = &self.processes[place];
        let (id, is_linked) = (process.id, process.is_linked);
        if self.rules.perfect {
            return Some(act(self, id));
        }
        if !is_linked || self.random.one_in(12) {
            return None;
        }
        let decision = act(self, id);
        (!self.random.one_in(12)).then_some(decision)
    }
}

impl Process {
    fn new(id: u64, at: Micros, is_linked: bool) -> Self {
        Self { id, ledger: Ledger::new(1 << 20, Start { at, free_permille: 0 }), is_linked, calls: Vec::new() }
    }
}

impl Store {
    fn decide(&mut self, version: &Version, verb: &Verb, now: Micros) -> Decision {
        let subject = self.subject.get_or_insert_with(|| version.policy.fresh());
        version.policy.decide(subject, verb, now).decision
    }

    fn charge(&mut self, version: &Version, process: u64, charge: &Charge, now: Micros) -> Decision {
        let policy = &version.policy;
        let last = self.ids.entry(process).or_default();
        if *last < charge.sequence {
            *last = charge.sequence;
            let subject = self.subject.take().unwrap_or_else(|| policy.fresh());
            let mut subject = carry_over(policy, policy, subject, Carry::Keep, now);
            book(policy, &mut subject, &charge.bill, now);
            self.subject = Some(subject);
        }
        self.decide(version, &Verb::Peek, now)
    }
}
