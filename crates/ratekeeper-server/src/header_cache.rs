//! Cache of prepared header fields, by policy or combination of policies.
//!
//! Preparing [`RateLimitFields`] formats every rule of a policy, so it is done once per policy instead of once per
//! response. An entry is identified by the addresses of its policies. It holds a reference to each of them, so an
//! address cannot be reused while the entry exists.
//!
//! Bound: at most `MAX_ENTRIES`; a full cache is cleared.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;
use ratekeeper_core::Policy;
use ratekeeper_http::{HeaderStyle, RateLimitFields};
use smallvec::SmallVec;

/// The prepared fields of one wire, in its style.
#[derive(Debug)]
pub(crate) struct HeaderCache {
    style: HeaderStyle,
    entries: RwLock<HashMap<PolicyAddresses, CachedFields>>,
}

type PolicyList<'a> = SmallVec<[&'a Arc<Policy>; 4]>;
type PolicyAddresses = SmallVec<[usize; 4]>;

#[derive(Debug)]
struct CachedFields {
    fields: Arc<RateLimitFields>,
    /// Keeps the addresses in the entry's key from being reused.
    _policies: SmallVec<[Arc<Policy>; 4]>,
}

impl HeaderCache {
    pub(crate) fn new(style: HeaderStyle) -> Self {
        Self { style, entries: RwLock::default() }
    }

    /// The fields of a decision that combines these policies; `None` without policies.
    pub(crate) fn of<'a>(&self, policies: impl IntoIterator<Item = &'a Arc<Policy>>) -> Option<Arc<RateLimitFields>> {
        let policies: PolicyList<'a> = policies.into_iter().collect();
        let addresses: PolicyAddresses = policies.iter().map(|policy| Arc::as_ptr(policy) as usize).collect();
        if addresses.is_empty() {
            return None;
        }
        if let Some(cached) = self.entries.read().get(&addresses) {
            return Some(Arc::clone(&cached.fields));
        }
        let fields = match policies.as_slice() {
            [one] => RateLimitFields::new(one, self.style),
            several => RateLimitFields::of_several(several.iter().map(|policy| &***policy), self.style),
        };
        let fields = Arc::new(fields);
        let held = policies.into_iter().cloned().collect();
        let mut entries = self.entries.write();
        if entries.len() >= MAX_ENTRIES {
            entries.clear(); // Reloads leave stale entries; those in use are prepared again.
        }
        entries.insert(addresses, CachedFields { fields: Arc::clone(&fields), _policies: held });
        Some(fields)
    }
}

/// Policies and combinations of policies in the cache.
const MAX_ENTRIES: usize = 1_024;

#[cfg(test)]
mod tests {
    use ratekeeper_core::{Quota, Rule};

    use super::*;

    fn policy(limit: u64) -> Arc<Policy> {
        Arc::new(Policy::new("p", [Rule::gcra("r", Quota::per_minute(limit))]).unwrap())
    }

    #[test]
    fn fields_are_prepared_once_per_combination() {
        let (one, other) = (policy(1), policy(2));
        let cache = HeaderCache::new(HeaderStyle::Ietf);
        let first = cache.of([&one]).unwrap();
        assert!(Arc::ptr_eq(&first, &cache.of([&one]).unwrap()));
        for different in [cache.of([&other]), cache.of([&one, &other]), cache.of([&other, &one])] {
            assert!(!Arc::ptr_eq(&first, &different.unwrap()));
        }
        assert!(cache.of([]).is_none());
    }

    /// A policy must not get the fields of a dropped one that had the same address.
    #[test]
    fn short_lived_policies_get_their_own_fields_within_the_bound() {
        let cache = HeaderCache::new(HeaderStyle::Ietf);
        for limit in 1..=3_000 {
            let fields = cache.of([&policy(limit)]).unwrap();
            assert_eq!(format!("{fields:?}"), format!("{:?}", RateLimitFields::new(&policy(limit), HeaderStyle::Ietf)));
            assert!(cache.entries.read().len() <= MAX_ENTRIES);
        }
    }
}
