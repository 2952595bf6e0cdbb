//! Policy versions: registration by name, and the chain that leads from each version to the one that replaced it.
//!
//! ```text
//! by name ─weak─▶ PolicyHead ──▶ newest VersionNode
//! handle ──▶ PolicyHead, Version
//! keys of a shard ──▶ PolicyHead, VersionNode ─next─▶ VersionNode ─next─▶ newest
//! ```
//!
//! Lifetimes are reference counts. A policy lives while a handle or a key refers to it. A superseded version lives while
//! keys are stored under it or under an older one, because its rules are a step of their migration. A handle of a
//! superseded version keeps its rules only, not the chain.
//!
//! A key is migrated through every version it has missed, or in one step if it has missed more than [`STEPWISE`]: by the
//! newest version's [`OnQuotaChange`], or as `Fresh` if any of the missed versions was.
//!
//! Serial numbers and policy ids are never reused, so a stale number never refers to another version.
//!
//! Bound: [`Policies::MOST`] versions at a time. Installation is one map lookup and touches no shard.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use ratekeeper_core::{
    OnQuotaChange, Policy, Timestamp,
    store_api::{KeyState, migrate_state},
};

use crate::version_tag::{Serial, VersionTag};

/// Identity of a policy by domain and name, for all its versions.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct PolicyId(pub(crate) u64);

/// One version of a policy: its rules, and how keys are migrated to it.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) serial: Serial,
    pub(crate) policy: Policy,
    /// A variant is selected by its handle and neither replaces a version nor is replaced.
    is_variant: bool,
    /// Number of earlier versions of the policy.
    sequence: u64,
    /// How keys of the previous version are migrated to this one.
    on_change: OnQuotaChange,
    /// `sequence` of the latest version up to this one that discarded state ([`OnQuotaChange::Fresh`]).
    afresh: u64,
    /// Tag of its keys in hot slots; [`VersionTag::NONE`] once it is superseded.
    tag: AtomicU64,
}

impl Version {
    /// The tag of this version's keys in hot slots.
    #[inline(always)]
    pub(crate) fn tag(&self) -> VersionTag {
        VersionTag::from_word(self.tag.load(Ordering::Acquire))
    }

    /// Whether no newer version has replaced it.
    #[inline(always)]
    pub(crate) fn is_current(&self) -> bool {
        self.tag.load(Ordering::Acquire) != VersionTag::NONE
    }
}

/// A version that keys are stored under, with the link to its successor.
#[derive(Debug)]
pub(crate) struct VersionNode {
    pub(crate) version: Arc<Version>,
    next: OnceLock<Arc<Self>>,
    counts: Arc<Counts>,
}

impl VersionNode {
    /// Migrates a key's state from this version to another of the same policy: through every version in between, or in
    /// one step if either is a variant.
    pub(crate) fn migrate(&self, to: &Self, key_state: KeyState, now: Timestamp) -> KeyState {
        if self.version.serial == to.version.serial {
            return key_state;
        }
        if self.version.is_variant || to.version.is_variant {
            return migrate_state(
                &self.version.policy,
                &to.version.policy,
                key_state,
                OnQuotaChange::KeepResetTime,
                now,
            );
        }
        let missed = self.missed(to);
        if missed > STEPWISE {
            let Version { policy, on_change, afresh, .. } = &*to.version;
            let on_change = if *afresh > self.version.sequence { OnQuotaChange::Fresh } else { *on_change };
            return migrate_state(&self.version.policy, policy, key_state, on_change, now);
        }
        let (mut node, mut key_state) = (self, key_state);
        while node.version.serial != to.version.serial
            && let Some(newer) = node.next.get()
        {
            key_state =
                migrate_state(&node.version.policy, &newer.version.policy, key_state, newer.version.on_change, now);
            node = newer;
        }
        key_state
    }

    /// Versions between this one and the target.
    fn missed(&self, to: &Self) -> u64 {
        to.version.sequence.saturating_sub(self.version.sequence)
    }

    /// Steps of migrating one key.
    pub(crate) fn steps(&self, to: &Self) -> usize {
        usize::try_from(self.missed(to).min(STEPWISE)).unwrap_or(0)
    }
}

impl Drop for VersionNode {
    fn drop(&mut self) {
        self.counts.versions.fetch_sub(1, Ordering::Relaxed);
        if !self.version.is_current() {
            self.counts.superseded.fetch_sub(1, Ordering::Relaxed);
        }
        // Iteratively: recursive drops of a long chain would overflow the stack.
        let mut next = self.next.take();
        while let Some(node) = next {
            next = Arc::into_inner(node).and_then(|mut node| node.next.take());
        }
    }
}

/// A policy and its newest version.
#[derive(Debug)]
pub(crate) struct PolicyHead {
    pub(crate) id: PolicyId,
    newest: RwLock<Arc<VersionNode>>,
}

impl PolicyHead {
    pub(crate) fn newest(&self) -> Arc<VersionNode> {
        Arc::clone(&self.newest.read())
    }

    /// Publishes the successor before the old version stops being current, so that a thread that finds it superseded
    /// also finds the successor.
    fn replace(&self, node: Arc<VersionNode>) {
        let mut newest = self.newest.write();
        let old = std::mem::replace(&mut *newest, Arc::clone(&node));
        if !old.version.is_variant {
            old.counts.superseded.fetch_add(1, Ordering::Relaxed);
            let _ = old.next.set(node);
            old.version.tag.store(VersionTag::NONE, Ordering::Release);
        }
    }
}

