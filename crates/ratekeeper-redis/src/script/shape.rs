//! Shape of a request: the algorithms of its rules, per key, and what follows from them.

use super::piece::{Kind, Piece};

/// The rules of a request as scripts see them, per key.
pub(crate) type Shape = Vec<Vec<Piece>>;

/// Whether a call has two bounds of its wait. Only shaped and shadow rules distinguish the time at which a request is
/// admitted from the time at which it may proceed.
pub(crate) fn has_two_waits(shape: &Shape) -> bool {
    shape.iter().flatten().any(|piece| piece.kind.is_shaped() || piece.shadow)
}

/// Whether a call has the id of a lease.
pub(crate) fn passes_lease_id(shape: &Shape) -> bool {
    shape.iter().flatten().any(|piece| piece.kind == Kind::Leases)
}

/// Whether the value alone determines the decision: one key whose rules are all meters with a `quick` section.
pub(super) fn is_plain(shape: &Shape) -> bool {
    let quick = |piece: &Piece| {
        matches!(piece.kind, Kind::Bucket | Kind::Rounded | Kind::Stepwise | Kind::Window) && !piece.shadow
    };
    matches!(shape.as_slice(), [rules] if !rules.is_empty() && rules.iter().all(quick)) && !has_fields(shape)
}

/// Whether requests of one key can be decided by one call. A concurrency rule needs an id per request; each denial counts
/// towards an automatic block; windows of a time zone are sent for about the present.
pub(crate) fn can_merge(shape: &Shape) -> bool {
    let mergeable = |piece: &Piece| !matches!(piece.kind, Kind::Leases | Kind::AutoBlock | Kind::Local);
    matches!(shape.as_slice(), [rules] if !rules.is_empty() && rules.iter().all(mergeable))
}

/// Whether the keys of this shape may have allotments.
pub(crate) fn is_prepaid(shape: &Shape) -> bool {
    matches!(shape.as_slice(), [rules] if rules.iter().any(|piece| piece.prepaid))
}

/// Whether several requests that proceed at once change the state as one request for the sum of their costs.
pub(super) fn is_additive(shape: &Shape) -> bool {
    let adds = |piece: &Piece| !piece.shadow && !piece.kind.is_shaped() && piece.kind != Kind::Leases;
    shape.iter().flatten().all(adds)
}

/// Whether the shape is one sliding log, whose value is edited in place.
pub(super) fn is_lone_log(shape: &Shape) -> bool {
    matches!(shape.as_slice(), [rules] if matches!(rules.as_slice(), [Piece { kind: Kind::Log, shadow: false, .. }]))
}

/// Whether variables are fields of a table, because Lua has no room for them as locals.
pub(super) fn has_fields(shape: &Shape) -> bool {
    shape.iter().flatten().any(|piece| piece.kind == Kind::Local)
        || shape.iter().flatten().count() > MAX_RULES_IN_LOCALS
        || shape.len() > MAX_KEYS_IN_LOCALS
}

/// A rule has up to 16 variables, and Lua allows 200 locals.
const MAX_RULES_IN_LOCALS: usize = 8;
const MAX_KEYS_IN_LOCALS: usize = 8;
