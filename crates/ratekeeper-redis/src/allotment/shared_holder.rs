//! A holder that threads share: takes that its permits cover need no lock.
//!
//! ```text
//!   take ─▶ open permits left, before their end? ─ yes ─▶ one compare-and-swap, granted
//!             └ denied, as stated with them?     ─ yes ─▶ denied
//!                 └ lock ─▶ close, settle ─▶ Holder ─▶ open again
//! ```
//!
//! [`Holder`] is the specification, and it is behind a lock. Between two of its events it lends permits to a lock-free
//! counter ([`OpenPermits`]), with the terms of their use. Each access to the holder closes the counter first and settles:
//! the holder learns what was used and asked for since. At the end of the access the counter is opened on new terms.
//!
//! The safety of allotments needs this of a shared holder:
//!
//! - **No use after the end.** A take has read the clock before it reads the counter, and compares with the end that belongs
//!   to its opening. A call, a recall, an end or a doubt about the clock close the counter, and a take of a closed opening
//!   fails. If a take is delayed after it read the clock, it counts for the time at which it was decided: the permit was
//!   there then, or was granted later and had not ended.
//! - **No use is missing from a report.** A call is made by the holder, so the counter was closed and settled. A later use
//!   belongs to a later opening, and to the next report.
//! - **A use is reported for a time not before it.** The clock is read after the counter was closed, and that is the time of
//!   the uses that are settled: later than the true one, by half a turn at most while the timer runs. Being late is safe.
//! - **Nothing is used twice.** Open permits are a part of those that the holder has; it does not use them itself before they
//!   are settled.
//!
//! `ratekeeper-core/tests/loom.rs` explores the interleavings of the counter. The simulation drives this type.
//!
//! The counter is open for keys of one enforced rule; others take the lock.

use std::{
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use parking_lot::{Mutex, MutexGuard};
use ratekeeper_core::{
    Decision, RuleDecision, Source, Span, Timestamp, Verdict,
    store_api::{ClosedPermits, OpenPermits},
};

use super::{
    Denial, Holder, HolderConfig, HolderOpening, LocalTime, RecentUses, Served, StatedRules, holder::latest_store_time,
    recent_uses::RECENT,
};

/// A holder, what the store has stated of its key, and more data under the same lock.
#[derive(Debug)]
pub(crate) struct SharedHolder<T> {
    open: OpenPermits<TERMS, RECENT>,
    /// What threads have counted without the lock; these only rise. Permits of takes beyond one each, denied requests, and
    /// permits of those beyond one each.
    taken_beyond: AtomicU64,
    denied: AtomicU64,
    denied_beyond: AtomicU64,
    locked: Mutex<LockedHolder<T>>,
}

/// The part of a [`SharedHolder`] that is behind the lock.
#[derive(Debug)]
pub(crate) struct LockedHolder<T> {
    pub(crate) holder: Holder,
    pub(crate) config: HolderConfig,
    /// Takes under other generations of the policy need the lock.
    pub(crate) generation: u64,
    pub(crate) rules: StatedRules,
    pub(crate) recent: RecentUses,
    pub(crate) more: T,
    /// Permits of the present opening, and the store's time from which its marks count.
    opened: u64,
    opened_at: Timestamp,
    /// Permits that were taken without the lock, and the denied demand that was settled.
    taken: u64,
    denied: u64,
    /// Requests that were answered under the lock.
    locked_grants: u64,
    locked_denials: u64,
}

/// Exclusive access. The counter is closed; it is opened again when this is dropped.
#[derive(Debug)]
pub(crate) struct HolderGuard<'a, T> {
    shared: &'a SharedHolder<T>,
    locked: MutexGuard<'a, LockedHolder<T>>,
    /// The time of this access. No use that was settled is later.
    pub(crate) now: LocalTime,
}

impl<T> SharedHolder<T> {
    pub(crate) fn new(holder: Holder, config: HolderConfig, generation: u64, more: T) -> Self {
        let locked = LockedHolder {
            holder,
            config,
            generation,
            rules: StatedRules::default(),
            recent: RecentUses::default(),
            more,
            opened: 0,
            opened_at: Timestamp::EPOCH,
            taken: 0,
            denied: 0,
            locked_grants: 0,
            locked_denials: 0,
        };
        Self {
            open: OpenPermits::new(),
            taken_beyond: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            denied_beyond: AtomicU64::new(0),
            locked: Mutex::new(locked),
        }
    }

