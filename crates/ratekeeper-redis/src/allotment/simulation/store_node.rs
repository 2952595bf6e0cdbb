//! The store of the simulation: the core's side of the protocol, applied to keys in memory.
//!
//! A step that reports no change is not stored, as in Redis. So a missing `changed` is found as well.

use ratekeeper_core::{
    OnQuotaChange, Policy, Span, Take, Timestamp, Verb,
    algorithm::Algorithm,
    store_api::{AllotmentCall, AllotmentReply, AllottedKey, migrate_state, take_all},
};

use super::{
    messages::{ClientRequest, Decided},
    mutants::{self, Mutant},
};

#[derive(Clone, Debug)]
pub(super) struct StoreNode {
    /// One policy per key.
    pub(super) policies: Vec<Policy>,
    pub(super) keys: Vec<AllottedKey>,
    pub(super) mutant: Option<Mutant>,
}

impl StoreNode {
    pub(super) fn new(policies: &[Policy], mutant: Option<Mutant>) -> Self {
        let keys = policies.iter().map(|policy| AllottedKey::new(policy.fresh())).collect();
        Self { policies: policies.to_vec(), keys, mutant }
    }

    /// Permits that all holders of a key have.
    pub(super) fn held(&self, key: usize) -> u64 {
        self.keys[key].held().permits
    }

    /// Permits used under each rule.
    pub(super) fn used(&self, key: usize, now: Timestamp) -> Vec<u64> {
        let mut settled = self.keys[key].clone();
        let _ = self.policies[key].decide_allotted(&mut settled, 0, &Verb::Peek, now);
        let rules = self.policies[key].rules().iter().zip(&settled.state.states);
        let used = rules.map(|(rule, state)| rule.algorithm().limit() - rule.algorithm().look(state, now).remaining);
        used.collect()
    }

    pub(super) fn allot(
        &mut self,
        key: usize,
        call: &AllotmentCall,
        requests: &[ClientRequest],
        now: Timestamp,
    ) -> (Vec<Decided>, Option<AllotmentReply>) {
        let before = self.keys[key].clone();
        let (policy, state) = (&self.policies[key], &mut self.keys[key]);
        let mut sent = *call;
        let tampered = mutants::before_call(self.mutant, policy, state, &mut sent, now);
        let verbs: Vec<Verb> = requests.iter().map(ClientRequest::verb).collect();
        let with_verbs = requests.iter().map(|request| request.cost).zip(&verbs);
        let mut step = policy.allot(state, &sent, with_verbs, now);
        if let Some(reply) = &mut step.reply {
            mutants::after_call(self.mutant, tampered, state, call, reply);
        }
        if !step.changed {
            self.keys[key] = before;
        }
        let decisions = requests.iter().zip(&step.decisions);
        let decided = decisions.map(|(&request, decision)| Decided {
            request,
            is_allowed: decision.is_allowed() && !request.is_peek,
            at: decision.proceed_at(),
            of: 0,
        });
        (decided.collect(), step.reply)
    }

    pub(super) fn decide(&mut self, key: usize, requests: &[ClientRequest], now: Timestamp) -> Vec<Decided> {
        let one = |request: &ClientRequest| {
            let mutant = self.mutant.filter(|_| request.max_wait > Span::ZERO);
            let (policy, state) = (&self.policies[key], &mut self.keys[key]);
            let reserved = mutants::reserve(mutant, policy, state, request, now);
            let (is_allowed, at) = reserved.unwrap_or_else(|| {
                let decision = self.verb(key, request.cost, &request.verb(), now);
                (decision.0 && !request.is_peek, decision.1)
            });
            Decided { request: *request, is_allowed, at, of: 0 }
        };
        requests.iter().map(one).collect()
    }

    /// A take of all keys, or of none.
    pub(super) fn together(&mut self, cost: u64, max_wait: Span, now: Timestamp) -> Option<Timestamp> {
        let before = self.keys.clone();
        for key in 0..self.keys.len() {
            // Charges the allotments that have ended.
            self.verb(key, 0, &Verb::Peek, now);
        }
        let keys = self.policies.iter().zip(&mut self.keys).map(|(policy, key)| {
            let held = key.held();
            let mut one = policy.request_key(&mut key.state, cost);
            one.held = held;
            one
        });
        let step = take_all(&mut keys.collect::<Vec<_>>(), &Take::up_to(max_wait), now);
        if !step.changed {
            self.keys = before;
        }
        step.decision.is_allowed().then(|| step.decision.proceed_at())
    }

    /// Any verb: whether it is allowed, and when it proceeds.
    pub(super) fn verb(&mut self, key: usize, cost: u64, verb: &Verb, now: Timestamp) -> (bool, Timestamp) {
        let before = self.keys[key].clone();
        let (policy, state) = (&self.policies[key], &mut self.keys[key]);
        mutants::before_step(self.mutant, policy, state, now);
        let step = if mutants::ignores_holders(self.mutant, verb) {
            policy.decide(&mut state.state, cost, verb, now)
        } else {
            policy.decide_allotted(state, cost, verb, now)
        };
        if self.mutant == Some(Mutant::ResetDropsAllotments) && *verb == Verb::Reset {
            state.allotments.clear();
        }
        if !step.changed {
            self.keys[key] = before;
        }
        (step.decision.is_allowed(), step.decision.proceed_at())
    }

    pub(super) fn change_quota(&mut self, key: usize, new: Policy, how: OnQuotaChange, now: Timestamp) {
        let allotted = &mut self.keys[key];
        let state = std::mem::take(&mut allotted.state);
        allotted.state = migrate_state(&self.policies[key], &new, state, how, now);
        if self.mutant == Some(Mutant::ChangeDropsAllotments) {
            allotted.allotments.clear();
        }
        self.policies[key] = new;
    }
}
