//! Permits of a key that processes hold in advance, as one number.

use crate::time::Timestamp;

/// Permits of one key that processes hold and may use at any time until `until`.
///
/// They weigh on every enforced rule as if they were charged now. They do not drain before they are used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Held {
    /// How many.
    pub permits: u64,
    /// When the last of the allotments ends.
    pub until: Timestamp,
    /// Whether the key has allotments, with permits or without. Reservations were then weighed with what was held, and
    /// the states alone do not show which of them is the latest.
    pub hides_queue: bool,
}

impl Held {
    /// None.
    pub const NONE: Self = Self { permits: 0, until: Timestamp::EPOCH, hides_queue: false };
}
