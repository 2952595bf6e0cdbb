//! Clients of the simulation: requests of one key or of all, and refunds.

use ratekeeper_core::Span;

use super::{
    demand::DemandBatch,
    messages::{ClientRequest, Message},
    mutants::Mutant,
    scenario::least_limit,
    world::{HotKeyWorld, RefundDue, RefundOrigin, WorldEvent},
};
use crate::allotment::Served;

impl HotKeyWorld {
    pub(super) fn batch(&mut self, batch: DemandBatch) {
        let clients = self.scenario.clients;
        let mut left = batch.permits;
        while left > 0 {
            let is_holder = clients.only_first_holds && batch.process == 0;
            let cost = if is_holder { 1 } else { self.cost(left) };
            left -= cost;
            let is_peek = self.chance(clients.peeks);
            let waits = !is_holder && self.chance(clients.waits);
            let max_wait = if waits { self.random.below(300_000) } else { 0 };
            let request = ClientRequest { cost, max_wait: Span::from_micros(max_wait), is_peek };
            self.decisions += 1;
            if self.chance(clients.together) {
                self.request_together(batch.process, request);
            } else {
                let key = usize::try_from(self.random.below(self.keys() as u64)).unwrap();
                self.request(batch.process, key, request);
            }
        }
        for key in 0..self.keys() {
            if clients.are_greedy || !self.processes[batch.process].sides[key].queue.is_empty() {
                self.call(batch.process, key, false);
            }
        }
    }

    fn cost(&mut self, left: u64) -> u64 {
        if !self.chance(self.scenario.clients.larger_costs) {
            return 1;
        }
        let limit = least_limit(&self.store.policies[0]);
        let most = self.random.pick(&[2, 3, 5, limit / 5, limit / 2]).max(1);
        self.random.between(1, most).min(left)
    }

    fn request(&mut self, process: usize, key: usize, request: ClientRequest) {
        if request.is_peek {
            self.processes[process].sides[key].queue.push(request);
            return;
        }
        match self.take(process, key, request.cost, true) {
            Served::Granted { refill } => {
                if refill {
                    self.call(process, key, false);
                }
            }
            Served::Denied(_) if request.max_wait == Span::ZERO => {}
            _ => self.processes[process].sides[key].queue.push(request),
        }
    }

    /// Takes from the holder, and records the use.
    pub(super) fn take(&mut self, process: usize, key: usize, cost: u64, is_new: bool) -> Served {
        let now = self.processes[process].local(self.now);
        let mutant = self.scenario.mutant;
        let side = &mut self.processes[process].sides[key];
        if side.pocket >= cost {
            side.pocket -= cost;
            self.admit_local(process, key, cost);
            return Served::Granted { refill: false };
        }
        let clock = if mutant == Some(Mutant::NoLocalExpiry) { side.stopped_at } else { now };
        let served = match is_new {
            true => side.take(cost, clock),
            false => side.lock(clock).serve(cost),
        };
        if let Served::Granted { .. } = served {
            side.first_use.get_or_insert(now);
            self.admit_local(process, key, cost);
        }
        served
    }

    fn admit_local(&mut self, process: usize, key: usize, cost: u64) {
        self.check_block(key);
        let store_at = self.store_time();
        let of = self.records[key].admit(self.now, store_at, cost);
        let calls = self.processes[process].sides[key].calls;
        self.may_refund(process, key, cost, of, RefundOrigin::Here { calls });
    }

    /// In the process if each key has the permits here; otherwise one exact call.
    fn request_together(&mut self, process: usize, request: ClientRequest) {
        let now = self.processes[process].local(self.now);
        let sides = &mut self.processes[process].sides;
        let cost = request.cost;
        let served: Vec<bool> =
            sides.iter_mut().map(|side| matches!(side.take(cost, now), Served::Granted { .. })).collect();
        if served.iter().all(|&granted| granted) {
            for key in 0..served.len() {
                self.processes[process].sides[key].first_use.get_or_insert(now);
                self.admit_local(process, key, cost);
            }
            return;
        }
        for (side, _) in sides.iter_mut().zip(served).filter(|&(_, granted)| granted) {
            assert!(side.lock(now).holder.give_back(cost, now), "the use was not reported yet");
        }
        self.post(process, 0, Message::Together { cost, max_wait: request.max_wait });
    }
}

/// Refunds
impl HotKeyWorld {
    pub(super) fn may_refund(&mut self, process: usize, key: usize, cost: u64, of: usize, origin: RefundOrigin) {
        if !self.chance(self.scenario.clients.refunds) {
            return;
        }
        let cost = if self.random.one_in(3) { self.random.between(1, cost) } else { cost };
        let turn = self.processes[process].sides[key].config.turn.as_micros();
        let delay = self.random.pick(&[0, turn / 8, turn / 2, turn, 4 * turn]);
        let delay = self.random.below(delay + 1);
        let generation = self.processes[process].generation;
        self.after(delay, WorldEvent::Refund(RefundDue { process, generation, key, cost, of, origin }));
    }

    /// Returns permits to the holder if it takes them, else to the store.
    pub(super) fn refund(&mut self, due: &RefundDue) {
        let RefundDue { process, key, cost, of, origin, .. } = *due;
        let now = self.processes[process].local(self.now);
        let mutant = self.scenario.mutant;
        let side = &mut self.processes[process].sides[key];
        let at = match origin {
            RefundOrigin::Here { calls } => {
                if side.lock(now).holder.give_back(cost, now) {
                    if side.calls == calls {
                        self.records[key].remove(of, cost);
                    } else {
                        self.record_refund(key, cost, of, false);
                    }
                    return;
                }
                if mutant == Some(Mutant::GiveBackAfterReport) && side.lock(now).holder.held() > 0 {
                    side.pocket += cost;
                    self.record_refund(key, cost, of, false);
                    return;
                }
                None
            }
            RefundOrigin::Store { at } => {
                side.lock(now).holder.clear_denial();
                Some(at).filter(|_| !self.random.one_in(4))
            }
        };
        let is_undo = at.is_some() && self.random.one_in(2);
        self.post(process, 0, Message::Refund { key, cost, of, at, is_undo });
    }
}
