//! The world of the simulation: true time, events, the network and the store's clock.
//!
//! Everything is an integer and every choice follows from the seed. A process's clock has any offset and drifts by up to
//! 200 parts in a million. A use counts at the true time at which it was allowed, with its wait.

use std::{cmp::Reverse, collections::BinaryHeap};

use ratekeeper_core::{Span, Timestamp, Verb};
use ratekeeper_testkit::random::Random;

use super::{
    checker::RefundedUse,
    demand::Batch,
    faults::Fault,
    messages::{Answer, Decided, Envelope, Message},
    mutants::Mutant,
    process::HolderProcess,
    records::KeyRecords,
    scenario::{Scenario, with_quota},
    store_node::StoreNode,
};

pub(super) enum Event {
    Batch(Batch),
    Tick(usize),
    Arrive(Box<Envelope>),
    Answer(Box<Answer>),
    Timeout { process: usize, generation: u64, key: usize, number: u64 },
    Refund(RefundDue),
    Fault(Fault),
}

/// A client returns permits.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefundDue {
    pub(super) process: usize,
    pub(super) generation: u64,
    pub(super) key: usize,
    pub(super) cost: u64,
    /// The use in the records.
    pub(super) of: usize,
    pub(super) origin: RefundOrigin,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RefundOrigin {
    /// Allowed in the process, after this many calls.
    Here { calls: u64 },
    /// Allowed by the store, for this time.
    Store { at: Timestamp },
}

pub(super) struct HotKeyWorld {
    pub(super) scenario: Scenario,
    pub(super) random: Random,
    /// True time, in µs.
    pub(super) now: u64,
    events: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
    pub(super) store: StoreNode,
    snapshot: Option<StoreNode>,
    /// Counts failovers. Messages to a server that is gone are lost.
    epoch: u64,
    /// By how much the store's clock has stepped.
    steps: i64,
    stalled_until: u64,
    pub(super) processes: Vec<HolderProcess>,
    pub(super) records: Vec<KeyRecords>,
    pub(super) decisions: u64,
    pub(super) store_calls: u64,
    pub(super) used_here: u64,
    failure: Option<String>,
}

struct Scheduled {
    at: u64,
    order: u64,
    event: Event,
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Scheduled {}

/// Holders are left alone for this long after the last demand.
const AFTERMATH: u64 = 1_000_000;

/// The run
impl HotKeyWorld {
    pub(super) fn new(scenario: Scenario) -> Self {
        let mut random = Random::new(scenario.seed);
        let keys = scenario.policies.len();
        let process = |_| HolderProcess::new(&mut random, keys, scenario.config);
        let processes: Vec<_> = (0..scenario.processes).map(process).collect();
        let mut world = Self {
            now: 0,
            events: BinaryHeap::with_capacity(scenario.demand.len() + 256),
            scheduled: 0,
            store: StoreNode::new(&scenario.policies, scenario.mutant),
            snapshot: None,
            epoch: 0,
            steps: 0,
            stalled_until: 0,
            processes,
            records: scenario.policies.iter().map(KeyRecords::new).collect(),
            decisions: 0,
            store_calls: 0,
            used_here: 0,
            failure: None,
            random,
            scenario,
        };
        for index in 0..world.scenario.demand.len() {
            let batch = world.scenario.demand[index];
            world.at(batch.at, Event::Batch(batch));
        }
        for index in 0..world.scenario.faults.len() {
            let (at, fault) = world.scenario.faults[index];
            world.at(at, Event::Fault(fault));
        }
        let turn = world.scenario.config.turn.as_micros();
        for process in 0..world.processes.len() {
            let at = world.random.below(turn);
            world.at(at, Event::Tick(process));
        }
        world
    }

    /// Runs all events; the error names what was violated.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let end = self.scenario.length + 2 * AFTERMATH;
        while let Some(Reverse(Scheduled { at, event, .. })) = self.events.pop() {
            if at > end {
                break;
            }
            self.now = at;
            self.handle(event);
        }
        self.failure.take().map_or(Ok(()), Err)?;
        self.processes.iter().try_for_each(HolderProcess::check)?;
        self.records.iter().try_for_each(KeyRecords::check)
    }

    pub(super) fn keys(&self) -> usize {
        self.store.keys.len()
    }

