//! The bounds of this wire, each with its reason.

use std::time::Duration;

use tollgate_tower::headers::HeaderStyle;

/// How much a client may ask of this wire, and for how long.
#[derive(Clone, Debug)]
pub struct GrpcSettings {
    /// Connections at a time; further ones wait to be accepted. A proxy opens one or two for each of its threads.
    pub max_connections: usize,
    /// Calls at a time on one connection; a client with more of them waits or opens another.
    pub max_streams: u32,
    /// Calls at a time on all connections. Each may hold a message, so this bounds memory; further ones are told to
    /// come back.
    pub max_calls: usize,
    /// The longest message. 64 descriptors of ordinary size take about 8 KiB.
    pub max_message_bytes: usize,
    /// The longest list of headers of one call.
    pub max_header_bytes: u32,
    /// How long a call may take, from its headers to its answer.
    pub call_timeout: Duration,
    /// How long a connection may take to its first call.
    pub first_call_timeout: Duration,
    /// How long a connection may stay without a call. Proxies keep theirs for an hour.
    pub idle_timeout: Duration,
    /// How often a client is asked whether it is still there.
    pub ping_every: Duration,
    /// How long it may take to answer that.
    pub ping_timeout: Duration,
    /// How long calls in flight may take to end once the server is told to.
    pub drain: Duration,
    /// Which header fields the proxy is told to add to its client's response.
    pub headers: HeaderStyle,
}

impl Default for GrpcSettings {
    fn default() -> Self {
        Self {
            max_connections: 1_024,
            max_streams: 1_024,
            max_calls: 8_192,
            max_message_bytes: 64 << 10,
            max_header_bytes: 16 << 10,
            call_timeout: Duration::from_secs(5),
            first_call_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(2 * 3_600),
            ping_every: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(10),
            drain: Duration::from_secs(10),
            headers: HeaderStyle::Ietf,
        }
    }
}
