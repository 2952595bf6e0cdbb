//! Processes of the simulation: each has a holder and a queue per key, and a clock of any offset that drifts.
//!
//! One call per key and process is in flight. Requests that cannot be served in the process wait for it and leave with
//! the next call, as in the hot keys of the store.

use std::collections::HashSet;

use ratekeeper_core::{Span, store_api::AllotmentReply};
use ratekeeper_testkit::random::Random;

use super::{
    messages::{Answer, ClientRequest, Message},
    mutants::Mutant,
    scenario::least_limit,
    world::{HotKeyWorld, RefundDue, RefundOrigin, WorldEvent},
};
use crate::allotment::{Action, Denial, Holder, HolderConfig, HolderGuard, LocalTime, Served, SharedHolder};

pub(super) struct HolderProcess {
    offset: u64,
    /// Drift of its clock, in parts of a million.
    drift: i64,
    pub(super) generation: u64,
    pub(super) down_until: u64,
    pub(super) paused_until: u64,
    pub(super) sides: Vec<ProcessKey>,
}

/// One key in one process.
pub(super) struct ProcessKey {
    pub(super) holder: SharedHolder<()>,
    pub(super) config: HolderConfig,
    pub(super) queue: Vec<ClientRequest>,
    flight: Option<Flight>,
    /// Messages sent.
    numbers: u64,
    /// Holder's calls sent.
    pub(super) calls: u64,
    /// Messages whose answers were read.
    answered: HashSet<u64>,
    /// For mutants: the first use since the last reply, a clock that stopped then, permits taken back, and the last report.
    pub(super) first_use: Option<LocalTime>,
    pub(super) stopped_at: LocalTime,
    pub(super) pocket: u64,
    last_sent: u64,
}

struct Flight {
    number: u64,
    /// The number of the holder's call, if it is one.
    seq: Option<u64>,
}

impl HolderProcess {
    pub(super) fn new(random: &mut Random, keys: usize, config: HolderConfig) -> Self {
        let (offset, drift) = (random.between(1, 2_000_000_000), random.below(401).cast_signed() - 200);
        let mut process = Self { offset, drift, generation: 0, down_until: 0, paused_until: 0, sides: Vec::new() };
        process.restart(random, keys, config, 0);
        process
    }

    pub(super) fn restart(&mut self, random: &mut Random, keys: usize, config: HolderConfig, now: u64) {
        self.generation += 1;
        let local = self.local(now);
        let side = |random: &mut Random| ProcessKey {
            holder: SharedHolder::new(Holder::new(random.bits(), local), config, 0, ()),
            config,
            queue: Vec::new(),
            flight: None,
            numbers: 0,
            calls: 0,
            answered: HashSet::new(),
            first_use: None,
            stopped_at: local,
            pocket: 0,
            last_sent: 0,
        };
        self.sides = (0..keys).map(|_| side(random)).collect();
    }

    pub(super) fn local(&self, now: u64) -> LocalTime {
        let drifted = now.cast_signed() * self.drift / 1_000_000;
        LocalTime((now + self.offset).saturating_add_signed(drifted))
    }

    /// Every holder's permits are accounted for.
    pub(super) fn check(&self) -> Result<(), String> {
        for side in &self.sides {
            // The clock is of no consequence any more.
            let guard = side.holder.lock(|| LocalTime(u64::MAX / 2));
            let (counts, held) = (guard.holder.counts(), guard.holder.held());
            if counts.granted != counts.used + counts.returned + counts.expired + counts.lost + held {
                return Err(format!("{counts:?} and {held} held do not add up"));
            }
        }
        Ok(())
    }
}

impl HotKeyWorld {
    /// Sends what waits, with a report; if nothing is in flight.
    pub(super) fn call(&mut self, process: usize, key: usize, return_all: bool) {
        let now = self.processes[process].local(self.now);
        let clients = self.scenario.clients;
        let limit = least_limit(&self.store.policies[key]);
        let mutant = self.scenario.mutant;
        let side = &mut self.processes[process].sides[key];
        if side.flight.is_some() {
            return;
        }
        let count = side.queue.len().min(MAX_REQUESTS);
        let requests: Vec<_> = side.queue.drain(..count).collect();
        side.numbers += 1;
        let number = side.numbers;
        let is_greedy = clients.are_greedy && (process == 0 || !clients.only_first_holds);
        let clock = if mutant == Some(Mutant::NoLocalExpiry) { side.stopped_at } else { now };
        let (seq, message) = if return_all || is_greedy || side.lock(clock).holder.takes_part() {
            let largest = requests.iter().filter(|one| !one.is_peek).map(|one| one.cost).max().unwrap_or(0);
            let mut call = side.lock(clock).holder.call(largest, return_all, clock, &side.config);
            if is_greedy && !return_all {
                call.want = limit;
            }
            if let (Some(Mutant::StampAtFirstUse), Some(first)) = (mutant, side.first_use) {
                call.used_by = side.lock(clock).holder.latest_store_time(first);
            }
            if mutant == Some(Mutant::NoRunningTotal) {
                (call.acknowledged, side.last_sent) = (side.last_sent, call.used);
            }
            side.calls += 1;
            (Some(call.seq), Message::Allot { key, call, requests })
        } else {
            (None, Message::Decide { key, requests })
        };
        side.flight = Some(Flight { number, seq });
        self.post(process, number, message);
        let generation = self.processes[process].generation;
        self.after(self.scenario.network.timeout, WorldEvent::Timeout { process, generation, key, number });
    }