    pub(super) fn store_time(&self) -> Timestamp {
        Timestamp::from_micros((self.now + self.scenario.store_epoch).saturating_add_signed(self.steps))
    }

    pub(super) fn chance(&mut self, of_a_thousand: u64) -> bool {
        of_a_thousand > 0 && self.random.below(1_000) < of_a_thousand
    }

    fn at(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse(Scheduled { at, order: self.scheduled, event }));
    }

    pub(super) fn after(&mut self, span: u64, event: Event) {
        self.at(self.now + span, event);
    }

    fn handle(&mut self, event: Event) {
        // A process that is paused sees everything later.
        let process = match &event {
            Event::Batch(batch) => Some((batch.process, None)),
            Event::Answer(answer) => Some((answer.process, Some(answer.generation))),
            Event::Timeout { process, generation, .. } => Some((*process, Some(*generation))),
            Event::Refund(due) => Some((due.process, Some(due.generation))),
            _ => None,
        };
        if let Some((process, generation)) = process {
            let it = &self.processes[process];
            if it.down_until > self.now || generation.is_some_and(|generation| generation != it.generation) {
                return;
            }
            if it.paused_until > self.now {
                return self.at(it.paused_until, event);
            }
        }
        match event {
            Event::Batch(batch) => self.batch(batch),
            Event::Answer(answer) => self.answer(&answer),
            Event::Timeout { process, key, number, .. } => self.time_out(process, key, number),
            Event::Refund(due) => self.refund(&due),
            Event::Tick(process) => self.on_tick(process),
            Event::Arrive(envelope) => self.arrive(envelope),
            Event::Fault(fault) => self.fault(fault),
        }
    }

    fn on_tick(&mut self, process: usize) {
        if self.now > self.scenario.length + AFTERMATH {
            return;
        }
        self.after(self.scenario.config.turn.as_micros() / 2, Event::Tick(process));
        let it = &self.processes[process];
        if it.down_until <= self.now && it.paused_until <= self.now {
            self.tick(process);
        }
    }
}

/// The network and the store
impl HotKeyWorld {
    pub(super) fn post(&mut self, process: usize, _key: usize, number: u64, message: Message) {
        let network = self.scenario.network;
        let envelope = Envelope {
            process,
            generation: self.processes[process].generation,
            epoch: self.epoch,
            number,
            sent_at: self.now,
            deadline: self.store_time() + Span::from_micros(network.timeout),
            message,
        };
        let is_refund = matches!(envelope.message, Message::Refund { .. });
        if !is_refund && self.chance(network.doubled) {
            let copy = Event::Arrive(Box::new(envelope.clone()));
            let delay = self.long_delay();
            self.after(delay, copy);
        }
        if self.chance(network.lost) {
            return;
        }
        let delay = if self.chance(network.late) { self.long_delay() } else { self.delay() };
        self.after(delay, Event::Arrive(Box::new(envelope)));
    }

    fn delay(&mut self) -> u64 {
        let (least, most) = self.scenario.network.delay;
        self.random.between(least, most)
    }

    fn long_delay(&mut self) -> u64 {
        let most = 2 * self.scenario.config.hold.as_micros();
        self.delay() + self.random.below(most)
    }

    fn arrive(&mut self, envelope: Box<Envelope>) {
        if envelope.epoch != self.epoch {
            return;
        }
        if self.stalled_until > self.now {
            return self.at(self.stalled_until, Event::Arrive(envelope));
        }
        let now = self.store_time();
        let Envelope { process, generation, number, sent_at, .. } = *envelope;
        let mut answer = Answer { process, generation, number, key: 0, sent_at, allotted: None, decided: Vec::new() };
        let is_late = self.scenario.network.has_deadlines && now > envelope.deadline;
        self.store_calls += 1;
        match envelope.message {
            Message::Allot { key, call, requests } => {
                (answer.key, answer.allotted) = (key, Some((call.seq, None)));
                if !is_late {
                    let (decided, reply) = self.store.allot(key, &call, &requests, now);
                    (answer.decided, answer.allotted) = (decided, Some((call.seq, reply)));
                }
            }
            Message::Decide { key, requests } => {
                answer.key = key;
                if !is_late {
                    answer.decided = self.store.decide(key, &requests, now);
                }
            }
            Message::Together { cost, max_wait } if !is_late => {
                if let Some(at) = self.store.together(cost, max_wait, now) {
                    for key in 0..self.keys() {
                        self.admit(key, cost, at);
                    }
                }
                return;
            }
            Message::Refund { key, cost, of, at, is_undo } if !is_late => {
                let verb = match at {
                    Some(at) if is_undo => Verb::Undo { at, lease: None },
                    at => Verb::Refund { at },
                };
                self.store.verb(key, cost, &verb, now);
                if self.scenario.mutant == Some(Mutant::RefundTwice) {
                    self.store.verb(key, cost, &verb, now);
                }
                self.record_refund(key, cost, of, at.is_some());
                return;
            }
            _ => return,
        }
        for index in 0..answer.decided.len() {
            let Decided { request, is_allowed, at, .. } = answer.decided[index];
            if is_allowed {
                answer.decided[index].of = self.admit(answer.key, request.cost, at);
            }
        }
        self.reply_with(answer);
    }

