//! The header fields of policies, worked out once for each of them and not for each answer.
//!
//! Policies are told apart by where they are in memory, which is theirs as long as somebody holds them; so the ones whose
//! fields are kept are held here.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;
use smallvec::SmallVec;
use tollgate_core::Policy;
use tollgate_tower::headers::{HeaderStyle, RateLimitFields};

/// The fields of one wire, in its style.
#[derive(Debug)]
pub(crate) struct Fields {
    style: HeaderStyle,
    known: RwLock<HashMap<Places, Kept>>,
}

type Policies<'a> = SmallVec<[&'a Arc<Policy>; 4]>;
type Places = SmallVec<[usize; 4]>;

#[derive(Debug)]
struct Kept {
    fields: Arc<RateLimitFields>,
    /// So that no other comes to lie where they are.
    _held: SmallVec<[Arc<Policy>; 4]>,
}

impl Fields {
    pub(crate) fn new(style: HeaderStyle) -> Self {
        Self { style, known: RwLock::default() }
    }

    /// The fields of a decision of these policies together; nothing if there are none.
    pub(crate) fn of<'a>(&self, policies: impl IntoIterator<Item = &'a Arc<Policy>>) -> Option<Arc<RateLimitFields>> {
        let policies: Policies<'a> = policies.into_iter().collect();
        let places: Places = policies.iter().map(|policy| Arc::as_ptr(policy) as usize).collect();
        if places.is_empty() {
            return None;
        }
        if let Some(kept) = self.known.read().get(&places) {
            return Some(Arc::clone(&kept.fields));
        }
        let fields = match policies.as_slice() {
            [one] => RateLimitFields::new(one, self.style),
            several => RateLimitFields::of_several(several.iter().map(|policy| &***policy), self.style),
        };
        let fields = Arc::new(fields);
        let held = policies.into_iter().cloned().collect();
        let mut known = self.known.write();
        if known.len() >= MAX_KEPT {
            known.clear(); // reloads leave old ones behind; those in use are soon back
        }
        known.insert(places, Kept { fields: Arc::clone(&fields), _held: held });
        Some(fields)
    }
}

/// Policies, and mixes of them, whose fields are kept.
const MAX_KEPT: usize = 1_024;

#[cfg(test)]
mod tests {
    use tollgate_core::{Quota, Rule};

    use super::*;

    fn policy(limit: u64) -> Arc<Policy> {
        Arc::new(Policy::new("p", [Rule::gcra("r", Quota::per_minute(limit))]).unwrap())
    }

    #[test]
    fn they_are_worked_out_once_for_each_mix() {
        let (one, other) = (policy(1), policy(2));
        let fields = Fields::new(HeaderStyle::Ietf);
        let first = fields.of([&one]).unwrap();
        assert!(Arc::ptr_eq(&first, &fields.of([&one]).unwrap()));
        for different in [fields.of([&other]), fields.of([&one, &other]), fields.of([&other, &one])] {
            assert!(!Arc::ptr_eq(&first, &different.unwrap()));
        }
        assert!(fields.of([]).is_none());
    }

    /// One that is gone must not lend its fields to another that comes to lie in the same place.
    #[test]
    fn however_many_come_and_go_each_has_its_own_and_memory_has_an_end() {
        let fields = Fields::new(HeaderStyle::Ietf);
        for limit in 1..=3_000 {
            let told = fields.of([&policy(limit)]).unwrap();
            assert_eq!(format!("{told:?}"), format!("{:?}", RateLimitFields::new(&policy(limit), HeaderStyle::Ietf)));
            assert!(fields.known.read().len() <= MAX_KEPT);
        }
    }
}
