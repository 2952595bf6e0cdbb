//! Redisson's `RRateLimiter`: limiters shared with Java, byte for byte.
//!
//! A service in Rust and one in Java use the same limiter in Redis: same keys, fields, grants and TTLs.
//!
//! ```text
//!   RedissonClient ─▶ RedissonLimiter ─▶ WaitQueue ─▶ Attempt ─▶ SharedClient ─▶ link ─▶ lua/redisson/*.lua
//!     client id          keys             order        resends,    scripts
//!     name mapper                                      refunds
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use ratekeeper_compat::redisson::{Rate, RedissonClient};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = RedissonClient::connect("redis://127.0.0.1:6379").await?;
//! let limiter = client.rate_limiter("api");
//! limiter.try_set_rate(&Rate::overall(10, Duration::from_secs(1))?).await?;
//! if limiter.try_acquire().await?.is_granted() {
//!     // At most ten of these in any second, over all clients.
//! }
//! # Ok(())
//! # }
//! ```

mod attempt;
mod client;
mod client_id;
mod error;
mod keys;
mod limiter;
mod rate;
mod reply;
mod scripts;
mod settings;
mod wait_queue;

use std::{sync::Arc, time::Instant};

use ratekeeper_redis::{
    Address, AddressError,
    link::{Destination, Link},
};

use self::{client::SharedClient, client_id::RandomIds, scripts::Scripts};

pub use self::{
    client_id::ClientId,
    error::{RateError, RedissonError},
    limiter::{Lifetime, RedissonLimiter, Taken},
    rate::{Rate, RateType},
    reply::{AcquireOutcome, AcquireWait},
    settings::{RedissonClock, RedissonConfig},
};

/// One client: a link to the server and a client id. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RedissonClient {
    client: Arc<SharedClient>,
}

impl RedissonClient {
    /// A client with default settings. Only a malformed address is an error: the server may start later.
    pub async fn connect(url: &str) -> Result<Self, AddressError> {
        Self::connect_with(url, RedissonConfig::default()).await
    }

    /// A client with these settings.
    pub async fn connect_with(url: &str, config: RedissonConfig) -> Result<Self, AddressError> {
        let opened = Self::open(Address::parse(url)?, config);
        let client = &opened.client;
        let deadline = Instant::now() + client.config.link.connect_timeout;
        // Waits for the connection, so that the first attempt does not have to; a failure is no error here.
        let _ = client.link.command(Destination::Any, &redis::cmd("PING"), deadline).await;
        Ok(opened)
    }

    /// A client, without waiting for the connection.
    pub fn open(address: Address, config: RedissonConfig) -> Self {
        let random = RandomIds::default();
        let client_id = config.client_id.clone().unwrap_or_else(|| ClientId::random(&random));
        let link = Link::open(address, config.link.clone());
        Self { client: Arc::new(SharedClient { link, config, client_id, random, scripts: Scripts::default() }) }
    }

    /// The limiter of this name; its rate may not be set yet.
    pub fn rate_limiter(&self, name: &str) -> RedissonLimiter {
        RedissonLimiter::new(Arc::clone(&self.client), name)
    }

    /// The id of this client.
    pub fn client_id(&self) -> &ClientId {
        &self.client.client_id
    }
}
