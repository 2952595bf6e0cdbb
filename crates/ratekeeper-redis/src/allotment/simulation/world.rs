//! The world of the simulation: true time, events, the network and the store's clock.
//!
//! Everything is an integer and every choice follows from the seed. A process's clock has any offset and drifts by up to
//! 200 parts in a million. A use counts at the true time at which it was allowed, with its wait.

use std::{cmp::Reverse, collections::BinaryHeap};

use ratekeeper_core::Timestamp;
use ratekeeper_testkit::random::Random;

use super::{
    demand::DemandBatch,
    faults::Fault,
    messages::{Answer, Envelope},
    process::HolderProcess,
    records::KeyRecords,
    scenario::HotKeyScenario,
    store_node::StoreNode,
};

pub(super) enum WorldEvent {
    DemandBatch(DemandBatch),
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
    pub(super) scenario: HotKeyScenario,
    pub(super) random: Random,
    /// True time, in µs.
    pub(super) now: u64,
    events: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
    pub(super) store: StoreNode,
    pub(super) snapshot: Option<StoreNode>,
    /// Counts failovers. Messages to a server that is gone are lost.
    pub(super) epoch: u64,
    /// By how much the store's clock has stepped.
    pub(super) steps: i64,
    pub(super) stalled_until: u64,
    pub(super) processes: Vec<HolderProcess>,
    pub(super) records: Vec<KeyRecords>,
    pub(super) decisions: u64,
    pub(super) store_calls: u64,
    /// From when to when each key is blocked.
    pub(super) blocks: Vec<(u64, u64)>,
    pub(super) failure: Option<String>,
}

struct Scheduled {
    at: u64,
    order: u64,
    event: WorldEvent,
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
    pub(super) fn new(scenario: HotKeyScenario) -> Self {
        let mut random = Random::new(scenario.seed);
        let keys = scenario.policies.len();
        let process = |index| HolderProcess::new(&mut random, keys, scenario.config_of(index));
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
            blocks: vec![(0, 0); keys],
            failure: None,
            random,
            scenario,
        };
        for index in 0..world.scenario.demand.len() {
            let batch = world.scenario.demand[index];
            world.at(batch.at, WorldEvent::DemandBatch(batch));
        }
        for index in 0..world.scenario.faults.len() {
            let (at, fault) = world.scenario.faults[index];
            world.at(at, WorldEvent::Fault(fault));
        }
        let turn = world.scenario.config.turn.as_micros();
        for process in 0..world.processes.len() {
            let at = world.random.below(turn);
            world.at(at, WorldEvent::Tick(process));
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

    pub(super) fn at(&mut self, at: u64, event: WorldEvent) {
        self.scheduled += 1;
        self.events.push(Reverse(Scheduled { at, order: self.scheduled, event }));
    }

    pub(super) fn after(&mut self, span: u64, event: WorldEvent) {
        self.at(self.now + span, event);
    }

    fn handle(&mut self, event: WorldEvent) {
        // A process that is paused sees everything later.
        let process = match &event {
            WorldEvent::DemandBatch(batch) => Some((batch.process, None)),
            WorldEvent::Answer(answer) => Some((answer.process, Some(answer.generation))),
            WorldEvent::Timeout { process, generation, .. } => Some((*process, Some(*generation))),
            WorldEvent::Refund(due) => Some((due.process, Some(due.generation))),
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
            WorldEvent::DemandBatch(batch) => self.batch(batch),
            WorldEvent::Answer(answer) => self.answer(&answer),
            WorldEvent::Timeout { process, key, number, .. } => self.time_out(process, key, number),
            WorldEvent::Refund(due) => self.refund(&due),
            WorldEvent::Tick(process) => self.on_tick(process),
            WorldEvent::Arrive(envelope) => self.arrive(envelope),
            WorldEvent::Fault(fault) => self.fault(fault),
        }
    }

    fn on_tick(&mut self, process: usize) {
        if self.now > self.scenario.length + AFTERMATH {
            return;
        }
        self.after(self.scenario.config.turn.as_micros() / 2, WorldEvent::Tick(process));
        let it = &self.processes[process];
        if it.down_until <= self.now && it.paused_until <= self.now {
            self.tick(process);
        }
    }
}
