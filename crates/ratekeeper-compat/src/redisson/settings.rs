//! Settings of a Redisson client.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::client_id::ClientId;
use ratekeeper_core::ManualClock;
use ratekeeper_redis::link::LinkSettings;

/// Settings of a [`RedissonClient`](super::RedissonClient).
///
/// ```
/// use ratekeeper_compat::redisson::{ClientId, RedissonConfig};
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

/// Maps a limiter's name to its name on the server.
type NameMapper = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// The clock that stamps grants.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum RedissonClock {
    /// The server's. Java clients use their local clocks, which should be synchronized with it.
    #[default]
    Server,
    /// This machine's, as in Java: for servers whose clock is wrong while those of the clients are synchronized.
    Client,
    /// A manual clock, for tests.
    Manual(ManualClock),
}

impl Default for RedissonConfig {
    fn default() -> Self {
        let mut link = LinkSettings::default();
        link.deadline = Duration::from_secs(1);
        Self { link, client_id: None, clock: RedissonClock::default(), tries: 4, name_mapper: None }
    }
}

impl RedissonConfig {
    /// The longest time that one call may take. Attempts to acquire are sent again, see [`Self::tries`].
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.link.deadline = deadline;
        self
    }

    /// How often an attempt to acquire is sent before it fails. Sending it twice charges once: a grant has an id, and is
    /// not made again.
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries.max(1);
        self
    }

    /// The id of this client, for rates per client. A new UUID by default.
    pub fn client_id(mut self, id: ClientId) -> Self {
        self.client_id = Some(id);
        self
    }

    /// The clock that stamps grants.
    pub fn clock(mut self, clock: RedissonClock) -> Self {
        self.clock = clock;
        self
    }

    /// Maps names of limiters to names on the server, as Redisson's `NameMapper` does.
    pub fn map_names(mut self, mapper: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.name_mapper = Some(Arc::new(mapper));
        self
    }

    /// Timeouts and bounds of the link.
    pub fn link(mut self, settings: LinkSettings) -> Self {
        self.link = settings;
        self
    }

    pub(super) fn mapped(&self, name: &str) -> String {
        self.name_mapper.as_ref().map_or_else(|| name.to_owned(), |map| map(name))
    }
}

impl RedissonClock {
    /// The argument of scripts: milliseconds, or empty for the server's time.
    pub(super) fn word(&self) -> Vec<u8> {
        match self {
            Self::Server => Vec::new(),
            Self::Client => {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                since_1970.as_millis().to_string().into_bytes()
            }
            Self::Manual(clock) => (clock.now().as_micros() / 1_000).to_string().into_bytes(),
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
