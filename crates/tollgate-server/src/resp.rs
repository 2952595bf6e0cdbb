//! The RESP wire.

pub mod frame;
pub mod reply;
