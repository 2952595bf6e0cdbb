//! Naive protocols, for comparison: an even split, prepaid permits that are charged when they are granted, a copy of the
//! state that is reconciled afterwards (Bucket4j's delay), and counting in the background (Gubernator's GLOBAL).
//!
//! As modelled here: one key, no faults, clocks that agree. The store and the copies are the core's algorithms.

use std::{cmp::Reverse, collections::BinaryHeap};

use ratekeeper_core::{Policy, Take, Timestamp, Verb, algorithm::Algorithm, store_api::KeyState};
use ratekeeper_testkit::random::Random;

use super::{checker::Use, demand::DemandBatch};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Protocol {
    /// Permits are charged when they are granted, and end after this long.
    Prepaid { lasts: u64 },
    /// A copy of the state decides; it is reconciled after `turn`, or a tenth of the limit.
    Copy,
    /// A copy of the state decides; hits are sent every half turn and drain the state at most to empty.
    Background,
}

/// What a run has admitted, and its calls of the store.
pub(super) struct NaiveRun {
    pub(super) uses: Vec<Use>,
    pub(super) calls: u64,
}

/// The store's clock at the true time 0.
pub(super) const STORE_EPOCH: u64 = 1_000_000_000_000;
const TURN: u64 = 100_000;
const DELAY: (u64, u64) = (100, 800);

/// One limiter: a state, its policy.
#[derive(Clone)]
struct Limiter<'a> {
    policy: &'a Policy,
    state: KeyState,
}

impl<'a> Limiter<'a> {
    fn new(policy: &'a Policy) -> Self {
        Self { policy, state: policy.fresh() }
    }

    fn room(&self, now: Timestamp) -> u64 {
        self.policy.rules()[0].algorithm().look(&self.state.states[0], now).remaining
    }

    fn wait(&self, now: Timestamp) -> u64 {
        let weighed = self.policy.rules()[0].algorithm().weigh(&self.state.states[0], 1, now);
        weighed.free_at.since(now).as_micros()
    }

    /// Charges as many as there is room for.
    fn take(&mut self, permits: u64, now: Timestamp) -> u64 {
        let taken = permits.min(self.room(now));
        let verb = Verb::Take(Take::now());
        if taken > 0 {
            assert!(self.policy.decide(&mut self.state, taken, &verb, now).decision.is_allowed());
        }
        taken
    }

    /// Charges all, room or not.
    fn charge(&mut self, permits: u64, now: Timestamp) {
        let _ = self.policy.decide(&mut self.state, permits, &Verb::Penalize, now);
    }
}

fn stored(at: u64) -> Timestamp {
    Timestamp::from_micros(STORE_EPOCH + at)
}

fn record(uses: &mut Vec<Use>, at: u64, permits: u64) {
    if permits > 0 {
        let order = uses.len();
        uses.push(Use { at, store_at: stored(at), order, permits: permits.cast_signed() });
    }
}

/// What one limiter admits that decides everything.
pub(super) fn exact(policy: &Policy, demand: &[DemandBatch]) -> Vec<Use> {
    split(std::slice::from_ref(policy), demand)
}

/// What the parts of a limit admit, one per process.
pub(super) fn split(parts: &[Policy], demand: &[DemandBatch]) -> Vec<Use> {
    let mut limiters: Vec<_> = parts.iter().map(Limiter::new).collect();
    let mut sorted = demand.to_vec();
    sorted.sort_by_key(|batch| (batch.at, batch.process));
    let (mut uses, count) = (Vec::new(), parts.len());
    for batch in sorted {
        let taken = limiters[batch.process % count].take(batch.permits, stored(batch.at));
        record(&mut uses, batch.at, taken);
    }
    uses
}

#[derive(Clone, Default)]
struct NaiveProcess<'a> {
    held: u64,
    usable_until: u64,
    denied_until: u64,
    queue: u64,
    in_flight: bool,
    rate_from: u64,
    rate_count: u64,
    rate: u64,
    copy: Option<Limiter<'a>>,
    synced_at: u64,
    unsynced: u64,
}

enum NaiveEvent<'a> {
    DemandBatch(DemandBatch),
    Tick(usize),
    Arrive { process: usize, asked: u64, need: u64, want: u64, hits: u64 },
    Answer { process: usize, asked: u64, granted: u64, short: bool, wait: u64, copy: Option<Limiter<'a>> },
}

struct Naive<'a> {
    protocol: Protocol,
    random: Random,
    now: u64,
    /// Time, order and index of each event.
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    events: Vec<Option<NaiveEvent<'a>>>,
    store: Limiter<'a>,
    processes: Vec<NaiveProcess<'a>>,
    run: NaiveRun,
    limit: u64,
}

/// Runs a protocol.
pub(super) fn run(
    protocol: Protocol,
    policy: &Policy,
    processes: usize,
    demand: &[DemandBatch],
    seed: u64,
) -> NaiveRun {
    let mut world = Naive {
        protocol,
        random: Random::new(seed),
        now: 0,
        queue: BinaryHeap::new(),
        events: Vec::new(),
        store: Limiter::new(policy),
        processes: vec![NaiveProcess::default(); processes],
        run: NaiveRun { uses: Vec::new(), calls: 0 },
        limit: policy.rules()[0].algorithm().limit(),
    };
    let length = demand.iter().map(|batch| batch.at).max().unwrap_or(0);
    for &batch in demand {
        world.at(batch.at, NaiveEvent::DemandBatch(batch));
    }
    for process in 0..processes {
        let first = world.random.below(TURN / 2);
        for at in (first..length).step_by(usize::try_from(TURN / 2).unwrap()) {
            world.at(at, NaiveEvent::Tick(process));
        }
    }
    while let Some(Reverse((at, index))) = world.queue.pop() {
        world.now = at;
        if let Some(event) = world.events[index].take() {
            world.handle(event);
        }
    }
    world.run
}

