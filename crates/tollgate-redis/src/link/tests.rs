//! The link against real servers, well and unwell.

mod answers;
mod bound;
mod cluster;
mod door;
mod failover;
mod lost;
mod stall;
mod start;
mod support;
mod swallow;
