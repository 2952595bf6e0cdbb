//! Terms of a request beyond its verb: an id, a reservation that is finished later, a least cost.
//!
//! They are passed next to the verb, so that requests without them cost nothing more.

use crate::{
    bounds::{MAX_LIFETIME, MIN_LIFETIME},
    request_id::{DEFAULT_LIFETIME, RequestId},
    time::Span,
};

/// What a take asks for beyond its cost and wait. The default asks for nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Terms {
    /// The caller's name of the request. An id that was charged gets the same decision within its lifetime and is not
    /// charged again; one that was refused is decided anew.
    pub id: Option<RequestId>,
    /// How long the id is remembered after it was charged.
    pub lifetime: Span,
    /// What becomes of the charge if the id is neither committed nor cancelled within its lifetime.
    pub on_expiry: OnExpiry,
    /// The least cost that the caller accepts: the largest cost from this to the request's that passes now is charged.
    pub at_least: Option<u64>,
}

/// What becomes of a reservation that is not finished when its lifetime ends.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum OnExpiry {
    /// It stays charged.
    #[default]
    Keep,
    /// It is refunded, at the next request of its key.
    Refund,
}

impl Terms {
    /// No terms.
    pub const NONE: Self = Self { id: None, lifetime: DEFAULT_LIFETIME, on_expiry: OnExpiry::Keep, at_least: None };

    /// A request with this id, remembered for [`DEFAULT_LIFETIME`].
    pub const fn id(id: RequestId) -> Self {
        Self { id: Some(id), ..Self::NONE }
    }

    /// The same terms, with this id.
    #[must_use]
    pub const fn with_id(mut self, id: RequestId) -> Self {
        self.id = Some(id);
        self
    }

    /// The same terms, with this lifetime of the id, bounded to a millisecond and a day.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Span) -> Self {
        self.lifetime = lifetime.clamp(MIN_LIFETIME, MAX_LIFETIME);
        self
    }

    /// The same terms, with this end of a reservation that is not finished.
    #[must_use]
    pub const fn on_expiry(mut self, on_expiry: OnExpiry) -> Self {
        self.on_expiry = on_expiry;
        self
    }

    /// The same terms, with a least cost.
    #[must_use]
    pub const fn at_least(mut self, least: u64) -> Self {
        self.at_least = Some(least);
        self
    }

    /// The same terms, for the whole cost.
    #[must_use]
    pub const fn whole(mut self) -> Self {
        self.at_least = None;
        self
    }

    /// Whether they ask for nothing.
    pub const fn is_none(&self) -> bool {
        self.id.is_none() && self.at_least.is_none()
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self::NONE
    }
}

impl OnExpiry {
    /// The word for it on wires.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Refund => "refund",
        }
    }
}
