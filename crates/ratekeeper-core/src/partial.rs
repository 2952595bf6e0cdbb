//! Partial grants: "up to n, at least m".
//!
//! The largest cost from m to n that all enforcing rules of all keys admit now is charged. If less than m passes now, the
//! request is one for m, which may wait as its take says. Each key is charged the lesser of its cost and the grant.
//! Twin: the section of that name in `take.lua`.

use crate::{
    bounds::MAX_TIME,
    evaluate::take_all,
    request_key::{RequestKey, Step},
    time::Timestamp,
    verb::Take,
};

/// Decides one take of several keys, or of a part of their costs but at least `least`: all keys, or none. The keys are left
/// with the costs that were weighed.
pub fn take_part(keys: &mut [RequestKey<'_>], take: &Take, least: u64, now: Timestamp) -> Step {
    let now = now.min(MAX_TIME);
    let mut moved = false;
    let most = keys.iter().map(|key| key.cost).max().unwrap_or_default();
    let mut passes = most;
    for key in &mut *keys {
        moved |= key.follow(now).0;
        if key.cost > 0 {
            let enforced = key.looks(now).filter(|(rule, _)| !rule.is_shadow() && !rule.is_auto_block());
            passes = enforced.map(|(_, look)| look.remaining).fold(passes, u64::min);
        }
    }
    let granted = passes.max(least.min(most));
    for key in &mut *keys {
        key.cost = key.cost.min(granted);
    }
    let mut step = take_all(keys, take, now);
    step.changed |= moved;
    step.decision.granted = Some(if step.decision.is_allowed() { granted } else { 0 });
    step
}
