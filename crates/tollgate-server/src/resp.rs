//! The RESP wire: whoever has a Redis client can ask.
//!
//! ```text
//!   bytes ─frame─▶ words ─commands─▶ engine ─reply─▶ bytes
//! ```
//!
//! [`frame`] reads commands, `commands` answers each of them, [`reply`] writes RESP 2 or 3, and `connection` does that
//! for one client until it leaves. docs/resp.md tells users which commands there are.

mod commands;
mod connection;
pub mod frame;
pub mod reply;
mod server;
mod session;
mod settings;

pub use self::{server::serve, settings::RespSettings};