    /// Answers a take without the lock, if the present opening does. `now` was read before. One that accepts a wait is not
    /// denied.
    #[inline]
    pub(crate) fn take_open(&self, cost: u64, is_patient: bool, generation: u64, now: LocalTime) -> Option<Decision> {
        let open = &self.open;
        let seen = open.look();
        if open.term(GENERATION) != generation || cost == 0 {
            return None;
        }
        let (stated, asked) = (Timestamp::from_micros(open.term(STATED)), LocalTime(open.term(ASKED)));
        let decided_at = latest_store_time(stated, asked, now);
        let (limit, other, reset_at) = (open.term(LIMIT), open.term(REMAINING), LocalTime(open.term(RESET_AT)));
        let reset_after = reset_at.since(now);
        if seen.permits() >= cost {
            if now.0 >= open.term(TAKE_UNTIL) || (cost > 1 && cost > open.term(LARGEST_COST)) {
                return None;
            }
            let mark = if cost == 1 { u32::try_from(decided_at.since(stated).as_micros()).ok() } else { None };
            let left = open.take(seen, cost, mark)?;
            if cost > 1 {
                self.taken_beyond.fetch_add(cost - 1, Relaxed);
            }
            let verdict = Verdict::Allow { wait: Span::ZERO };
            let rule = RuleDecision::new(verdict, limit, (other + left).min(limit), reset_after);
            return Some(Decision::of_one(rule, decided_at).with_source(Source::Allotment));
        }
        let (deny_until, denied_cost) = (open.term(DENY_UNTIL), open.term(DENIED_COST));
        if is_patient || now.0 >= deny_until || cost < denied_cost {
            return None;
        }
        let free_at = LocalTime(open.term(FREE_AT));
        if !open.is_unchanged_since(seen) {
            return None;
        }
        self.denied.fetch_add(1, Relaxed);
        if cost > 1 {
            self.denied_beyond.fetch_add(cost - 1, Relaxed);
        }
        let verdict = Verdict::Deny { retry_after: free_at.since(now).max(Span::MICROSECOND) };
        let remaining = (other + seen.permits()).min(limit).min(denied_cost - 1);
        let rule = RuleDecision::new(verdict, limit, remaining, reset_after);
        Some(Decision::of_one(rule, decided_at).with_source(Source::CachedDenial))
    }

    /// Locks the holder. `clock` is read after the counter was closed.
    pub(crate) fn lock(&self, clock: impl FnOnce() -> LocalTime) -> HolderGuard<'_, T> {
        self.lock_after(LocalTime(0), clock)
    }

    /// [`lock`](Self::lock) by a thread that has read the clock just now. It is read again only if uses are to be settled.
    pub(crate) fn lock_after(&self, now: LocalTime, clock: impl FnOnce() -> LocalTime) -> HolderGuard<'_, T> {
        let mut locked = self.locked.lock();
        let closed = self.open.close();
        let now = if closed.is_some() || now == LocalTime(0) { clock() } else { now };
        locked.settle(closed, self.denied.load(Relaxed) + self.denied_beyond.load(Relaxed), now);
        HolderGuard { shared: self, locked, now }
    }
}

impl<T> LockedHolder<T> {
    /// What threads have taken and asked for since the counter was opened.
    fn settle(&mut self, closed: Option<ClosedPermits<RECENT>>, denied: u64, now: LocalTime) {
        let used = closed.map_or(0, |closed| self.opened - closed.left);
        for mark in closed.iter().flat_map(|closed| closed.marks).flatten() {
            self.recent.add(self.opened_at + Span::from_micros(u64::from(mark)), 1);
        }
        self.taken += used;
        self.opened = 0;
        let asked = denied.saturating_sub(self.denied);
        self.denied = denied;
        self.holder.note_uses(used, asked, now);
    }

