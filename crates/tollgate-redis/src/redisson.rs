//! Limiters shared with Java: Redisson's `RRateLimiter`, byte for byte.
//!
//! A service in Rust and one in Java use one limiter in one Redis: same keys, same fields, same grants, same times to
//! live. Nothing here is used by the store of this crate, nor the other way round; they share the way to the server.
//!
//! ```text
//!   RedissonClient ─▶ RedissonLimiter ─▶ Line ─▶ Attempt ─▶ Core ─▶ link ─▶ lua/redisson/*.lua
//!     client id          keys            waits   resends,   scripts
//!     name mapper                        its turn gives back
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use tollgate_redis::redisson::{Rate, RedissonClient};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = RedissonClient::connect("redis://127.0.0.1:6379").await?;
//! let limiter = client.rate_limiter("api");
//! limiter.try_set_rate(&Rate::overall(10, Duration::from_secs(1))?).await?;
//! if limiter.try_acquire().await?.is_granted() {
//!     // At most ten of these in any second, whoever asks.
//! }
//! # Ok(())
//! # }
//! ```

mod attempt;
mod client_id;
mod core;
mod error;
mod keys;
mod limiter;
mod line;
mod rate;
mod reply;
mod scripts;
mod settings;

use std::{sync::Arc, time::Instant};

use self::{client_id::Chance, core::Core, scripts::Scripts};
use crate::{
    address::{Address, AddressError},
    counters::Counters,
    link::{Link, Whom},
};

pub use self::{
    client_id::ClientId,
    error::{RateError, RedissonError},
    limiter::{Lifetime, RedissonLimiter, Taken},
    rate::{Rate, RateType},
    reply::{Outcome, Refusal},
    settings::{RedissonClock, RedissonConfig},
};

/// One client: a way to the server, and a name of its own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RedissonClient {
    core: Arc<Core>,
}

impl RedissonClient {
    /// A client with the usual settings. Only a bad address is an error: a server that is not there yet is looked for in
    /// the background.
    pub async fn connect(url: &str) -> Result<Self, AddressError> {
        Self::connect_with(url, RedissonConfig::default()).await
    }

    /// A client with settings of your own.
    pub async fn connect_with(url: &str, config: RedissonConfig) -> Result<Self, AddressError> {
        let client = Self::open(Address::parse(url)?, config);
        let core = &client.core;
        let deadline = Instant::now() + core.config.link.connect_timeout;
        // A first sign of the server, so that the first attempt need not wait for it; none is no error.
        let _ = core.link.command(Whom::Any, &redis::cmd("PING"), deadline).await;
        Ok(client)
    }

    /// The same without waiting for a first sign of the server.
    pub fn open(address: Address, config: RedissonConfig) -> Self {
        let chance = Chance::default();
        let client_id = config.client_id.clone().unwrap_or_else(|| ClientId::random(&chance));
        let link = Link::open(address, config.link.clone(), Arc::new(Counters::default()));
        Self { core: Arc::new(Core { link, config, client_id, chance, scripts: Scripts::default() }) }
    }

    /// The limiter of this name, set up or not.
    pub fn rate_limiter(&self, name: &str) -> RedissonLimiter {
        RedissonLimiter::new(Arc::clone(&self.core), name)
    }

    /// Who this client is.
    pub fn client_id(&self) -> &ClientId {
        &self.core.client_id
    }
}
