//! Installed policies, with their scripts, key names and local rules.
//!
//! A handle refers to a policy by name; installing the name again changes the rules behind it. Rules are kept by tag, so
//! that state written under them can be migrated: those in force while a handle refers to them, and the last [`MAX_TAGS`]
//! others. Older ones are read from the server, where the definition of every rule set is stored.
//!
//! Bound: what handles refer to, plus [`MAX_TAGS`] rule sets. Installation is a few map lookups.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use ratekeeper_core::{OnQuotaChange, OnStoreFailure, Policy};

use crate::{
    allotment::HolderConfig,
    fingerprint,
    key::{KeyPrefix, Together},
    link::Script,
    local_rules::LocalRules,
    script::{self, Piece, Shape},
    state::Tag,
};

/// A handle of an installed policy.
#[derive(Clone, Debug)]
pub struct RedisPolicy(Arc<Current>);

/// The rules that a name refers to at present. Every request reads them, from every thread, so there is no lock.
#[derive(Debug)]
pub(crate) struct Current {
    version: ArcSwap<Version>,
    /// Rises with every change, and is odd if the rules are prepaid. A prepaid key reads it alone, most of the time.
    generation: AtomicU64,
    /// Unlike its address, no other policy of this process has it, also later.
    id: u64,
}

impl Current {
    fn new(version: Arc<Version>) -> Arc<Self> {
        let generation = AtomicU64::new(u64::from(version.prepaid.is_some()));
        Arc::new(Self { version: ArcSwap::new(version), generation, id: NEXT_ID.fetch_add(1, Relaxed) })
    }

    /// Changes the rules. Callers hold the lock of [`Policies::by_name`].
    fn swap(&self, version: Arc<Version>) -> Arc<Version> {
        let is_prepaid = u64::from(version.prepaid.is_some());
        let old = self.version.swap(version);
        let generation = self.generation.load(Relaxed);
        // After the rules: a key that reads the new number reads the new rules.
        self.generation.store((generation / 2 + 1) * 2 + is_prepaid, Release);
        old
    }
}

/// The id of the next policy.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl RedisPolicy {
    /// Whether both refer to the same policy.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Distinguishes this policy from all others of this process.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// Changes with the rules; odd if they are prepaid.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.0.generation.load(Acquire)
    }

    /// Whether the rules are prepaid.
    #[inline]
    pub(crate) fn is_prepaid(&self) -> bool {
        self.generation() % 2 == 1
    }

    /// The rules as they are now, without a change to the count of their owners, which all threads share. To be dropped
    /// soon: each thread has a few of these.
    pub(crate) fn load(&self) -> Guard<Arc<Version>> {
        self.0.version.load()
    }

    /// The rules as they are now.
    pub(crate) fn current(&self) -> Arc<Version> {
        self.0.version.load_full()
    }
}

/// A policy with one set of rules.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) policy: Arc<Policy>,
    pub(crate) tag: Tag,
    /// How state written under other rules is migrated.
    pub(crate) carry: OnQuotaChange,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) keys: KeyPrefix,
    /// The rules as text, stored on the server for other processes.
    pub(crate) definition: String,
    /// When the definition was last written, in milliseconds since the store was opened; 0 if never.
    pub(crate) definition_written: AtomicU64,
    /// The number of reconnects before that write.
    pub(crate) definition_connection: AtomicU64,
    pub(crate) local: Option<LocalRules>,
    /// The numbers of holders, if the policy is prepaid.
    pub(crate) prepaid: Option<HolderConfig>,
}

/// The scripts of one shape.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) shape: Shape,
    pub(crate) take: Script,
    /// Several takes of one key; `None` if they cannot be merged.
    pub(crate) merge: Option<Script>,
    /// Calls of holders; `None` if the keys have no allotments.
    pub(crate) allot: Option<Script>,
    pub(crate) amend: Script,
    pub(crate) charge: Script,
    /// Takes with an id or a least cost, and commits and cancels by id. Assembled on first use.
    take_with_terms: OnceLock<Script>,
    finish: OnceLock<Script>,
}

impl Scripts {
    pub(crate) fn take_with_terms(&self) -> &Script {
        self.take_with_terms.get_or_init(|| script::take_with_terms(&self.shape))
    }

    pub(crate) fn finish(&self) -> &Script {
        self.finish.get_or_init(|| script::finish(&self.shape))
    }
}

