//! What is known of one key: the store's last report, the leases held, the debt.
//!
//! The share's state is not kept while the store decides. It is rebuilt from the last report when a local decision needs
//! it, and from then on lives in the debt until that is charged.

use std::sync::Arc;

use ratekeeper_core::{
    LeaseId, Span, Timestamp,
    algorithm::{AnyAlgorithm, Lease, LeaseState, State},
    store_api::{KeyState, migrate_state},
};

use super::{
    debt::Debt,
    rebuild::{RuleReport, rebuild},
};
use crate::policies::Version;

/// What is known of one key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Arc<[u8]>,
    /// The rules that the report and the debt are counted under.
    pub(super) version: Arc<Version>,
    pub(super) report: KeyReport,
    /// Leases that the store granted to this process.
    pub(super) held: Vec<HeldLease>,
    pub(super) debt: Option<Box<Debt>>,
    /// The number of the last local grant, and when it was made.
    pub(super) last_grant: u64,
    pub(super) granted_at: Timestamp,
    /// The number of the last local grant that is frozen or charged.
    pub(super) frozen_up_to: u64,
    /// The same of those that are charged.
    pub(super) charged_up_to: u64,
    pub(super) size: Size,
    pub(super) is_queued: bool,
}

/// What the store last reported of a key's local rules. No rules if it has reported nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyReport {
    pub(super) at: Timestamp,
    pub(super) blocked_until: Timestamp,
    pub(super) rules: Vec<RuleReport>,
}

/// A lease that the store granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldLease {
    pub(super) id: LeaseId,
    pub(super) permits: u64,
    pub(super) since: Timestamp,
}

/// What an entry adds to the totals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) bytes: usize,
    pub(super) owing: bool,
    pub(super) grants: u64,
}

impl KeyReport {
    pub(super) fn reset_at(&self) -> Timestamp {
        let longest = self.rules.iter().map(|rule| rule.reset_after).max().unwrap_or_default();
        (self.at + longest).max(self.blocked_until)
    }

    /// Whether some rule has nothing left, so that forgetting the key would hand out a share that is used up.
    pub(super) fn is_exhausted(&self, now: Timestamp) -> bool {
        self.reset_at() > now && (self.blocked_until > now || self.rules.iter().any(|rule| rule.remaining == 0))
    }
}

impl Entry {
    pub(super) fn new(name: &[u8], version: &Arc<Version>) -> Self {
        Self {
            name: name.into(),
            version: Arc::clone(version),
            report: KeyReport::default(),
            held: Vec::new(),
            debt: None,
            last_grant: 0,
            granted_at: Timestamp::EPOCH,
            frozen_up_to: 0,
            charged_up_to: 0,
            size: Size::default(),
            is_queued: false,
        }
    }

    pub(super) fn measure(&self) -> Size {
        let reports =
            self.report.rules.capacity() * size_of::<RuleReport>() + self.held.capacity() * size_of::<HeldLease>();
        let debt = self.debt.as_deref().map_or(0, Debt::bytes);
        let grants = self
            .debt
            .as_deref()
            .map_or(0, |debt| debt.since.grants + debt.frozen.as_ref().map_or(0, |frozen| frozen.granted.grants));
        Size { bytes: ENTRY_BYTES + self.name.len() + reports + debt, owing: self.debt.is_some(), grants }
    }

    /// Calls that began before a local grant look for it here until they have ended.
    pub(super) fn is_needed(&self, now: Timestamp) -> bool {
        self.debt.is_some() || (self.last_grant > 0 && self.granted_at + LONGEST_CALL > now)
    }

    /// The share's state by the store's last report, under these rules.
    pub(super) fn base(&self, version: &Arc<Version>, unknown_key: KeyState, now: Timestamp) -> KeyState {
        let old = &self.version;
        let Some(local) = old.local.as_ref().filter(|_| !self.report.rules.is_empty()) else { return unknown_key };
        let mut subject = local.share.fresh();
        let rules = local.positions.iter().filter_map(|position| old.policy.rules().get(*position));
        let reports = rules.zip(local.share.rules()).zip(&self.report.rules);
        for (state, ((whole, share), report)) in subject.states.iter_mut().zip(reports) {
            *state = rebuild(whole.algorithm(), share.algorithm(), *report, self.report.at);
            if let AnyAlgorithm::Leases(it) = share.algorithm() {
                self.name_holders(state, it.lease());
            }
        }
        if self.report.blocked_until > now {
            subject.block.since = self.report.at.min(now);
            subject.block.until = self.report.blocked_until;
        }
        if Arc::ptr_eq(old, version) {
            return subject;
        }
        migrate_state(&local.share, version.share(), subject, version.carry, now)
    }

    /// Puts the leases of this process in by their ids, so that they can be released here. The other leases stay anonymous.
    fn name_holders(&self, state: &mut State, lease: Span) {
        let State::Leases(leases) = state else { return };
        let known = self.held.iter().map(|held| held.until(lease)).filter(|lease| lease.until > self.report.at);
        let known: Vec<Lease> = known.collect();
        let named: u64 = known.iter().map(|lease| lease.permits).sum();
        let used: u64 = leases.leases().iter().map(|lease| lease.permits).sum();
        let ends = |leases: &[Lease]| leases.iter().map(|lease| lease.until).max();
        if named >= used && ends(&known) < ends(leases.leases()) {
            return; // some of ours were released elsewhere, so what is held is not ours
        }
        let mut all: Vec<Lease> = leases.leases().to_vec();
        for unknown in &mut all {
            unknown.permits = unknown.permits.saturating_sub(named);
        }
        all.retain(|lease| lease.permits > 0);
        all.extend(known);
        all.sort_by_key(|lease| lease.until);
        **leases = LeaseState::restore(leases.last(), all);
    }

    /// Migrates a debt to other rules.
    pub(super) fn migrate_to(&mut self, version: &Arc<Version>, now: Timestamp) {
        if let Some(debt) = &mut self.debt
            && !Arc::ptr_eq(&self.version, version)
        {
            for subject in debt.subjects() {
                let old = std::mem::take(subject);
                *subject = migrate_state(self.version.share(), version.share(), old, version.carry, now);
            }
            self.version = Arc::clone(version);
            self.report = KeyReport::default();
        }
    }
}

impl HeldLease {
    fn until(&self, lease: Span) -> Lease {
        Lease { id: self.id, permits: self.permits, until: self.since + lease }
    }
}

/// A slot, its position in the index, and the headers of the name.
pub(super) const ENTRY_BYTES: usize = size_of::<Option<Entry>>() + 3 * size_of::<usize>() + 2 * size_of::<usize>();
/// Deadlines are milliseconds; a call that has outlived this one has been given up long ago.
const LONGEST_CALL: Span = Span::from_micros(10_000_000);