    /// The terms on which the counter is opened; `None` if it stays closed.
    fn terms(&self, now: LocalTime) -> Option<(HolderOpening, [u64; TERMS])> {
        let rule = self.rules.single()?;
        let opening = self.holder.opening(now, &self.config)?;
        let never = Denial { cost: u64::MAX, until: LocalTime(0), free_at: LocalTime(0) };
        let denial = opening.denial.unwrap_or(never);
        let mut terms = [0; TERMS];
        terms[GENERATION] = self.generation;
        terms[TAKE_UNTIL] = opening.take_until.0;
        terms[STATED] = opening.stated.as_micros();
        terms[ASKED] = opening.asked.0;
        terms[LIMIT] = rule.limit;
        terms[REMAINING] = rule.remaining + (self.holder.held() - opening.permits);
        terms[RESET_AT] = rule.reset_at.0;
        terms[LARGEST_COST] = self.config.largest_cost;
        terms[DENY_UNTIL] = denial.until.0;
        terms[DENIED_COST] = denial.cost;
        terms[FREE_AT] = denial.free_at.0;
        Some((opening, terms))
    }
}

/// Answers
impl<T> HolderGuard<'_, T> {
    /// A take, as [`Holder::take`] answers it.
    pub(crate) fn take(&mut self, cost: u64) -> Served {
        let (now, config) = (self.now, self.config);
        self.holder.take(cost, now, &config)
    }

    /// A take whose demand was counted before, as [`Holder::serve`] answers it.
    pub(crate) fn serve(&mut self, cost: u64) -> Served {
        let (now, config) = (self.now, self.config);
        self.holder.serve(cost, now, &config)
    }

    /// The decision of a grant.
    pub(crate) fn granted(&mut self, cost: u64) -> Decision {
        self.locked.locked_grants += 1;
        let decision = self.status();
        self.recent.add(decision.decided_at, cost);
        decision
    }

    /// The decision of a repeated denial.
    pub(crate) fn denied(&mut self, denial: &Denial) -> Decision {
        self.locked.locked_denials += 1;
        let at = self.holder.latest_store_time(self.now);
        self.rules.denied(denial, self.holder.held(), self.now, at)
    }

    /// The state of the key as a peek would report it, from what the store has stated last.
    pub(crate) fn status(&self) -> Decision {
        self.rules.allowed(self.holder.held(), self.now, self.holder.latest_store_time(self.now))
    }

    /// Notes what the store has stated of the rules.
    pub(crate) fn note(&mut self, status: &Decision) {
        let now = self.now;
        self.rules.note(status, now);
    }

    /// Returns the permits of a use that no call has reported yet; `false` if the store has to be asked.
    pub(crate) fn give_back(&mut self, cost: u64, at: Timestamp) -> bool {
        let now = self.now;
        if self.recent.remove(at, cost) {
            return self.holder.give_back(cost, now);
        }
        self.holder.clear_denial();
        false
    }

    /// Requests that were granted and denied here, with and without the lock.
    pub(crate) fn answered(&self) -> (u64, u64) {
        let shared = self.shared;
        let granted = self.taken.saturating_sub(shared.taken_beyond.load(Relaxed));
        (granted + self.locked_grants, shared.denied.load(Relaxed) + self.locked_denials)
    }
}

impl<T> Deref for HolderGuard<'_, T> {
    type Target = LockedHolder<T>;

    fn deref(&self) -> &LockedHolder<T> {
        &self.locked
    }
}

impl<T> DerefMut for HolderGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut LockedHolder<T> {
        &mut self.locked
    }
}

impl<T> Drop for HolderGuard<'_, T> {
    fn drop(&mut self) {
        if let Some((opening, terms)) = self.locked.terms(self.now) {
            self.locked.opened_at = opening.stated;
            self.locked.opened = self.shared.open.open(opening.permits, terms);
        }
    }
}

// Terms of an opening. The first seven share a cache line with the counter.
/// The policy's generation.
const GENERATION: usize = 0;
/// Permits are taken before this.
const TAKE_UNTIL: usize = 1;
/// A store time, and the local time at which the call that returned it was made.
const STATED: usize = 2;
const ASKED: usize = 3;
/// The numbers of the rule. What remains is without the open permits.
const LIMIT: usize = 4;
const REMAINING: usize = 5;
const RESET_AT: usize = 6;
/// A larger cost needs the lock.
const LARGEST_COST: usize = 7;
/// Takes of at least this cost are denied before that time, if the open permits do not cover them.
const DENY_UNTIL: usize = 8;
const DENIED_COST: usize = 9;
const FREE_AT: usize = 10;
const TERMS: usize = 11;

#[cfg(test)]
mod tests;
