//! How patient the RESP port is, and with how many.

use std::time::Duration;

/// The bounds of the RESP port.
#[derive(Clone, Debug)]
pub struct RespSettings {
    /// The most connections at one time; more are told so and closed.
    pub max_connections: usize,
    /// How soon after connecting a client must say something.
    pub first_byte_timeout: Duration,
    /// How soon a command that was begun must have arrived.
    pub frame_timeout: Duration,
    /// How long a connection may rest between commands.
    pub idle_timeout: Duration,
    /// How soon a client must take the answers it is sent.
    pub write_timeout: Duration,
}

impl Default for RespSettings {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            first_byte_timeout: Duration::from_secs(10),
            frame_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            write_timeout: Duration::from_secs(10),
        }
    }
}
