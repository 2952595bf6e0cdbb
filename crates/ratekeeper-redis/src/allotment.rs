//! Allotments on the side of the process that holds them: permits granted in advance, and remembered denials.
//!
//! ```text
//!   take ─▶ permits held here? ─ yes ─▶ granted in process
//!              └ denied before? ─ yes ─▶ denied in process
//!                  └ ask the store: report what was used, take, ask for more
//! ```
//!
//! [`Holder`] is a state machine without I/O and without a clock. The store's side of the protocol, with the argument why
//! no window exceeds its limit, is `ratekeeper_core::store_api::Allotment`.

mod clock;
mod holder;
#[cfg(test)]
mod simulation;

pub(crate) use self::{
    clock::LocalClock,
    holder::{Action, Denial, Holder, HolderConfig, HolderCounts, LocalTime, Served},
};
