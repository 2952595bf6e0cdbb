//! How a client of shared limiters behaves.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::client_id::ClientId;
use crate::{link::LinkSettings, pretend::PretendClock};

/// Settings of a [`RedissonClient`](super::RedissonClient).
///
/// ```
/// use tollgate_redis::redisson::{ClientId, RedissonConfig};
///
/// let config = RedissonConfig::default().client_id(ClientId::given("edge-7")).map_names(|name| format!("prod:{name}"));
/// ```
#[derive(Clone)]
#[must_use]
pub struct RedissonConfig {
    pub(super) link: LinkSettings,
    pub(super) client_id: Option<ClientId>,
    pub(super) clock: RedissonClock,
    pub(super) tries: u32,
    name_mapper: Option<NameMapper>,
}

/// A name as callers say it, to one on the server.
type NameMapper = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Whose clock says when a grant was made and when it lapses.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum RedissonClock {
    /// The server's, by which all agree. Java clients go by their own clocks; those should be in step with it.
    #[default]
    Server,
    /// This machine's, as Java does it: for servers whose clock is off while the clients' are in step.
    Client,
    /// One held by a test.
    Pretend(PretendClock),
}

impl Default for RedissonConfig {
    fn default() -> Self {
        let link = LinkSettings { deadline: Duration::from_secs(1), ..LinkSettings::default() };
        Self { link, client_id: None, clock: RedissonClock::default(), tries: 4, name_mapper: None }
    }
}

impl RedissonConfig {
    /// The longest one try may take. Attempts to acquire are tried again, see [`Self::tries`].
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.link.deadline = deadline;
        self
    }

    /// How often an attempt to acquire is sent before it counts as failed. Sending it twice charges once: a grant has a
    /// name, and is not made again.
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries.max(1);
        self
    }

    /// Who this client is, where each has permits of its own. A new UUID if nothing is said.
    pub fn client_id(mut self, id: ClientId) -> Self {
        self.client_id = Some(id);
        self
    }

    /// Whose clock counts.
    pub fn clock(mut self, clock: RedissonClock) -> Self {
        self.clock = clock;
        self
    }

    /// What names are on the server: the twin of Redisson's `NameMapper`.
    pub fn map_names(mut self, mapper: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.name_mapper = Some(Arc::new(mapper));
        self
    }

    /// Patience and bounds of the way to the server.
    pub fn link(mut self, settings: LinkSettings) -> Self {
        self.link = settings;
        self
    }

    pub(super) fn mapped(&self, name: &str) -> String {
        self.name_mapper.as_ref().map_or_else(|| name.to_owned(), |map| map(name))
    }
}

impl RedissonClock {
    /// What scripts are told: milliseconds, or nothing for the server's own time.
    pub(super) fn word(&self) -> Vec<u8> {
        match self {
            Self::Server => Vec::new(),
            Self::Client => {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                since_1970.as_millis().to_string().into_bytes()
            }
            Self::Pretend(clock) => (clock.now().0 / 1_000).to_string().into_bytes(),
        }
    }
}

impl fmt::Debug for RedissonConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedissonConfig")
            .field("client_id", &self.client_id)
            .field("clock", &self.clock)
            .field("tries", &self.tries)
            .field("maps_names", &self.name_mapper.is_some())
            .finish_non_exhaustive()
    }
}