/// Rules of a policy set by their `on_store_failure`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct FailureAnswers {
    pub(crate) local: u64,
    pub(crate) open: u64,
    pub(crate) closed: u64,
}

/// The policies that handles refer to, and earlier rule sets by tag.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    by_name: Mutex<LiveMap<(String, String), Current>>,
    by_tag: Mutex<Tags>,
    by_shape: Mutex<HashMap<Shape, Arc<Scripts>>>,
}

/// A map of values that others keep alive. Entries of dropped values are swept when the map has doubled.
#[derive(Debug)]
struct LiveMap<K, T> {
    values: HashMap<K, Weak<T>>,
    sweep_at: usize,
}

impl<K, T> Default for LiveMap<K, T> {
    fn default() -> Self {
        Self { values: HashMap::new(), sweep_at: 0 }
    }
}

impl<K: std::hash::Hash + Eq, T> LiveMap<K, T> {
    fn get(&self, name: &K) -> Option<Arc<T>> {
        self.values.get(name).and_then(Weak::upgrade)
    }

    fn insert(&mut self, name: K, value: &Arc<T>) {
        if self.values.len() >= self.sweep_at {
            self.values.retain(|_, value| value.strong_count() > 0);
            self.sweep_at = (2 * self.values.len()).max(MIN_SWEEP);
        }
        self.values.insert(name, Arc::downgrade(value));
    }

    fn live(&self) -> impl Iterator<Item = Arc<T>> + '_ {
        self.values.values().filter_map(Weak::upgrade)
    }
}

/// Rule sets by tag.
#[derive(Debug, Default)]
struct Tags {
    in_force: LiveMap<Tag, Policy>,
    /// Superseded ones and those of other processes.
    others: HashMap<Tag, Arc<Policy>>,
    /// Tags of `others`, the oldest first.
    oldest: VecDeque<Tag>,
}

impl Tags {
    fn get(&self, tag: Tag) -> Option<Arc<Policy>> {
        self.in_force.get(&tag).or_else(|| self.others.get(&tag).cloned())
    }

    fn keep(&mut self, tag: Tag, policy: Arc<Policy>) {
        if self.others.insert(tag, policy).is_none() {
            self.oldest.push_back(tag);
        }
        if self.oldest.len() > MAX_TAGS
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.others.remove(&oldest);
        }
    }
}

impl Policies {
    /// Installs one of several concurrent variants of a policy; each has a separate handle.
    pub(crate) fn install_variant(&self, policy: Policy, prefix: &str, together: Together, nodes: u32) -> RedisPolicy {
        RedisPolicy(Current::new(self.version(policy, OnQuotaChange::KeepResetTime, prefix, together, nodes)))
    }

    fn version(
        &self,
        policy: Policy,
        carry: OnQuotaChange,
        prefix: &str,
        together: Together,
        nodes: u32,
    ) -> Arc<Version> {
        let definition = fingerprint::definition(&policy);
        let tag = Tag::new(fingerprint::fingerprint(&definition));
        let policy = Arc::new(policy);
        self.by_tag.lock().in_force.insert(tag, &policy);
        Arc::new(Version {
            tag,
            carry,
            scripts: self.scripts(vec![Piece::of(&policy)]),
            keys: KeyPrefix::new(prefix, together, &policy),
            definition,
            definition_written: AtomicU64::new(0),
            definition_connection: AtomicU64::new(0),
            local: LocalRules::of(&policy, nodes),
            prepaid: HolderConfig::of(&policy),
            policy,
        })
    }

    pub(crate) fn install(
        &self,
        policy: Policy,
        carry: OnQuotaChange,
        prefix: &str,
        together: Together,
        nodes: u32,
    ) -> RedisPolicy {
        let version = self.version(policy, carry, prefix, together, nodes);
        let name = (version.policy.domain().to_owned(), version.policy.name().to_owned());
        let mut by_name = self.by_name.lock();
        match by_name.get(&name) {
            Some(current) => {
                let old = current.swap(version);
                self.by_tag.lock().keep(old.tag, Arc::clone(&old.policy));
                RedisPolicy(current)
            }
            None => {
                let current = Current::new(version);
                by_name.insert(name, &current);
                RedisPolicy(current)
            }
        }
    }