impl<'a> Naive<'a> {
    fn at(&mut self, at: u64, event: NaiveEvent<'a>) {
        self.queue.push(Reverse((at, self.events.len())));
        self.events.push(Some(event));
    }

    fn delayed(&mut self) -> u64 {
        self.now + self.random.between(DELAY.0, DELAY.1)
    }

    fn admit(&mut self, permits: u64) {
        record(&mut self.run.uses, self.now, permits);
    }

    fn handle(&mut self, event: NaiveEvent<'a>) {
        match event {
            NaiveEvent::DemandBatch(batch) => match self.protocol {
                Protocol::Prepaid { .. } => self.prepaid(batch),
                _ => self.copied(batch.process, batch.permits),
            },
            NaiveEvent::Tick(process) => {
                let it = &self.processes[process];
                if self.protocol == Protocol::Background && it.copy.is_some() && !it.in_flight {
                    self.ask(process, 0);
                }
            }
            NaiveEvent::Arrive { process, asked, need, want, hits } => self.arrive(process, asked, need, want, hits),
            NaiveEvent::Answer { process, asked, granted, short, wait, copy } => {
                self.answer(process, asked, granted, short, wait, copy);
            }
        }
    }

    fn prepaid(&mut self, batch: DemandBatch) {
        let now = self.now;
        let it = &mut self.processes[batch.process];
        it.rate_count += batch.permits;
        if now - it.rate_from >= TURN {
            let last = it.rate_count * 1_000_000 / (now - it.rate_from);
            it.rate = if last > it.rate { last } else { u64::midpoint(it.rate, last) };
            (it.rate_from, it.rate_count) = (now, 0);
        }
        let target = it.rate * TURN * 2 / 1_000_000;
        let here = if now < it.usable_until { batch.permits.min(it.held) } else { 0 };
        it.held -= here;
        let asks_more = here > 0 && it.held * 2 < target;
        let (left, is_denied) = (batch.permits - here, now < it.denied_until);
        self.admit(here);
        if !is_denied && (left > 0 || asks_more) {
            self.ask(batch.process, left);
        }
    }

    fn copied(&mut self, process: usize, permits: u64) {
        let (now, limit) = (self.now, self.limit);
        let it = &mut self.processes[process];
        let is_old = self.protocol == Protocol::Copy
            && (now - it.synced_at > TURN || it.unsynced + permits > (limit / 10).max(1));
        match &mut it.copy {
            Some(copy) if !is_old => {
                let taken = copy.take(permits, stored(now));
                it.unsynced += taken;
                self.admit(taken);
            }
            _ => self.ask(process, permits),
        }
    }

    fn ask(&mut self, process: usize, permits: u64) {
        let (asked, arrives) = (self.now, self.delayed());
        let it = &mut self.processes[process];
        it.queue += permits;
        if it.in_flight {
            return;
        }
        it.in_flight = true;
        if asked >= it.usable_until {
            it.held = 0;
        }
        let want = (it.rate * TURN * 2 / 1_000_000).saturating_sub(it.held);
        let (need, hits) = (std::mem::take(&mut it.queue), std::mem::take(&mut it.unsynced));
        self.at(arrives, NaiveEvent::Arrive { process, asked, need, want, hits });
    }

    fn arrive(&mut self, process: usize, asked: u64, need: u64, want: u64, hits: u64) {
        self.run.calls += 1;
        let now = stored(self.now);
        let (mut granted, mut copy) = (0, None);
        match self.protocol {
            Protocol::Prepaid { .. } => {}
            Protocol::Copy => self.store.charge(hits, now),
            // The owner's bucket does not go below empty.
            Protocol::Background => drop(self.store.take(hits, now)),
        }
        let taken = self.store.take(need, now);
        self.admit(taken);
        if let Protocol::Prepaid { .. } = self.protocol {
            granted = self.store.take(want.min(self.store.room(now) / 2), now);
        } else {
            copy = Some(self.store.clone());
        }
        let wait = if taken < need { self.store.wait(now) } else { 0 };
        let (at, short) = (self.delayed(), taken < need || granted < want);
        self.at(at, NaiveEvent::Answer { process, asked, granted, short, wait, copy });
    }

    fn answer(&mut self, process: usize, asked: u64, granted: u64, short: bool, wait: u64, copy: Option<Limiter<'a>>) {
        let now = self.now;
        let it = &mut self.processes[process];
        it.in_flight = false;
        let waiting = std::mem::take(&mut it.queue);
        if let Protocol::Prepaid { lasts } = self.protocol {
            it.held += granted;
            it.usable_until = asked.saturating_add(lasts);
            if short {
                it.denied_until = now + wait.max(TURN / 2);
            }
            let here = if now < it.usable_until { waiting.min(it.held) } else { 0 };
            it.held -= here;
            let is_denied = now < it.denied_until;
            self.admit(here);
            if waiting > here && !is_denied {
                self.ask(process, waiting - here);
            }
        } else if let Some(mut copy) = copy {
            copy.charge(it.unsynced, stored(now));
            (it.copy, it.synced_at) = (Some(copy), now);
            if waiting > 0 {
                self.copied(process, waiting);
            }
        }
    }
}
