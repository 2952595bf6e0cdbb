//! The link against real servers, well and unwell.

mod cluster;
mod failover;
mod in_flight;
mod login;
mod lost;
mod replies;
mod stall;
mod start;
mod support;
mod swallow;