    /// The scripts of a shape, assembled on first use.
    pub(crate) fn scripts(&self, shape: Shape) -> Arc<Scripts> {
        let mut by_shape = self.by_shape.lock();
        if let Some(scripts) = by_shape.get(&shape) {
            return Arc::clone(scripts);
        }
        let scripts = Scripts {
            take: script::take(&shape),
            merge: script::merge(&shape),
            allot: script::allot(&shape),
            amend: script::amend(&shape),
            charge: script::charge(&shape),
            take_with_terms: OnceLock::new(),
            finish: OnceLock::new(),
            shape: shape.clone(),
        };
        let scripts = Arc::new(scripts);
        if by_shape.len() >= MAX_SHAPES {
            by_shape.clear(); // policies hold the scripts they use
        }
        by_shape.insert(shape, Arc::clone(&scripts));
        scripts
    }

    /// The rules of values with this tag, if they are known here.
    pub(crate) fn with_tag(&self, tag: Tag) -> Option<Arc<Policy>> {
        self.by_tag.lock().get(tag)
    }

    /// Keeps rules that were read from the server.
    pub(crate) fn learn(&self, tag: Tag, policy: Policy) -> Arc<Policy> {
        let policy = Arc::new(policy);
        self.by_tag.lock().keep(tag, Arc::clone(&policy));
        policy
    }

    /// How the rules in force answer without the store.
    pub(crate) fn failure_answers(&self) -> FailureAnswers {
        let current: Vec<Arc<Current>> = self.by_name.lock().live().collect();
        let mut answers = FailureAnswers::default();
        for version in current.iter().map(|current| current.version.load_full()) {
            for rule in version.policy.rules() {
                match rule.rule().failure_answer() {
                    OnStoreFailure::Local => answers.local += 1,
                    OnStoreFailure::Open => answers.open += 1,
                    OnStoreFailure::Closed => answers.closed += 1,
                }
            }
        }
        answers
    }
}

/// Shapes whose scripts are kept. Requests with several keys may combine policies in any way.
const MAX_SHAPES: usize = 1_024;
/// Rule sets kept that no handle refers to.
const MAX_TAGS: usize = 16_384;
/// Fewer entries than this are not worth a sweep.
const MIN_SWEEP: usize = 1_024;

#[cfg(test)]
mod tests {
    use ratekeeper_core::{Quota, Rule};

    use super::*;

    fn install(policies: &Policies, name: &str, limit: u64) -> RedisPolicy {
        let policy = Policy::new(name, [Rule::token_bucket("second", Quota::per_second(limit))]).expect("sound rules");
        policies.install(policy, OnQuotaChange::Keep, "ratekeeper", Together::default(), 1)
    }

    fn sizes(policies: &Policies) -> [usize; 3] {
        let tags = policies.by_tag.lock();
        [policies.by_name.lock().values.len(), tags.in_force.values.len(), tags.others.len()]
    }

    /// Memory is bounded however often rules change and however many names come and go. The first handle refers to the
    /// last rules, and rules just replaced are known by their tag.
    #[test]
    fn rules_without_a_handle_are_kept_up_to_the_bound() {
        let policies = Policies::default();
        let first = install(&policies, "policy", 1);
        for change in 2..60_000 {
            let before = first.current().tag;
            assert!(install(&policies, "policy", change % 20_000 + 1).is_same_as(&first));
            assert!(policies.with_tag(before).is_some());
        }
        assert_eq!(first.current().policy.rules()[0].rule().quota().limit(), 20_000);
        for number in 0..60_000 {
            let _ = install(&policies, &format!("override {number}"), number + 1);
        }
        let [names, in_force, others] = sizes(&policies);
        assert!(names <= 2 * MIN_SWEEP && in_force <= 2 * MIN_SWEEP, "{names} names, {in_force} in force");
        assert_eq!(others, MAX_TAGS);
    }

    /// Rules in force are known by their tag, even if there are more than `MAX_TAGS`.
    #[test]
    fn every_policy_with_a_handle_is_known_by_its_tag() {
        let policies = Policies::default();
        let handles: Vec<RedisPolicy> =
            (1..=30_000).map(|number| install(&policies, &format!("policy {number}"), number)).collect();
        assert!(handles.iter().all(|handle| policies.with_tag(handle.current().tag).is_some()));
    }
}
