//! Bounds of all numbers, each with its reason.
//!
//! Most follow from one fact: Lua computes in doubles, which are exact below 2^53. Constructors enforce these bounds, so
//! every later product and sum fits and the algorithms need no checks.

use crate::time::{Span, Timestamp};

/// The latest instant, in the year 2112; leaves room below 2^53 to add any wait and any window.
pub const MAX_TIME: Timestamp = Timestamp::from_micros((1 << 52) - 1);

/// The longest period of a quota, a little under nine years.
pub const MAX_PERIOD: Span = Span::from_micros(1 << 48);

/// The longest wait that can be reserved: 100 days. Also the bound of a wait without a timeout.
pub const MAX_WAIT: Span = Span::from_micros(100 * Span::DAY.as_micros());

/// The most permits a quota or a request may name. Large enough to count bytes: a tebibyte.
pub const MAX_PERMITS: u64 = 1 << 40;

/// The most units (permits × units per permit) a bucket may hold.
pub const MAX_CAPACITY_UNITS: u64 = 1 << 50;

/// The most units a bucket, or permits a window, may be charged for, reservations and penalties included.
pub const MAX_LEVEL: u64 = (1 << 52) - 1;

/// The largest limit of a sliding log, whose state may hold one 16-byte entry per permit.
pub const MAX_LOG_LIMIT: u64 = 1_000_000;

/// The largest limit of a concurrency rule, whose state holds one lease per holder.
pub const MAX_LEASES: u64 = 65_536;

/// The most denials that an automatic block counts; they share a number with the blocks in a row.
pub const MAX_DENIALS: u64 = 1 << 20;

/// The largest factor by which automatic blocks grow: its product with the longest block is below 2^53.
pub const MAX_GROWTH: u64 = 100;

/// The most buckets a sliding counter may split its window into; each decision adds them up.
pub const MAX_BUCKETS: u32 = 1_000;

/// The most rules in one policy: they are decided in one step, and that step must stay short.
pub const MAX_RULES: usize = 32;

/// The most keys of one request: they are decided in one step, as are the rules of a policy.
pub const MAX_KEYS: usize = 64;

/// The longest name of a domain, policy or rule, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// The longest key, in bytes. Longer ones are refused, not cut: a cut key could equal another key.
pub const MAX_KEY_BYTES: usize = 4_096;

/// The longest id of a request, in bytes. A UUID has 36.
pub const MAX_ID_BYTES: usize = 256;

/// The shortest lifetime of an id: a server's expiry has milliseconds.
pub const MIN_LIFETIME: Span = Span::MILLISECOND;

/// The longest lifetime of an id. What a key's rules admit in it bounds the records of the key.
pub const MAX_LIFETIME: Span = Span::DAY;

/// Clock steps back up to this are waited out; larger ones move the state back. See `algorithm::stepped_back`.
pub(crate) fn tolerance(window: Span) -> Span {
    Span::from_micros(window.as_micros() / 10).min(Span::SECOND)
}
