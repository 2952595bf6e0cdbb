//! Counter ids: hashes that identify the counter of a key.
//!
//! Requests with different ids use different counters, so a wire may decide them concurrently and in any order. A hash
//! collision only costs concurrency.

use std::hash::{DefaultHasher, Hash, Hasher};

use smallvec::SmallVec;

use super::{
    Engine,
    inline_limits::{INLINE_DOMAIN, THROTTLE_DOMAIN},
};
use crate::{
    request::Descriptor,
    rulebook::{LimitEntry, LimitKind, Match, PolicyEntry},
};

impl Engine {
    /// Appends the counter ids of a subject under the current rules; none if no rule counts it. Different keys have the
    /// same id if a rule counts them as one.
    pub fn add_counter_ids(&self, domain: &str, descriptor: Descriptor<'_>, ids: &mut SmallVec<[u64; 1]>) {
        let book = self.inner.book.load();
        let id = |entry: &PolicyEntry, counted: &str| hash_of((entry.policy.domain(), entry.policy.name(), counted));
        match book.find(domain, descriptor) {
            Ok(Match::Policy(entry, counted)) => ids.push(id(entry, &counted)),
            Ok(Match::Limit(LimitEntry { kind: LimitKind::Policy(entry), .. }, counted)) => {
                ids.push(id(entry, &counted));
            }
            Ok(Match::Policies(all)) => ids.extend(all.iter().map(|(entry, counted)| id(entry, counted))),
            _ => {}
        }
    }

    /// The counter id of a key's throttle, which does not depend on its numbers.
    #[must_use]
    pub fn throttle_counter_id(&self, key: &str) -> u64 {
        hash_of((THROTTLE_DOMAIN, "", key))
    }

    /// The counter id of a key under rules that come with requests, which does not depend on them.
    #[must_use]
    pub fn inline_counter_id(&self, key: &str) -> u64 {
        hash_of((INLINE_DOMAIN, "", key))
    }
}

fn hash_of(counter: (&str, &str, &str)) -> u64 {
    let mut hasher = DefaultHasher::new();
    counter.hash(&mut hasher);
    hasher.finish()
}
