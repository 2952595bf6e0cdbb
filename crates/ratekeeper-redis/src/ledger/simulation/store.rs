//! The simulated store: the core's decisions, and the twin of the charging script.

use std::collections::HashMap;

use ratekeeper_core::{
    Decision, OnQuotaChange, Timestamp, Verb,
    store_api::{KeyState, migrate_state},
};

use super::{StoreCharge, Version, book};

/// The shared state, and the last executed operation id per process.
#[derive(Default)]
pub(super) struct Store {
    pub(super) subject: Option<KeyState>,
    ids: HashMap<u64, u64>,
}

impl Store {
    pub(super) fn decide(&mut self, version: &Version, cost: u64, verb: &Verb, now: Timestamp) -> Decision {
        let subject = self.subject.get_or_insert_with(|| version.policy.fresh());
        version.policy.decide(subject, cost, verb, now).decision
    }

    pub(super) fn charge(&mut self, version: &Version, process: u64, charge: &StoreCharge, now: Timestamp) -> Decision {
        let policy = &version.policy;
        let last = self.ids.entry(process).or_default();
        if *last < charge.sequence {
            *last = charge.sequence;
            let subject = self.subject.take().unwrap_or_else(|| policy.fresh());
            let mut subject = migrate_state(policy, policy, subject, OnQuotaChange::Keep, now);
            book(policy, &mut subject, &charge.bill, now);
            self.subject = Some(subject);
        }
        self.decide(version, 0, &Verb::Peek, now)
    }
}