/// A reference to an installed policy.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) id: PolicyId,
    /// The version at installation. Hot keys are decided under it while it is current; afterwards the shards decide
    /// under the newest.
    pub(crate) version: Arc<Version>,
    pub(crate) head: Arc<PolicyHead>,
    /// The version to decide under, if it is a variant.
    pub(crate) variant: Option<Arc<VersionNode>>,
}

impl Handle {
    /// The version a request is decided under. The caller holds the lock of the key's shard.
    pub(crate) fn target(&self) -> Arc<VersionNode> {
        self.variant.as_ref().map_or_else(|| self.head.newest(), Arc::clone)
    }
}

/// The policies of a store, by name.
#[derive(Debug)]
pub(crate) struct Policies {
    names: Mutex<Names>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Names {
    heads: HashMap<String, Weak<PolicyHead>>,
    /// Number of names at which those without a policy are removed.
    clear_at: usize,
    last_policy: u64,
    last_version: u64,
}

/// Position of a new version among those of its policy.
enum Lineage<'a> {
    First,
    Variant,
    After(&'a Version, OnQuotaChange),
}

/// Numbers of live versions.
#[derive(Debug, Default)]
struct Counts {
    versions: AtomicUsize,
    superseded: AtomicUsize,
}

impl Policies {
    /// The most live versions: policies, and superseded versions with keys. They would take about ten gigabytes, so memory
    /// is the bound in practice.
    pub(crate) const MOST: usize = 1 << 24;

    pub(crate) fn new() -> Self {
        Self { names: Mutex::default(), counts: Arc::default() }
    }

    /// Live versions.
    pub(crate) fn versions(&self) -> usize {
        self.counts.versions.load(Ordering::Relaxed)
    }

    /// Live versions that are superseded.
    pub(crate) fn superseded(&self) -> usize {
        self.counts.superseded.load(Ordering::Relaxed)
    }

    /// Makes this the newest version of its policy. Equal rules keep the present version, because migration would change
    /// nothing. `None` if there are too many versions.
    pub(crate) fn install(&self, policy: Policy, on_change: OnQuotaChange) -> Option<Handle> {
        let mut names = self.names.lock();
        let known = names.find(&policy).map(|head| (Arc::clone(&head.newest().version), head));
        let (version, head) = match known {
            Some((version, head)) if !version.is_variant && version.policy.rules() == policy.rules() => (version, head),
            Some((old, head)) => {
                let node = self.node(&mut names, policy, Lineage::After(&old, on_change))?;
                let version = Arc::clone(&node.version);
                head.replace(node);
                (version, head)
            }
            None => {
                let node = self.node(&mut names, policy, Lineage::First)?;
                (Arc::clone(&node.version), names.add(node))
            }
        };
        Some(Handle { id: head.id, version, head, variant: None })
    }

    /// Adds a variant, which replaces no version and is not replaced. `None` if there are too many versions.
    pub(crate) fn install_variant(&self, policy: Policy) -> Option<Handle> {
        let mut names = self.names.lock();
        let known = names.find(&policy);
        let node = self.node(&mut names, policy, Lineage::Variant)?;
        let head = known.unwrap_or_else(|| names.add(Arc::clone(&node)));
        Some(Handle { id: head.id, version: Arc::clone(&node.version), head, variant: Some(node) })
    }

    fn node(&self, names: &mut Names, policy: Policy, place: Lineage<'_>) -> Option<Arc<VersionNode>> {
        if self.versions() >= Self::MOST {
            return None;
        }
        names.last_version += 1;
        let serial = Serial(names.last_version);
        self.counts.versions.fetch_add(1, Ordering::Relaxed);
        let tag = AtomicU64::new(VersionTag::new(serial).word());
        let (is_variant, sequence, on_change, afresh) = match place {
            Lineage::First => (false, 0, OnQuotaChange::Keep, 0),
            Lineage::Variant => (true, 0, OnQuotaChange::KeepResetTime, 0),
            Lineage::After(old, on_change) => {
                let sequence = old.sequence + 1;
                (false, sequence, on_change, if on_change == OnQuotaChange::Fresh { sequence } else { old.afresh })
            }
        };
        let version = Arc::new(Version { serial, policy, is_variant, sequence, on_change, afresh, tag });
        Some(Arc::new(VersionNode { version, next: OnceLock::new(), counts: Arc::clone(&self.counts) }))
    }
}

impl Names {
    fn find(&self, policy: &Policy) -> Option<Arc<PolicyHead>> {
        self.heads.get(&full_name(policy)).and_then(Weak::upgrade)
    }

    fn add(&mut self, node: Arc<VersionNode>) -> Arc<PolicyHead> {
        if self.heads.len() >= self.clear_at {
            self.heads.retain(|_, head| head.strong_count() > 0);
            self.clear_at = (2 * self.heads.len()).max(FEWEST_NAMES);
        }
        self.last_policy += 1;
        let name = full_name(&node.version.policy);
        let head = Arc::new(PolicyHead { id: PolicyId(self.last_policy), newest: RwLock::new(node) });
        self.heads.insert(name, Arc::downgrade(&head));
        head
    }
}

/// Names have no control characters, so the separator is unambiguous.
fn full_name(policy: &Policy) -> String {
    format!("{}\0{}", policy.domain(), policy.name())
}

/// The most missed versions that a key is migrated through one by one.
const STEPWISE: u64 = 32;
/// Fewer names are not searched for dead ones.
const FEWEST_NAMES: usize = 1_024;
