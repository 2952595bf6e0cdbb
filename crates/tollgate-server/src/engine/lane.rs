//! Which counter a question is about, as a number: two questions with different numbers are about different counters,
//! and may be decided in any order. For wires that ask several at the same time.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Engine, Who, adhoc::THROTTLE_DOMAIN};
use crate::rulebook::{Allowed, Found, Limit};

impl Engine {
    /// Of a key, by the rules in force. Different keys can share a counter, where a rule counts several values as one.
    #[must_use]
    pub fn lane(&self, domain: &str, key: &str) -> u64 {
        let book = self.inner.book.load();
        let (limited, counted) = match book.find(domain, Who::Key(key)) {
            Ok(Found::Policy(limited, counted)) => (limited, counted),
            Ok(Found::Limit(Limit { allowance: Allowed::As(limited), .. }, counted)) => (&**limited, counted),
            // Nobody counts it.
            _ => return number((domain, "", key)),
        };
        number((limited.policy.domain(), limited.policy.name(), &counted))
    }

    /// Of a key that is limited by numbers of its own, whatever these are.
    #[must_use]
    pub fn throttle_lane(&self, key: &str) -> u64 {
        number((THROTTLE_DOMAIN, "", key))
    }
}

fn number(counter: (&str, &str, &str)) -> u64 {
    let mut hasher = DefaultHasher::new();
    counter.hash(&mut hasher);
    hasher.finish()
}
