//! A policy at work: known to the store, with its counters at hand, and exceptions for single keys.

use std::{collections::HashMap, sync::Arc};

use tollgate_core::{Micros, Policy};

use crate::{telemetry::PolicyMeters, wiring::StoredPolicy};

/// A policy that can be asked.
#[derive(Debug)]
pub(crate) struct Limited {
    pub(crate) policy: Arc<Policy>,
    pub(crate) stored: StoredPolicy,
    /// What a request costs that does not say.
    pub(crate) cost: u64,
    pub(crate) meters: PolicyMeters,
    /// Keys with numbers of their own.
    pub(crate) exceptions: HashMap<Box<str>, Exception>,
}

/// One key's own numbers, until they end.
#[derive(Clone, Debug)]
pub(crate) struct Exception {
    /// When the ordinary rules hold again; nothing: never.
    pub(crate) until: Option<Micros>,
    pub(crate) limited: Arc<Limited>,
}

impl Limited {
    /// Who decides about this key now.
    #[inline]
    pub(crate) fn for_key(&self, key: &str, now: impl FnOnce() -> Micros) -> &Self {
        if self.exceptions.is_empty() {
            return self;
        }
        match self.exceptions.get(key) {
            Some(exception) if exception.until.is_none_or(|until| until > now()) => &exception.limited,
            _ => self,
        }
    }
}
