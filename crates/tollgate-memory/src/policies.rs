//! Policy versions: registration by name, and the chain that leads from each version to the one that replaced it.
//!
//! ```text
//! by name ─weak─▶ PolicyHead ──▶ newest VersionNode
//! handle ──▶ PolicyHead, Version
//! keys of a shard ──▶ PolicyHead, VersionNode ─next─▶ VersionNode ─next─▶ newest
//! ```
//!
//! Everything is reference counted, and nothing else keeps it. A policy lives while a handle or a key refers to it. A
//! superseded version lives while keys are counted under it or under an older one, because its rules are a step of
//! their migration. A handle of a superseded version keeps its rules only, not the chain.
//!
//! A key is migrated through every version it has missed, or in one step if it has missed more than
//! [`STEPWISE`]: as the newest version says, or afresh if any of the missed ones said so.
//!
//! Serial numbers and policy ids are never used twice. So nothing that a thread remembers of a version can be mistaken
//! for another version, however long the thread sleeps.
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
use tollgate_core::{Carry, Micros, Policy, Subject, carry_over};

use crate::hot::Tag;

/// A policy by domain and name, whatever its version.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct PolicyId(pub(crate) u64);

/// A version of a policy, among all there ever were in this store.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Serial(pub(crate) u64);

/// One set of rules of a policy.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) serial: Serial,
    pub(crate) policy: Policy,
    /// One of several versions that are asked for by handle and do not replace each other.
    is_alternative: bool,
    /// How many versions of the policy came before it.
    sequence: u64,
    /// How keys of the version before it are migrated to it.
    carry: Carry,
    /// The last version up to this one that everything started afresh with, by its `sequence`.
    afresh: u64,
    /// What hot slots know it by; one that no slot has, once it is superseded.
    tag: AtomicU64,
}

impl Version {
    /// The tag by which a decision finds a key of this version in a hot slot.
    #[inline(always)]
    pub(crate) fn tag(&self) -> Tag {
        Tag::from_word(self.tag.load(Ordering::Acquire))
    }

    /// Whether no other version has replaced it.
    #[inline(always)]
    pub(crate) fn is_current(&self) -> bool {
        self.tag.load(Ordering::Acquire) != Tag::NONE
    }
}

/// A version that keys are counted under, with the way to its successor.
#[derive(Debug)]
pub(crate) struct VersionNode {
    pub(crate) version: Arc<Version>,
    next: OnceLock<Arc<Self>>,
    counts: Arc<Counts>,
}

impl VersionNode {
    /// Migrates a key's state from this version to another of the same policy: through every version in between, or
    /// at once where one of the two is an alternative.
    pub(crate) fn migrate(&self, to: &Self, subject: Subject, now: Micros) -> Subject {
        if self.version.serial == to.version.serial {
            return subject;
        }
        if self.version.is_alternative || to.version.is_alternative {
            return carry_over(&self.version.policy, &to.version.policy, subject, Carry::Moment, now);
        }
        let missed = self.missed(to);
        if missed > STEPWISE {
            let Version { policy, carry, afresh, .. } = &*to.version;
            let carry = if *afresh > self.version.sequence { Carry::Fresh } else { *carry };
            return carry_over(&self.version.policy, policy, subject, carry, now);
        }
        let (mut node, mut subject) = (self, subject);
        while node.version.serial != to.version.serial
            && let Some(newer) = node.next.get()
        {
            subject = carry_over(&node.version.policy, &newer.version.policy, subject, newer.version.carry, now);
            node = newer;
        }
        subject
    }

    /// How many changes a key of this version has missed that is to be counted under the other.
    fn missed(&self, to: &Self) -> u64 {
        to.version.sequence.saturating_sub(self.version.sequence)
    }

    /// Steps that it takes to migrate a key.
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
        // Link by link: a chain that drops itself would need a stack as deep as it is long.
        let mut next = self.next.take();
        while let Some(node) = next {
            next = Arc::into_inner(node).and_then(|mut node| node.next.take());
        }
    }
}

/// A policy by name, and its newest version.
#[derive(Debug)]
pub(crate) struct PolicyHead {
    pub(crate) id: PolicyId,
    newest: RwLock<Arc<VersionNode>>,
}

impl PolicyHead {
    pub(crate) fn newest(&self) -> Arc<VersionNode> {
        Arc::clone(&self.newest.read())
    }

