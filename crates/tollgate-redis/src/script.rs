//! Scripts made to measure: one per shape of a request.
//!
//! A shape is which algorithms the rules of a policy have, in their order, and which of them only watch. Quotas are no
//! part of it: they travel with each call, so that a thousand policies of two buckets share one script and changing a
//! quota leaves no script behind on the server.
//!
//! Redis compiles a script once but runs all of it every time, so the text holds nothing a shape does not need: no
//! tables of functions, no loops over rules. [`assemble`] writes the rules' pieces one after another into a frame.

mod assemble;
mod inline;
mod piece;
mod source;

pub(crate) use assemble::{names_holders, tells_two_waits};
pub(crate) use piece::{Piece, numbers};

use crate::link::Script;

/// The algorithms of a request's rules, by subject.
pub(crate) type Shape = Vec<Vec<Piece>>;

/// Decides a take.
pub(crate) fn take(shape: &Shape) -> Script {
    Script::new(assemble::assemble(source::TAKE, shape))
}

/// Carries out any other verb.
pub(crate) fn amend(shape: &Shape) -> Script {
    Script::new(assemble::assemble(source::AMEND, shape))
}

/// Charges for grants that were made without the store.
pub(crate) fn charge(shape: &Shape) -> Script {
    Script::new(assemble::assemble(source::CHARGE, shape))
}
