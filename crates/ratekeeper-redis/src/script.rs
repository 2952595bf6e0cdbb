//! Scripts assembled per shape of a request.
//!
//! A shape is the list of algorithms of a policy's rules, in their order, with their shadow and count-refused flags.
//! Quotas are not part of it: they are arguments of each call. A thousand policies of two buckets share one script, and a
//! change of quota leaves no script behind on the server.
//!
//! Redis compiles a script once and runs all of it every time, so the text contains only what the shape needs: no tables
//! of functions, no loops over rules. [`assemble`] concatenates the rules' sections within a template.

mod assemble;
#[cfg(test)]
mod assembled;
mod inline;
mod piece;
mod shape;
mod source;

pub(crate) use self::{
    piece::{Piece, numbers},
    shape::{Shape, can_merge, has_two_waits, is_prepaid, passes_lease_id},
};
use crate::link::Script;

/// The script of a take.
pub(crate) fn take(shape: &Shape) -> Script {
    Script::new(assemble::assemble(source::TAKE, shape))
}

/// The script of a take with terms: an id or a least cost.
pub(crate) fn take_with_terms(shape: &Shape) -> Script {
    Script::new(assemble::assemble_for(source::TAKE, shape, true))
}

/// The script of commits and cancels by id.
pub(crate) fn finish(shape: &Shape) -> Script {
    Script::new(assemble::assemble_for(source::AMEND, shape, true))
}

/// The script of several takes of one key; `None` if they cannot be merged.
pub(crate) fn merge(shape: &Shape) -> Option<Script> {
    can_merge(shape).then(|| Script::new(assemble::assemble(source::MERGE, shape)))
}

/// The script of a holder's call, with several takes of one key; `None` if its keys have no allotments.
pub(crate) fn allot(shape: &Shape) -> Option<Script> {
    is_prepaid(shape).then(|| Script::new(assemble::assemble(source::ALLOT, shape)))
}

/// The script of every other verb.
pub(crate) fn amend(shape: &Shape) -> Script {
    Script::new(assemble::assemble(source::AMEND, shape))
}

/// The script that charges local grants.
pub(crate) fn charge(shape: &Shape) -> Script {
    Script::new(assemble::assemble(source::CHARGE, shape))
}
