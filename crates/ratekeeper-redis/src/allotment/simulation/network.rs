//! The network of the simulation, and what the store does with each message.
//!
//! Messages are lost, doubled, and delayed so that later ones overtake them. A message to a server that failed over is
//! lost. Refunds are not doubled: a client sends each once.

use ratekeeper_core::{Span, Timestamp, Verb};

use super::{
    checker::RefundedUse,
    faults::FaultKinds,
    messages::{Answer, Decided, Envelope, Message},
    mutants::Mutant,
    world::{HotKeyWorld, WorldEvent},
};

impl HotKeyWorld {
    pub(super) fn post(&mut self, process: usize, number: u64, message: Message) {
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
            let copy = WorldEvent::Arrive(Box::new(envelope.clone()));
            let delay = self.long_delay();
            self.after(delay, copy);
        }
        if self.chance(network.lost) {
            return;
        }
        let delay = if self.chance(network.late) { self.long_delay() } else { self.delay() };
        self.after(delay, WorldEvent::Arrive(Box::new(envelope)));
    }

    fn delay(&mut self) -> u64 {
        let (least, most) = self.scenario.network.delay;
        self.random.between(least, most)
    }

    fn long_delay(&mut self) -> u64 {
        let most = 2 * self.scenario.config.hold.as_micros();
        self.delay() + self.random.below(most)
    }

    pub(super) fn arrive(&mut self, envelope: Box<Envelope>) {
        if envelope.epoch != self.epoch {
            return;
        }
        if self.stalled_until > self.now {
            return self.at(self.stalled_until, WorldEvent::Arrive(envelope));
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
            let (delay, copy) = (self.long_delay(), WorldEvent::Answer(Box::new(answer.clone())));
            self.after(delay, copy);
        }
        if !self.chance(network.lost) {
            let delay = self.delay();
            self.after(delay, WorldEvent::Answer(Box::new(answer)));
        }
    }

    /// A use that the store has allowed.
    fn admit(&mut self, key: usize, cost: u64, at: Timestamp) -> usize {
        let wait = at.since(self.store_time()).as_micros();
        if wait > 0 && (self.keys() > 1 || self.store.policies[key].rules().len() > 1) {
            // Reserved for a time that another rule determines.
            self.records[key].may_start_elsewhere();
        }
        self.records[key].admit(self.now + wait, at, cost)
    }

    /// A block takes effect on holders with their next call, at the latest when their permits end.
    pub(super) fn check_block(&mut self, key: usize) {
        let FaultKinds { failovers, steps, quota_changes, .. } = self.scenario.kinds;
        let hold = self.scenario.config.hold.as_micros() * if quota_changes { 2 } else { 1 };
        let (since, until) = self.blocks[key];
        if !failovers && !steps && since + hold < self.now && self.now < until {
            let failure = format!("used at {}, although blocked from {since} to {until}", self.now);
            self.failure.get_or_insert(failure);
        }
    }

    pub(super) fn record_refund(&mut self, key: usize, permits: u64, of: usize, is_dated: bool) {
        let (at, store_at, order) = (self.now, self.store_time(), self.records[key].order());
        let refund = RefundedUse { at, store_at, order, permits, of, is_dated };
        self.records[key].refund(refund);
    }
}
