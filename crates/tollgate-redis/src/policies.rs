//! The policies a store has been told about, ready to be asked: scripts chosen, numbers known, names prepared.
//!
//! A handle stands for a policy's name; what it means can change under it. Earlier rules are kept by their tag, so that
//! values counted under them can be carried over.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64},
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
pub struct RedisPolicy(Arc<RwLock<Arc<Version>>>);

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
    pub(crate) policy: Policy,
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
}

/// Every policy there is or was.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    by_name: Mutex<HashMap<(String, String), RedisPolicy>>,
    by_tag: Mutex<HashMap<Tag, Arc<Policy>>>,
    by_shape: Mutex<HashMap<Shape, Arc<Scripts>>>,
}

impl Policies {
    /// A handle of its own for every version: those that stand beside each other are known apart.
    pub(crate) fn install_beside(
        &self,
        policy: Policy,
        prefix: &str,
        together: Together,
        local: Option<LocalRules>,
    ) -> RedisPolicy {
        RedisPolicy(Arc::new(RwLock::new(self.version(policy, Carry::Moment, prefix, together, local))))
    }

    fn version(
        &self,
        policy: Policy,
        carry: Carry,
        prefix: &str,
        together: Together,
        local: Option<LocalRules>,
    ) -> Arc<Version> {
        let definition = definition::write_down(&policy);
        let tag = Tag::new(definition::fingerprint(&definition));
        self.by_tag.lock().insert(tag, Arc::new(policy.clone()));
        Arc::new(Version {
            tag,
            carry,
            scripts: self.scripts(vec![Piece::of(&policy)]),
            keys: KeyPrefix::new(prefix, together, &policy),
            definition,
            written_down: AtomicU64::new(0),
            written_over: AtomicU64::new(0),
            local,
            policy,
        })
    }

    pub(crate) fn install(
        &self,
        policy: Policy,
        carry: Carry,
        prefix: &str,
        together: Together,
        local: Option<LocalRules>,
    ) -> RedisPolicy {
        let version = self.version(policy, carry, prefix, together, local);
        let name = (version.policy.domain().to_owned(), version.policy.name().to_owned());
        let mut by_name = self.by_name.lock();
        match by_name.get(&name) {
            Some(handle) => {
                *handle.0.write() = version;
                handle.clone()
            }
            None => {
                let handle = RedisPolicy(Arc::new(RwLock::new(version)));
                by_name.insert(name, handle.clone());
                handle
            }
        }
    }

    /// The scripts of a shape, assembled when first asked for.
    pub(crate) fn scripts(&self, shape: Shape) -> Arc<Scripts> {
        let mut by_shape = self.by_shape.lock();
        if let Some(scripts) = by_shape.get(&shape) {
            return Arc::clone(scripts);
        }
        let scripts = Scripts { take: script::take(&shape), amend: script::amend(&shape), shape: shape.clone() };
        let scripts = Arc::new(scripts);
        if by_shape.len() >= MOST_SHAPES {
            by_shape.clear(); // those in use are held by their policies
        }
        by_shape.insert(shape, Arc::clone(&scripts));
        scripts
    }

    /// The rules that values with this tag were counted under, if they are known here.
    pub(crate) fn with_tag(&self, tag: Tag) -> Option<Arc<Policy>> {
        self.by_tag.lock().get(&tag).cloned()
    }

    pub(crate) fn learn(&self, tag: Tag, policy: Policy) -> Arc<Policy> {
        let policy = Arc::new(policy);
        let mut by_tag = self.by_tag.lock();
        if by_tag.len() >= MOST_TAGS {
            by_tag.clear(); // they can be looked up again
        }
        by_tag.insert(tag, Arc::clone(&policy));
        policy
    }
}

/// Shapes of several subjects are as many as people combine; these are kept.
const MOST_SHAPES: usize = 1_024;
/// Rules of other processes and earlier days that are kept.
const MOST_TAGS: usize = 16_384;
