//! Reports of the store: every decision it makes is noted as the latest report on its key.
//!
//! A report is at most as old as the call it answers, so a newer one replaces it. While a key has a debt, reports are not
//! noted: the share continues from its own state until the debt is charged.

use std::sync::Arc;

use ratekeeper_core::{Policy, Release, Span, Verb, algorithm::AnyAlgorithm};

use super::{
    GrantMark, Ledger, RequestKey, StoreReport,
    entry::{ENTRY_BYTES, Entry, HeldLease, KeyReport},
    rebuild::RuleReport,
};

impl Ledger {
    /// Notes what the store decided about a key, unless a newer report is known or the key has a debt.
    ///
    /// `false` if the store granted permits while the same key was granted some here: the caller decides again, here.
    pub(crate) fn observe(&self, party: &RequestKey<'_>, report: &StoreReport<'_>, mark: GrantMark) -> bool {
        self.note_store_reached();
        let Some(local) = &party.version.local else { return true };
        let cost = if let Verb::Take(_) = report.verb { party.cost } else { 0 };
        let rests = |position: &usize| report.rules.get(*position).is_none_or(|rule| rule.reset_after == Span::ZERO);
        let is_at_rest = report.blocked_until <= report.at && local.positions.iter().all(rests);
        let mut shard = self.shard(party.name).lock();
        let index = match shard.find(party.name) {
            Some(index) => index,
            None if is_at_rest => return true,
            None => {
                let bytes = ENTRY_BYTES + party.name.len() + local.positions.len() * size_of::<RuleReport>();
                if !shard.make_room(bytes, &[], report.at) {
                    return true;
                }
                shard.insert(Entry::new(party.name, party.version))
            }
        };
        let Some(entry) = shard.entry(index) else { return true };
        if report.is_allowed && cost > 0 && entry.last_grant > mark.0 {
            return false;
        }
        if matches!(report.verb, Verb::Reset) {
            entry.debt = None;
            entry.held.clear();
        }
        if entry.debt.is_none() {
            if !Arc::ptr_eq(&entry.version, party.version) {
                entry.version = Arc::clone(party.version);
            }
            entry.report.note(report, &local.positions);
            if party.version.policy.has_leases() {
                entry.note_lease(report, cost);
            }
        }
        let change = shard.account(index);
        drop(shard);
        self.sum(change);
        true
    }
}

impl Entry {
    fn note_lease(&mut self, report: &StoreReport<'_>, cost: u64) {
        match *report.verb {
            Verb::Take(_) if report.is_allowed && cost > 0 => {
                if let Some(id) = report.lease {
                    let longest = leases_of(self.version.share()).max().unwrap_or_default();
                    self.held.retain(|held| held.since + longest > report.at);
                    self.held.push(HeldLease { id, permits: cost, since: report.at + report.wait });
                }
            }
            Verb::Release(Release::Lease(id)) | Verb::Undo { lease: Some(id), .. } => {
                self.held.retain(|held| held.id != id);
            }
            Verb::Heartbeat(id) if report.lease.is_some() => {
                if let Some(held) = self.held.iter_mut().find(|held| held.id == id) {
                    held.since = held.since.max(report.at);
                }
            }
            _ => {}
        }
    }
}

impl KeyReport {
    /// Keeps the newer report; of two from one moment, the stricter numbers. A report from well before the last one was made
    /// by another clock, and counts as newer.
    pub(super) fn note(&mut self, report: &StoreReport<'_>, positions: &[usize]) {
        let rules = || positions.iter().filter_map(|position| report.rules.get(*position));
        let back = self.at.since(report.at);
        if back > Span::ZERO && back <= CLOCKS_AGREE && !self.rules.is_empty() {
            return;
        }
        if report.at == self.at && self.rules.len() == positions.len() {
            for (kept, rule) in self.rules.iter_mut().zip(rules()) {
                kept.remaining = kept.remaining.min(rule.remaining);
                kept.reset_after = kept.reset_after.max(rule.reset_after);
            }
        } else {
            self.rules.clear();
            self.rules
                .extend(rules().map(|rule| RuleReport { remaining: rule.remaining, reset_after: rule.reset_after }));
        }
        (self.at, self.blocked_until) = (report.at, report.blocked_until);
    }
}

fn leases_of(policy: &Policy) -> impl Iterator<Item = Span> + '_ {
    policy.rules().iter().filter_map(|rule| match rule.algorithm() {
        AnyAlgorithm::Leases(it) => Some(it.lease()),
        _ => None,
    })
}

/// Replies are processed within this time of each other; a server's clock that differs by more is another clock.
const CLOCKS_AGREE: Span = Span::from_micros(5_000_000);
