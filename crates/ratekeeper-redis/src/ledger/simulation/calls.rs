//! Calls of the simulated processes: a take in stages, charges, releases, and the network that loses messages.

use std::sync::Arc;

use ratekeeper_core::{Decision, LeaseId, Release, Take, Timestamp, Verb, algorithm::Algorithm};

use super::{Due, GrantMark, NAME, RequestKey, StoreCharge, StoreReport, World, checker::Admission};
use crate::fallback::report_of_charge;

/// One take in flight.
pub(super) struct SimulatedCall {
    pub(super) cost: u64,
    pub(super) take: Take,
    mark: GrantMark,
    stage: Stage,
}

enum Stage {
    /// Uncharged grants of the key are charged.
    Owes,
    /// The charge was executed, and its reply is in flight.
    Charged(u64, Decision),
    /// The take may be sent.
    Asks,
    /// The take was executed, and its reply is in flight.
    Decided(Decision),
}

impl World {
    pub(super) fn begin(&mut self, place: usize) {
        let limits: Vec<u64> = self.version.policy.rules().iter().map(|rule| rule.algorithm().limit()).collect();
        let limit = self.random.pick(&limits);
        let cost = self.random.between(1, limit.div_ceil(2));
        self.leases += 1;
        let take = if self.random.one_in(4) { self.random.take(&self.spans) } else { Take::now() };
        let take = take.with_lease(LeaseId(self.leases));
        let process = &mut self.processes[place];
        let mark = process.ledger.mark();
        process.calls.push(SimulatedCall { cost, take, mark, stage: Stage::Owes });
    }

    pub(super) fn advance(&mut self, place: usize) {
        let calls = self.processes[place].calls.len() as u64;
        if calls == 0 {
            return;
        }
        let call = usize::try_from(self.random.below(calls)).unwrap();
        let SimulatedCall { cost, take, mark, stage } = self.processes[place].calls.swap_remove(call);
        let next = match stage {
            Stage::Owes => match self.due(place) {
                Due::Nothing => Some(Stage::Asks),
                Due::Later => None,
                Due::Charge(charge) => {
                    self.send(place, &charge).map(|decision| Stage::Charged(charge.sequence, decision))
                }
            },
            Stage::Charged(sequence, decision) => {
                self.charged(place, sequence, &decision);
                Some(Stage::Owes)
            }
            Stage::Asks => self
                .over_the_network(place, |world, _| {
                    world.store.decide(&world.version, cost, &Verb::Take(take), world.now)
                })
                .map(Stage::Decided),
            Stage::Decided(decision) => {
                self.on_decision(place, cost, &take, mark, &decision);
                return;
            }
        };
        match next {
            Some(stage) => self.processes[place].calls.push(SimulatedCall { cost, take, mark, stage }),
            None => self.decide_locally(place, cost, &take),
        }
    }

    /// Sends a charge. Without a link it is known that it was not executed.
    pub(super) fn send(&mut self, place: usize, charge: &StoreCharge) -> Option<Decision> {
        let charged =
            self.over_the_network(place, |world, id| world.store.charge(&world.version, id, charge, world.now));
        let process = &self.processes[place];
        if charged.is_none() {
            process.ledger.not_charged(NAME, charge.sequence, !process.is_linked, Some(self.instant));
        }
        charged
    }

    pub(super) fn due(&mut self, place: usize) -> Due {
        if self.rules.skips_charges {
            return Due::Nothing;
        }
        self.processes[place].ledger.due(&self.version, NAME, self.now, self.instant)
    }

    pub(super) fn charged(&mut self, place: usize, sequence: u64, decision: &Decision) {
        let party = RequestKey { version: &self.version, name: NAME, cost: 1 };
        self.processes[place].ledger.charged(&party, sequence, &report_of_charge(decision));
    }

    pub(super) fn on_decision(&mut self, place: usize, cost: u64, take: &Take, mark: GrantMark, decision: &Decision) {
        let party = RequestKey { version: &self.version, name: NAME, cost };
        let verb = Verb::Take(*take);
        let report = StoreReport {
            verb: &verb,
            rules: &decision.rules,
            at: decision.decided_at,
            blocked_until: Timestamp::EPOCH,
            is_allowed: decision.is_allowed(),
            wait: decision.verdict.wait(),
            lease: decision.lease,
        };
        if self.processes[place].ledger.observe(&party, &report, mark) || self.rules.ignores_races {
            self.admit(place, cost, take, decision);
            return;
        }
        self.decide_locally(place, cost, take);
    }

    pub(super) fn decide_locally(&mut self, place: usize, cost: u64, take: &Take) {
        let party = RequestKey { version: &self.version, name: NAME, cost };
        let ledger = &self.processes[place].ledger;
        let owed = ledger.owing().1 > 0;
        let (decision, _) = ledger.take(&[party], take, self.now).unwrap();
        if decision.is_allowed() && !owed {
            self.books.begin_share();
        }
        self.admit(place, cost, take, &decision);
    }

    pub(super) fn admit(&mut self, place: usize, cost: u64, take: &Take, decision: &Decision) {
        if decision.is_allowed() {
            let at = decision.proceed_at();
            self.books.admissions.push(Admission { cost, at, process: place, lease: take.lease, ended: None });
        }
    }

    /// Releases a lease: at the store, after the charge, or locally if that fails.
    pub(super) fn release(&mut self, place: usize) {
        if !self.version.policy.has_leases() {
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
        let party = RequestKey { version: &Arc::clone(&self.version), name: NAME, cost: 1 };
        let owed = self.due(place);
        if let Due::Charge(charge) = &owed {
            self.processes[place].ledger.not_charged(NAME, charge.sequence, true, Some(self.instant));
        }
        let at_store = if let Due::Nothing = owed {
            self.over_the_network(place, |world, _| world.store.decide(&world.version, 1, &verb, world.now))
        } else {
            None
        };
        let ledger = &self.processes[place].ledger;
        let decided = match at_store {
            Some(decision) => {
                let report = StoreReport { verb: &verb, ..report_of_charge(&decision) };
                let _ = ledger.observe(&party, &StoreReport { lease: decision.lease, ..report }, ledger.mark());
                Some(decision)
            }
            None => ledger.hold(&party, &verb, self.now),
        };
        if decided.is_some_and(|decision| decision.lease.is_some()) {
            let found = self.books.admissions.iter_mut().find(|admission| admission.lease == id);
            found.unwrap().ended = Some(now);
        }
    }

    pub(super) fn charge_in_the_background(&mut self, place: usize) {
        let keys = self.processes[place].ledger.next_owing_keys(1);
        if keys.is_empty() || self.rules.skips_charges {
            return;
        }
        if let Due::Charge(charge) = self.due(place) {
            match self.send(place, &charge) {
                Some(decision) => self.charged(place, charge.sequence, &decision),
                None => self.processes[place].ledger.requeue(NAME),
            }
        }
    }

    /// Request and reply are each lost at random; without a link the request is not sent.
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
