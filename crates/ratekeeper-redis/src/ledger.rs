//! The local share of every limit, and the local grants that the store has not been charged for.
//!
//! While the store decides, the ledger only notes its last report on each key ([`observe`]). When the store cannot decide,
//! a key's share starts from that report ([`rebuild`]), and every local grant becomes a [`debt`] ([`share`]). Once the store
//! answers again, a key with a debt is charged before anything else about it is decided there ([`charges`]). The ledger has
//! no socket and no clock: calls come in with their time, and what is to be sent comes out.
//!
//! ```text
//!   observe(report) ─▶ entry ─▶ take() ─▶ debt ─▶ due() ─▶ StoreCharge ─▶ store ─▶ charged(report)
//!                        ▲ the share starts        frozen under an id            │
//!                        └────────────────── the next report ◀──────────────────┘
//! ```
//!
//! What holds, per key, while the store keeps its state:
//! - One process: the store's grants and local ones together stay within the rule's bound.
//! - A call that was in flight while the key was granted permits locally is decided locally again, so that both
//!   sides never spend the same permit. [`observe`](Ledger::observe) finds those; what the store granted counts as spent.
//! - A second outage before the charge continues the same debt: no second share.
//! - Every charge has an id, and an id charges once.
//! - After a failed attempt a key waits before the next one: 25 ms, doubling up to 400 ms.
//!
//! Bound: entries and debts stay within a byte budget; see [`shard`].

#[cfg(test)]
mod book;
mod charges;
mod debt;
mod entry;
mod observe;
mod rebuild;
mod shard;
mod share;
#[cfg(test)]
mod simulation;

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use ratekeeper_core::{LeaseId, Policy, RuleDecision, Span, Timestamp, Verb};

use self::shard::{Shard, TotalsChange};
use crate::{local_rules::LocalRules, policies::Version};

pub(crate) use self::debt::Bill;
#[cfg(test)]
pub(crate) use self::{book::book, debt::Owed};

/// Shares and debts of all keys.
#[derive(Debug)]
pub(crate) struct Ledger {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    /// How much of a share is free for a key while the store has never answered.
    start: InitialShare,
    store_reached: AtomicBool,
    sequence: AtomicU64,
    grants: AtomicU64,
    owing_keys: AtomicI64,
    owing_grants: AtomicI64,
}

/// The state of shares before the store has been reached for the first time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitialShare {
    /// When this process began.
    pub(crate) at: Timestamp,
    /// Thousandths of a share that are free then.
    pub(crate) free_permille: u32,
}

/// One key of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestKey<'a> {
    pub(crate) version: &'a Arc<Version>,
    /// The key's name on the server.
    pub(crate) name: &'a [u8],
    /// As in [`Ask::cost`](ratekeeper_core::Ask::cost).
    pub(crate) cost: u64,
}

/// Local grants so far, when a call began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantMark(u64);

/// What the store decided about a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreReport<'a> {
    pub(crate) verb: &'a Verb,
    /// Of this key's rules, in the policy's order.
    pub(crate) rules: &'a [RuleDecision],
    pub(crate) at: Timestamp,
    pub(crate) blocked_until: Timestamp,
    pub(crate) is_allowed: bool,
    pub(crate) wait: Span,
    pub(crate) lease: Option<LeaseId>,
}

/// A key's grants to be charged, under an id.
#[derive(Clone, Debug)]
pub(crate) struct StoreCharge {
    pub(crate) sequence: u64,
    pub(crate) bill: Bill,
}

/// What is to be done about a key's debt before the store decides about the key.
#[derive(Clone, Debug)]
pub(crate) enum Due {
    /// Nothing is owed.
    Nothing,
    /// An attempt has failed, and the next one is not due yet.
    Later,
    Charge(StoreCharge),
}

/// The budget has no room to note a grant, so none is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NoRoom;

impl Ledger {
    pub(crate) fn new(bytes: usize, start: InitialShare) -> Self {
        let shards = (bytes / SHARD_BYTES).clamp(1, MOST_SHARDS);
        Self {
            shards: (0..shards).map(|_| Mutex::new(Shard::new(bytes / shards))).collect(),
            hasher: RandomState::new(),
            start,
            store_reached: AtomicBool::new(false),
            sequence: AtomicU64::new(0),
            grants: AtomicU64::new(0),
            owing_keys: AtomicI64::new(0),
            owing_grants: AtomicI64::new(0),
        }
    }

    /// The store has answered, if only a greeting.
    pub(crate) fn note_store_reached(&self) {
        if !self.store_reached.load(Relaxed) {
            self.store_reached.store(true, Relaxed);
        }
    }

    /// Whether the store has ever answered.
    pub(crate) fn store_reached(&self) -> bool {
        self.store_reached.load(Relaxed)
    }

    /// To be taken before a call to the store begins.
    pub(crate) fn mark(&self) -> GrantMark {
        GrantMark(self.grants.load(Relaxed))
    }

    /// Keys with uncharged grants, and how many grants those are.
    pub(crate) fn owing(&self) -> (u64, u64) {
        let total = |count: &AtomicI64| u64::try_from(count.load(Relaxed)).unwrap_or(0);
        (total(&self.owing_keys), total(&self.owing_grants))
    }

    fn shard(&self, name: &[u8]) -> &Mutex<Shard> {
        &self.shards[self.shard_index(name)]
    }

    fn shard_index(&self, name: &[u8]) -> usize {
        #[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
        let hash = self.hasher.hash_one(name) as usize;
        hash % self.shards.len()
    }

    fn sum(&self, change: TotalsChange) {
        if change.keys != 0 {
            self.owing_keys.fetch_add(change.keys, Relaxed);
        }
        if change.grants != 0 {
            self.owing_grants.fetch_add(change.grants, Relaxed);
        }
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes()).sum()
    }
}

impl RequestKey<'_> {
    fn share(&self) -> &Policy {
        self.version.share()
    }
}

impl Version {
    fn share(&self) -> &Policy {
        self.local.as_ref().map_or(&self.policy, |local: &LocalRules| &local.share)
    }
}

/// Keys are spread over so many locks at most, of so many bytes each at least.
const MOST_SHARDS: usize = 64;
const SHARD_BYTES: usize = 64 << 10;