    /// Publishes the successor before the old version stops being current, so that a thread that finds it superseded finds
    /// the successor as well.
    fn replace(&self, node: Arc<VersionNode>) {
        let mut newest = self.newest.write();
        let old = std::mem::replace(&mut *newest, Arc::clone(&node));
        if !old.version.is_alternative {
            old.counts.superseded.fetch_add(1, Ordering::Relaxed);
            let _ = old.next.set(node);
            old.version.tag.store(Tag::NONE, Ordering::Release);
        }
    }
}

/// What an installed policy is known by.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) id: PolicyId,
    /// The version it was returned for. Hot keys are decided under it while it is current; after that the shards
    /// decide under the newest.
    pub(crate) version: Arc<Version>,
    pub(crate) head: Arc<PolicyHead>,
    /// The version that is always meant, if it is one of several alternatives.
    pub(crate) alternative: Option<Arc<VersionNode>>,
}

impl Handle {
    /// The version a request is decided under. The caller holds the lock of the key's shard.
    pub(crate) fn meant(&self) -> Arc<VersionNode> {
        self.alternative.as_ref().map_or_else(|| self.head.newest(), Arc::clone)
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
    /// At how many names those without a policy are cleared away.
    clear_at: usize,
    last_policy: u64,
    last_version: u64,
}

/// Where a version stands among those of its name.
enum Place<'a> {
    First,
    Alternative,
    After(&'a Version, Carry),
}

/// How many versions there are.
#[derive(Debug, Default)]
struct Counts {
    versions: AtomicUsize,
    superseded: AtomicUsize,
}

impl Policies {
    /// The most versions that may be kept at a time: policies, and superseded versions with keys under them. It takes
    /// some ten gigabytes to hold as many, so memory is the bound in practice.
    pub(crate) const MOST: usize = 1 << 24;

    pub(crate) fn new() -> Self {
        Self { names: Mutex::default(), counts: Arc::default() }
    }

    /// Versions kept at present.
    pub(crate) fn versions(&self) -> usize {
        self.counts.versions.load(Ordering::Relaxed)
    }

    /// How many of them are superseded.
    pub(crate) fn superseded(&self) -> usize {
        self.counts.superseded.load(Ordering::Relaxed)
    }

    /// The newest version of a policy from now on. One with the same rules stays as it is: migrating a key to the rules
    /// it is counted under changes nothing. `None` if there are too many versions.
    pub(crate) fn install(&self, policy: Policy, carry: Carry) -> Option<Handle> {
        let mut names = self.names.lock();
        let known = names.find(&policy).map(|head| (Arc::clone(&head.newest().version), head));
        let (version, head) = match known {
            Some((version, head)) if !version.is_alternative && version.policy.rules() == policy.rules() => {
                (version, head)
            }
            Some((old, head)) => {
                let node = self.node(&mut names, policy, Place::After(&old, carry))?;
                let version = Arc::clone(&node.version);
                head.replace(node);
                (version, head)
            }
            None => {
                let node = self.node(&mut names, policy, Place::First)?;
                (Arc::clone(&node.version), names.add(node))
            }
        };
        Some(Handle { id: head.id, version, head, alternative: None })
    }

    /// A version that replaces none and is replaced by none.
    pub(crate) fn install_beside(&self, policy: Policy) -> Option<Handle> {
        let mut names = self.names.lock();
        let known = names.find(&policy);
        let node = self.node(&mut names, policy, Place::Alternative)?;
        let head = known.unwrap_or_else(|| names.add(Arc::clone(&node)));
        Some(Handle { id: head.id, version: Arc::clone(&node.version), head, alternative: Some(node) })
    }

    fn node(&self, names: &mut Names, policy: Policy, place: Place<'_>) -> Option<Arc<VersionNode>> {
        if self.versions() >= Self::MOST {
            return None;
        }
        names.last_version += 1;
        let serial = Serial(names.last_version);
        self.counts.versions.fetch_add(1, Ordering::Relaxed);
        let tag = AtomicU64::new(Tag::new(serial).word());
        let (is_alternative, sequence, carry, afresh) = match place {
            Place::First => (false, 0, Carry::Keep, 0),
            Place::Alternative => (true, 0, Carry::Moment, 0),
            Place::After(old, carry) => {
                let sequence = old.sequence + 1;
                (false, sequence, carry, if carry == Carry::Fresh { sequence } else { old.afresh })
            }
        };
        let version = Arc::new(Version { serial, policy, is_alternative, sequence, carry, afresh, tag });
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

/// Neither part has control characters, so the separator cannot occur in one.
fn full_name(policy: &Policy) -> String {
    format!("{}\0{}", policy.domain(), policy.name())
}

/// Changes that a key may have missed to be migrated through every one of them.
const STEPWISE: u64 = 32;
/// Names that are not worth looking through.
const FEWEST_NAMES: usize = 1_024;
