//! Counter ids: hashes that identify the counter of a key.
//!
//! Requests with different ids use different counters, so a wire may decide them concurrently and in any order. A hash
//! collision only costs concurrency.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Engine, inline_limits::THROTTLE_DOMAIN};
use crate::{
    request::Descriptor,
    rulebook::{LimitEntry, LimitKind, Match},
};

impl Engine {
    /// The counter id of a key under the current rules. Different keys have the same id if a rule counts them as one.
    #[must_use]
    pub fn counter_id(&self, domain: &str, key: &str) -> u64 {
        let book = self.inner.book.load();
        let (entry, counted) = match book.find(domain, Descriptor::Key(key)) {
            Ok(Match::Policy(entry, counted)) => (entry, counted),
            Ok(Match::Limit(LimitEntry { kind: LimitKind::Policy(entry), .. }, counted)) => (&**entry, counted),
            // No rule counts the key.
            _ => return hash_of((domain, "", key)),
        };
        hash_of((entry.policy.domain(), entry.policy.name(), &counted))
    }

    /// The counter id of a key's throttle, which does not depend on its numbers.
    #[must_use]
    pub fn throttle_counter_id(&self, key: &str) -> u64 {
        hash_of((THROTTLE_DOMAIN, "", key))
    }
}

fn hash_of(counter: (&str, &str, &str)) -> u64 {
    let mut hasher = DefaultHasher::new();
    counter.hash(&mut hasher);
    hasher.finish()
}
