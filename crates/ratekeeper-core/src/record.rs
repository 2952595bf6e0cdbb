//! Records of charged requests: what a store remembers of an id until its lifetime ends.
//!
//! A request that repeats the id gets the recorded decision. A commit or a cancel finishes the record, once: the first
//! changes the charge, later ones find it finished and change nothing.
//!
//! Records are kept outside of the key's state, so that keys without ids have nothing to read or to keep. Only charged
//! requests are recorded, so a key has at most as many as its rules admit in a lifetime.

use crate::{
    algorithm::LeaseId,
    bounds::MAX_LEVEL,
    decision::{Decision, Source},
    terms::{OnExpiry, Terms},
    time::Timestamp,
    verb::Verb,
};

/// One charged request with an id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestRecord {
    /// When it is forgotten.
    pub expires: Timestamp,
    /// Permits charged for it at present.
    pub charged: u64,
    /// When they go: the time of the decision plus its wait.
    pub at: Timestamp,
    /// The lease that it got, if any.
    pub lease: Option<LeaseId>,
    /// Whether it is refunded when it expires, unless it is finished before.
    pub refunds: bool,
    /// Whether it was committed, cancelled or refunded.
    pub is_finished: bool,
}

impl RequestRecord {
    /// The record of an allowed take of this cost.
    pub fn of(decision: &Decision, cost: u64, terms: &Terms, now: Timestamp) -> Self {
        Self {
            expires: now + terms.lifetime,
            charged: cost,
            at: decision.proceed_at(),
            lease: decision.lease,
            refunds: terms.on_expiry == OnExpiry::Refund,
            is_finished: false,
        }
    }

    /// Whether the id is known at this time to a verb that finishes it: until the end of its lifetime, and after it to expire.
    pub fn is_known_to(&self, verb: &Verb, now: Timestamp) -> bool {
        self.expires > now || matches!(verb, Verb::Expire { .. })
    }

    /// Finishes it by a commit or a cancel: the verb that changes the charge, and the cost that it is about. `None` if it was
    /// finished before, or if the verb is another.
    pub fn finish(&mut self, verb: &Verb, now: Timestamp) -> Option<(u64, Verb)> {
        if self.is_finished || matches!(verb, Verb::Expire { .. }) && (!self.refunds || self.expires > now) {
            return None;
        }
        let (charged, at) = (self.charged, self.at);
        let (settled, cost, change) = match *verb {
            Verb::Commit { actual, .. } => {
                let actual = actual.min(MAX_LEVEL);
                (actual, charged, Verb::Settle { actual, at: Some(at) })
            }
            Verb::Cancel { .. } | Verb::Expire { .. } => (0, charged, Verb::Undo { at, lease: self.lease }),
            _ => return None,
        };
        (self.charged, self.is_finished) = (settled, true);
        Some((cost, change))
    }
}

impl Decision {
    /// The same decision, given again to a request that was charged before.
    pub fn repeated(mut self) -> Self {
        self.source = Source::Repeated;
        self
    }
}