    fn reply_with(&mut self, answer: Answer) {
        let network = self.scenario.network;
        if self.chance(network.doubled) {
            let (delay, copy) = (self.long_delay(), Event::Answer(Box::new(answer.clone())));
            self.after(delay, copy);
        }
        if !self.chance(network.lost) {
            let delay = self.delay();
            self.after(delay, Event::Answer(Box::new(answer)));
        }
    }

    /// A use that the store has allowed.
    fn admit(&mut self, key: usize, cost: u64, at: Timestamp) -> usize {
        let wait = at.since(self.store_time()).as_micros();
        self.records[key].admit(self.now + wait, at, cost)
    }

    pub(super) fn record_refund(&mut self, key: usize, permits: u64, of: usize, is_dated: bool) {
        let refund = RefundedUse { at: self.now, store_at: self.store_time(), permits, of, is_dated };
        self.records[key].refund(refund);
    }
}

/// Faults
impl HotKeyWorld {
    fn fault(&mut self, fault: Fault) {
        let (now, store_now, keys) = (self.now, self.store_time(), self.keys());
        match fault {
            Fault::Crash { process, down } => {
                self.restart(process);
                self.processes[process].down_until = now + down;
            }
            Fault::Restart { process } => {
                for key in 0..keys {
                    self.call(process, key, true);
                }
                self.restart(process);
            }
            Fault::Pause { process, span } => {
                let until = &mut self.processes[process].paused_until;
                *until = (*until).max(now + span);
            }
            Fault::Distrust { process } => {
                self.processes[process].sides.iter_mut().for_each(|side| side.holder.forget());
            }
            Fault::Stall { span } => self.stalled_until = now + span,
            Fault::Snapshot => self.snapshot = Some(self.store.clone()),
            Fault::Failover { keeps_copy } => {
                let empty = StoreNode::new(&self.store.policies, self.scenario.mutant);
                self.store = self.snapshot.take().filter(|_| keeps_copy).unwrap_or(empty);
                self.epoch += 1;
                self.records.iter_mut().for_each(|records| records.lose_state(now));
            }
            Fault::Step { by } => {
                self.steps += by;
                self.records.iter_mut().for_each(|records| records.step_clock(by, now));
            }
            Fault::Penalize { key, permits } => {
                self.store.verb(key, permits, &Verb::Penalize, store_now);
                self.records[key].may_start_elsewhere();
            }
            Fault::Block { key, span } => {
                self.store.verb(key, 0, &Verb::Block { span: Span::from_micros(span) }, store_now);
            }
            Fault::Reset { key } => {
                self.store.verb(key, 0, &Verb::Reset, store_now);
                self.records[key].lose_state(now);
                self.records[key].may_start_elsewhere();
            }
            Fault::QuotaChange { key, how, percent } => {
                let policy = with_quota(&self.store.policies[key], percent);
                let held = self.store.held(key);
                self.store.change_quota(key, policy.clone(), how, store_now);
                self.records[key].change_quota(&policy, how, held, now);
                self.snapshot = None;
            }
        }
    }

    fn restart(&mut self, process: usize) {
        if let Err(failure) = self.processes[process].check() {
            self.failure.get_or_insert(failure);
        }
        let (keys, config, now) = (self.keys(), self.scenario.config, self.now);
        self.processes[process].restart(&mut self.random, keys, config, now);
    }
}
