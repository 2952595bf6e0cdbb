//! The policies a store has been told about, ready to be asked: scripts chosen, numbers known, names prepared.
//!
//! A handle stands for a policy's name; what it means can change under it. Rules are kept by their tag, so that values
//! counted under them can be carried over: those in force while a handle refers to them, and the last [`MOST_TAGS`] others.
//! What is not known here any more is read from the server, where every set of rules is written down.
//!
//! Bound: what handles refer to, plus [`MOST_TAGS`] sets of rules. Installation is a few map lookups.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak, atomic::AtomicU64},
};

use parking_lot::{Mutex, RwLock};
use tollgate_core::{Carry, Policy};

use crate::{
    definition,
    fallback::LocalRules,
    key::{KeyPrefix, Together},
    link::Script,
    script::{self, Piece, Shape},
    state::Tag,
};

/// A policy as the Redis store knows it.
#[derive(Clone, Debug)]
pub struct RedisPolicy(Arc<Current>);

/// The rules that a name stands for at present.
type Current = RwLock<Arc<Version>>;

impl RedisPolicy {
    /// Whether both stand for the same policy.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The rules as they are now.
    pub(crate) fn current(&self) -> Arc<Version> {
        Arc::clone(&self.0.read())
    }
}

/// A policy with one set of rules.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) policy: Arc<Policy>,
    pub(crate) tag: Tag,
    /// What becomes of values counted under other rules.
    pub(crate) carry: Carry,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) keys: KeyPrefix,
    /// The rules written down, for others to read.
    pub(crate) definition: String,
    /// When that was last brought to the server, in milliseconds since the store was made; 0 if never.
    pub(crate) written_down: AtomicU64,
    /// Over which connection: how many there had been before.
    pub(crate) written_over: AtomicU64,
    pub(crate) local: Option<LocalRules>,
}

/// The scripts of one shape.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) shape: Shape,
    pub(crate) take: Script,
    pub(crate) amend: Script,
    pub(crate) charge: Script,
}

/// The policies that handles refer to, and rules of other days.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    by_name: Mutex<LiveMap<(String, String), Current>>,
    by_tag: Mutex<Tags>,
    by_shape: Mutex<HashMap<Shape, Arc<Scripts>>>,
}

/// A map of things that others keep alive. Names of those that are gone are cleared away when it has doubled.
#[derive(Debug)]
struct LiveMap<K, T> {
    things: HashMap<K, Weak<T>>,
    clear_at: usize,
}

impl<K, T> Default for LiveMap<K, T> {
    fn default() -> Self {
        Self { things: HashMap::new(), clear_at: 0 }
    }
}

impl<K: std::hash::Hash + Eq, T> LiveMap<K, T> {
    fn get(&self, name: &K) -> Option<Arc<T>> {
        self.things.get(name).and_then(Weak::upgrade)
    }

    fn insert(&mut self, name: K, thing: &Arc<T>) {
        if self.things.len() >= self.clear_at {
            self.things.retain(|_, thing| thing.strong_count() > 0);
            self.clear_at = (2 * self.things.len()).max(FEWEST_NAMES);
        }
        self.things.insert(name, Arc::downgrade(thing));
    }
}

/// Rules by their tag.
#[derive(Debug, Default)]
struct Tags {
    in_force: LiveMap<Tag, Policy>,
    /// Superseded ones and those of other processes, the oldest first.
    others: HashMap<Tag, Arc<Policy>>,
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
        if self.oldest.len() > MOST_TAGS
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.others.remove(&oldest);
        }
    }
}

impl Policies {
    /// A handle of its own for every version: those that stand beside each other are known apart.
    pub(crate) fn install_beside(&self, policy: Policy, prefix: &str, together: Together, nodes: u32) -> RedisPolicy {
        RedisPolicy(Arc::new(RwLock::new(self.version(policy, Carry::Moment, prefix, together, nodes))))
    }

