//! One prepaid key, with its holder.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use ratekeeper_core::{
    Decision, Span, Verdict,
    store_api::{AllotmentCall, AllotmentReply},
};

use super::{Here, PrepaidCounts};
use crate::{
    allotment::{Action, Holder, HolderConfig, HolderGuard, LocalClock, LocalTime, RecentUses, Served, SharedHolder},
    policies::{RedisPolicy, Version},
};

/// A prepaid key with its holder.
#[derive(Debug)]
pub(crate) struct PrepaidKey {
    /// The policy's id, and the key's text.
    policy: u64,
    key: Box<str>,
    /// The key's name on the server.
    pub(super) name: Arc<[u8]>,
    pub(super) holder: SharedHolder<KeyState>,
}

/// More of a key, under the lock of its holder.
#[derive(Debug)]
pub(crate) struct KeyState {
    version: Arc<Version>,
    /// The next call returns everything.
    returns_all: bool,
    /// Whether the timer knows it.
    pub(crate) is_timed: bool,
    is_evicted: bool,
}

/// Exclusive access to a key that was not evicted.
pub(crate) struct LockedKey<'a> {
    key: &'a PrepaidKey,
    guard: HolderGuard<'a, KeyState>,
}

impl PrepaidKey {
    pub(super) fn new(
        policy: u64,
        key: &str,
        name: &[u8],
        version: &Arc<Version>,
        config: HolderConfig,
        cost: u64,
    ) -> Self {
        let now = LocalClock::now();
        let mut holder = Holder::new(fastrand::u64(..), now);
        holder.note_demand(cost, now, &config);
        let state = KeyState { version: Arc::clone(version), returns_all: false, is_timed: false, is_evicted: false };
        // The generation is not known together with the version; the next take reads both.
        Self { policy, key: key.into(), name: name.into(), holder: SharedHolder::new(holder, config, u64::MAX, state) }
    }

    #[inline]
    pub(super) fn is(&self, policy: u64, key: &str) -> bool {
        self.policy == policy && *self.key == *key
    }

    /// Answers a take; `None` if the key was evicted.
    pub(super) fn take(&self, policy: &RedisPolicy, cost: u64, is_patient: bool, now: LocalTime) -> Option<Here> {
        let guard = self.holder.lock_after(now, LocalClock::now);
        let mut locked = self.unless_evicted(guard)?;
        let generation = policy.generation();
        if locked.guard.generation != generation && !locked.change_rules(policy, generation) {
            return Some(Here::Ask);
        }
        let served = locked.guard.take(cost);
        Some(locked.answer(served, is_patient, cost))
    }

    /// `None` if the key was evicted.
    pub(super) fn lock(&self, clock: impl FnOnce() -> LocalTime) -> Option<LockedKey<'_>> {
        self.unless_evicted(self.holder.lock(clock))
    }

    fn unless_evicted<'a>(&'a self, guard: HolderGuard<'a, KeyState>) -> Option<LockedKey<'a>> {
        (!guard.more.is_evicted).then_some(LockedKey { key: self, guard })
    }

    /// Its last request, if it can be evicted: it holds nothing, has nothing to report, and no call is in flight.
    pub(super) fn idle_since(&self) -> Option<LocalTime> {
        let key = self.lock(LocalClock::now)?;
        key.is_idle().then(|| key.guard.holder.last_demand())
    }

    /// The key answers no more. Returns what it has counted; `None` if it is not idle any more.
    pub(super) fn evict(&self) -> Option<PrepaidCounts> {
        let mut key = self.lock(LocalClock::now)?;
        if !key.is_idle() {
            return None;
        }
        key.guard.holder.forget();
        key.guard.more.is_evicted = true;
        Some(key.counts())
    }

    /// `None` if it was evicted.
    pub(super) fn counts(&self) -> Option<PrepaidCounts> {
        self.lock(LocalClock::now).map(|key| key.counts())
    }
}

