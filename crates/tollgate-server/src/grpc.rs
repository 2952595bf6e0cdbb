//! wip
pub mod wire;
