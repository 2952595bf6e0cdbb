//! Allotments on the side of the process that holds them: permits granted in advance, and remembered denials.
//!
//! ```text
//!   take ─▶ permits held here? ─ yes ─▶ granted in process
//!              └ denied before? ─ yes ─▶ denied in process
//!                  └ ask the store: report what was used, take, ask for more
//! ```
//!
//! [`Holder`] is a state machine without I/O and without a clock; [`SharedHolder`] lends its permits to threads that take
//! them without a lock. The store's side of the protocol, with the argument why
//! no window exceeds its limit, is `ratekeeper_core::store_api::Allotment`.

mod clock;
mod holder;
mod recent_uses;
mod shared_holder;
#[cfg(test)]
mod simulation;
mod stated;

pub(crate) use self::{
    clock::LocalClock,
    holder::{Action, Denial, Holder, HolderConfig, HolderCounts, HolderOpening, LocalTime, Served},
    recent_uses::RecentUses,
    shared_holder::{HolderGuard, SharedHolder},
    stated::StatedRules,
};