    fn version(&self, policy: Policy, carry: Carry, prefix: &str, together: Together, nodes: u32) -> Arc<Version> {
        let definition = definition::write_down(&policy);
        let tag = Tag::new(definition::fingerprint(&definition));
        let policy = Arc::new(policy);
        self.by_tag.lock().in_force.insert(tag, &policy);
        Arc::new(Version {
            tag,
            carry,
            scripts: self.scripts(vec![Piece::of(&policy)]),
            keys: KeyPrefix::new(prefix, together, &policy),
            definition,
            written_down: AtomicU64::new(0),
            written_over: AtomicU64::new(0),
            local: LocalRules::of(&policy, nodes),
            policy,
        })
    }

    pub(crate) fn install(
        &self,
        policy: Policy,
        carry: Carry,
        prefix: &str,
        together: Together,
        nodes: u32,
    ) -> RedisPolicy {
        let version = self.version(policy, carry, prefix, together, nodes);
        let name = (version.policy.domain().to_owned(), version.policy.name().to_owned());
        let mut by_name = self.by_name.lock();
        match by_name.get(&name) {
            Some(current) => {
                let old = std::mem::replace(&mut *current.write(), version);
                self.by_tag.lock().keep(old.tag, Arc::clone(&old.policy));
                RedisPolicy(current)
            }
            None => {
                let current = Arc::new(RwLock::new(version));
                by_name.insert(name, &current);
                RedisPolicy(current)
            }
        }
    }

    /// The scripts of a shape, assembled when first asked for.
    pub(crate) fn scripts(&self, shape: Shape) -> Arc<Scripts> {
        let mut by_shape = self.by_shape.lock();
        if let Some(scripts) = by_shape.get(&shape) {
            return Arc::clone(scripts);
        }
        let scripts = Scripts {
            take: script::take(&shape),
            amend: script::amend(&shape),
            charge: script::charge(&shape),
            shape: shape.clone(),
        };
        let scripts = Arc::new(scripts);
        if by_shape.len() >= MOST_SHAPES {
            by_shape.clear(); // those in use are held by their policies
        }
        by_shape.insert(shape, Arc::clone(&scripts));
        scripts
    }

    /// The rules that values with this tag were counted under, if they are known here.
    pub(crate) fn with_tag(&self, tag: Tag) -> Option<Arc<Policy>> {
        self.by_tag.lock().get(tag)
    }

    pub(crate) fn learn(&self, tag: Tag, policy: Policy) -> Arc<Policy> {
        let policy = Arc::new(policy);
        self.by_tag.lock().keep(tag, Arc::clone(&policy));
        policy
    }
}

/// Shapes of several subjects are as many as people combine; these are kept.
const MOST_SHAPES: usize = 1_024;
/// Rules of other processes and earlier days that are kept.
const MOST_TAGS: usize = 16_384;
/// Names that are not worth looking through.
const FEWEST_NAMES: usize = 1_024;

#[cfg(test)]
mod tests {
    use tollgate_core::{Quota, Rule};

    use super::*;

    fn install(policies: &Policies, name: &str, limit: u64) -> RedisPolicy {
        let policy = Policy::new(name, [Rule::token_bucket("second", Quota::per_second(limit))]).expect("sound rules");
        policies.install(policy, Carry::Keep, "tollgate", Together::default(), 1)
    }

    fn sizes(policies: &Policies) -> [usize; 3] {
        let tags = policies.by_tag.lock();
        [policies.by_name.lock().things.len(), tags.in_force.things.len(), tags.others.len()]
    }

    /// However often rules change, and however many names come and go, what is kept has a bound; the handle of the
    /// first version means the last, and rules just replaced are known by their tag.
    #[test]
    fn rules_that_nothing_refers_to_are_forgotten() {
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
        assert!(names <= 2 * FEWEST_NAMES && in_force <= 2 * FEWEST_NAMES, "{names} names, {in_force} in force");
        assert_eq!(others, MOST_TAGS);
    }

    /// Rules in force are known by their tag, however many there are.
    #[test]
    fn every_policy_with_a_handle_is_known_by_its_tag() {
        let policies = Policies::default();
        let handles: Vec<RedisPolicy> =
            (1..=30_000).map(|number| install(&policies, &format!("policy {number}"), number)).collect();
        assert!(handles.iter().all(|handle| policies.with_tag(handle.current().tag).is_some()));
    }
}
