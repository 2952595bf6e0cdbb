//! The header fields of a limiter's policy, prepared once per version of the policy.

use std::sync::{Arc, Mutex, PoisonError};

use ratekeeper_core::Policy;
use ratekeeper_http::{HeaderStyle, RateLimitFields};

/// The prepared fields of the current policy. Policies are compared by identity: a changed rule makes a new one.
#[derive(Debug)]
pub(crate) struct PolicyFields {
    style: HeaderStyle,
    prepared: Mutex<(Arc<Policy>, Arc<RateLimitFields>)>,
}

impl PolicyFields {
    pub(crate) fn new(policy: Arc<Policy>, style: HeaderStyle) -> Self {
        let fields = Arc::new(RateLimitFields::new(&policy, style));
        Self { style, prepared: Mutex::new((policy, fields)) }
    }

    pub(crate) fn style(&self) -> HeaderStyle {
        self.style
    }

    /// The fields of this policy.
    pub(crate) fn of(&self, policy: Arc<Policy>) -> Arc<RateLimitFields> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&prepared.0, &policy) {
            let fields = Arc::new(RateLimitFields::new(&policy, self.style));
            *prepared = (policy, fields);
        }
        Arc::clone(&prepared.1)
    }
}

impl Clone for PolicyFields {
    fn clone(&self) -> Self {
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self { style: self.style, prepared: Mutex::new(prepared) }
    }
}