impl LockedKey<'_> {
    /// The rules have changed. What is held stays valid, because the store keeps it. `false` if the policy is not prepaid
    /// any more.
    #[cold]
    fn change_rules(&mut self, policy: &RedisPolicy, generation: u64) -> bool {
        // Read after the generation, so these are the rules of that generation or later ones.
        let version = policy.current();
        let name = &self.key.name;
        let Some(config) = version.prepaid.filter(|_| *version.keys.name(&self.key.key) == **name) else {
            return false;
        };
        if !Arc::ptr_eq(&self.guard.more.version, &version) {
            self.guard.holder.clear_denial();
        }
        (self.guard.more.version, self.guard.config, self.guard.generation) = (version, config, generation);
        true
    }

    pub(crate) fn version(&self) -> &Arc<Version> {
        &self.guard.more.version
    }

    /// Answers a request that has waited for the end of a call.
    pub(crate) fn serve(&mut self, cost: u64, is_patient: bool) -> Here {
        let served = self.guard.serve(cost);
        self.answer(served, is_patient, cost)
    }

    fn answer(&mut self, served: Served, is_patient: bool, cost: u64) -> Here {
        match served {
            Served::Granted { refill } => {
                let decision = self.guard.granted(cost);
                Here::Decided { decision, refill: refill.then(|| Arc::clone(&self.key.name)) }
            }
            Served::Denied(denial) if !is_patient => {
                Here::Decided { decision: self.guard.denied(&denial), refill: None }
            }
            Served::Denied(_) | Served::Ask => Here::Ask,
        }
    }

    /// The next call, if the holder takes part in the protocol; `largest` as in [`Holder::call`].
    pub(crate) fn call(&mut self, largest: u64) -> Option<AllotmentCall> {
        let (config, now) = (self.guard.config, self.guard.now);
        let returns_all = self.guard.more.returns_all;
        if self.guard.holder.is_waiting() || !(returns_all || self.guard.holder.takes_part()) {
            return None;
        }
        self.guard.recent = RecentUses::default();
        self.guard.more.returns_all = false;
        Some(self.guard.holder.call(largest, returns_all, now, &config))
    }

    /// The reply to a call. Grants that raced with local ones are not used.
    pub(crate) fn reply(&mut self, seq: u64, reply: &AllotmentReply, refused: Option<u64>, is_sound: bool) {
        let (config, now) = (self.guard.config, self.guard.now);
        self.guard.holder.reply(seq, reply, refused, now, &config);
        if !is_sound {
            self.guard.holder.forget();
        }
        self.guard.note(&reply.status);
    }

    /// A denial of the store by a call outside the protocol.
    pub(crate) fn denied_by_store(&mut self, decision: &Decision, cost: u64, asked: LocalTime) {
        if let Verdict::Deny { retry_after } = decision.verdict {
            let (config, now) = (self.guard.config, self.guard.now);
            self.guard.holder.denied(cost, retry_after, asked, now, &config);
            self.guard.note(decision);
        }
    }

    pub(crate) fn failed(&mut self, seq: u64) {
        self.guard.holder.failed(seq);
    }

    pub(crate) fn tick(&mut self) -> Action {
        let (config, now) = (self.guard.config, self.guard.now);
        let action = self.guard.holder.tick(now, &config);
        self.guard.more.returns_all |= action == Action::Return;
        action
    }

    /// Nothing held is used any more, and the next call returns it.
    pub(crate) fn return_all(&mut self) {
        self.guard.holder.recall();
        self.guard.more.returns_all = true;
    }

    /// Drops all permits: the clock cannot be trusted.
    pub(crate) fn forget(&mut self) {
        self.guard.holder.forget();
    }

    pub(crate) fn clear_denial(&mut self) {
        self.guard.holder.clear_denial();
    }

    pub(crate) fn holds(&self) -> bool {
        self.guard.holder.held() > 0
    }

    pub(crate) fn turn(&self) -> Span {
        self.guard.config.turn
    }

    fn is_idle(&self) -> bool {
        !self.guard.more.is_timed && !self.guard.holder.is_waiting()
    }

    fn counts(&self) -> PrepaidCounts {
        let (holder, (requests, denials)) = (&self.guard.holder, self.guard.answered());
        let held = holder.held();
        PrepaidCounts { requests, denials, held, holders: u64::from(held > 0), permits: holder.counts() }
    }
}

impl<'a> Deref for LockedKey<'a> {
    type Target = HolderGuard<'a, KeyState>;

    fn deref(&self) -> &Self::Target {
        &self.guard
    }
}

impl DerefMut for LockedKey<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.guard
    }
}