    /// The reply takes too long. What was asked for is answered without it.
    pub(super) fn time_out(&mut self, process: usize, key: usize, number: u64) {
        let now = self.processes[process].local(self.now);
        let side = &mut self.processes[process].sides[key];
        if let Some(flight) = side.flight.take_if(|flight| flight.number == number) {
            if let Some(seq) = flight.seq {
                side.lock(now).holder.failed(seq);
            }
            if !side.queue.is_empty() {
                self.call(process, key, false);
            }
        }
    }

    pub(super) fn answer(&mut self, answer: &Answer) {
        let Answer { process, key, .. } = *answer;
        let local = self.processes[process].local(self.now);
        let mutant = self.scenario.mutant;
        let side = &mut self.processes[process].sides[key];
        let is_current = side.flight.as_ref().is_some_and(|flight| flight.number == answer.number);
        let is_first = side.answered.insert(answer.number);
        let mut allotted = answer.allotted.clone();
        if let (Some(Mutant::LateReply), false, Some(flight), Some((seq, _))) =
            (mutant, is_current, &side.flight, &mut allotted)
            && let Some(current) = flight.seq
        {
            *seq = current;
        } else if !is_current {
            if is_first {
                self.undo_late(answer);
            }
            return;
        }
        side.flight = None;
        match &mut allotted {
            Some((seq, Some(reply))) => {
                if mutant == Some(Mutant::ExpiryFromReply) {
                    reply.end = reply.end + Span::from_micros(self.now - answer.sent_at);
                }
                let denied = answer.decided.iter().filter(|one| !one.is_allowed && !one.request.is_peek);
                let refused = denied.map(|one| one.request.cost).min();
                side.reply(*seq, reply, refused, local);
            }
            Some((seq, None)) => side.lock(local).holder.failed(*seq),
            None => {}
        }
        for one in answer.decided.iter().filter(|one| one.is_allowed) {
            self.may_refund(process, key, one.request.cost, one.of, RefundOrigin::Store { at: one.at });
        }
        self.serve_queue(process, key);
    }

    /// Requests that came meanwhile: by new permits, else with the next call.
    fn serve_queue(&mut self, process: usize, key: usize) {
        let mut waiting = std::mem::take(&mut self.processes[process].sides[key].queue);
        waiting.retain(|request| {
            let served = match request.is_peek {
                true => Served::Ask,
                false => self.take(process, key, request.cost, false),
            };
            match served {
                Served::Granted { .. } => false,
                Served::Denied(_) => request.max_wait > Span::ZERO,
                Served::Ask => true,
            }
        });
        let is_empty = waiting.is_empty();
        self.processes[process].sides[key].queue = waiting;
        if !is_empty {
            self.call(process, key, false);
        }
    }

    /// The requests of a late answer are gone: what the store has charged for them is cancelled.
    fn undo_late(&mut self, answer: &Answer) {
        for one in answer.decided.iter().filter(|one| one.is_allowed) {
            if self.chance(self.scenario.clients.refunds) {
                let Answer { process, key, .. } = *answer;
                let (cost, origin) = (one.request.cost, RefundOrigin::Store { at: one.at });
                self.refund(&RefundDue { process, generation: answer.generation, key, cost, of: one.of, origin });
            }
        }
    }

    pub(super) fn tick(&mut self, process: usize) {
        let now = self.processes[process].local(self.now);
        let (is_lazy, mutant) = (self.scenario.clients.are_lazy, self.scenario.mutant);
        for key in 0..self.keys() {
            let side = &mut self.processes[process].sides[key];
            let clock = if mutant == Some(Mutant::NoLocalExpiry) { side.stopped_at } else { now };
            let action = side.lock(clock).holder.tick(clock, &side.config);
            match action {
                _ if is_lazy => {}
                Action::Report => self.call(process, key, false),
                Action::Return => self.call(process, key, true),
                Action::None | Action::Idle => {}
            }
        }
    }
}

impl ProcessKey {
    /// The holder, at this time.
    pub(super) fn lock(&self, now: LocalTime) -> HolderGuard<'_, ()> {
        let mut guard = self.holder.lock(|| now);
        guard.config = self.config;
        guard
    }

    /// A take as the store's threads make it: without the lock if open permits answer, else by the holder.
    pub(super) fn take(&mut self, cost: u64, now: LocalTime) -> Served {
        match self.holder.take_open(cost, false, 0, now) {
            Some(decision) if decision.is_allowed() => Served::Granted { refill: false },
            Some(_) => Served::Denied(Denial { cost, until: now, free_at: now }),
            None => self.lock(now).take(cost),
        }
    }

    fn reply(&mut self, seq: u64, reply: &AllotmentReply, refused: Option<u64>, now: LocalTime) {
        let mut guard = self.lock(now);
        guard.holder.reply(seq, reply, refused, now, &self.config);
        guard.note(&reply.status);
        drop(guard);
        (self.first_use, self.stopped_at) = (None, now);
    }
}

/// Requests of one call.
const MAX_REQUESTS: usize = 1_024;
