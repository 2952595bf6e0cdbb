//! A gateway's bucket: one script call per request, sent at most once.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::{
    answer::GatewayAnswer,
    error::GatewayError,
    id_rule::{IdRule, keys},
    limits::GatewayLimits,
};
use ratekeeper_core::ManualClock;
use ratekeeper_redis::{
    Address, AddressError, LinkSettings,
    link::{Call, DEADLINE_BYTES, Destination, Link, Script},
};

use crate::failure::CallFailure;

/// A bucket whose tokens are shared with the gateways. Cheap to clone.
#[derive(Clone, Debug)]
#[must_use]
pub struct GatewayBucket {
    shared: Arc<Shared>,
    limits: GatewayLimits,
    prefix: Arc<str>,
    id_rule: IdRule,
}

#[derive(Debug)]
struct Shared {
    link: Link,
    config: GatewayConfig,
    script: Script,
}

/// Link and clock of a [`GatewayBucket`].
#[derive(Clone, Debug)]
#[must_use]
pub struct GatewayConfig {
    link: LinkSettings,
    clock: GatewayClock,
    grain: Grain,
}

/// The clock that refills the bucket.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum GatewayClock {
    /// The server's, as with Spring Cloud Gateway.
    #[default]
    Server,
    /// This machine's, as with ShenYu.
    Client,
    /// A manual clock, for tests.
    Manual(ManualClock),
}

/// Resolution of the clock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Grain {
    /// Whole seconds, as in the gateways: the same decisions and the same bytes. Tokens arrive at the turn of the second,
    /// so two bursts may occur around it.
    #[default]
    Seconds,
    /// Microseconds, written as seconds with a fraction. The gateways can read that and write whole seconds; tokens arrive
    /// evenly between calls of this crate.
    Fine,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        let mut link = LinkSettings::default();
        link.deadline = Duration::from_secs(1);
        Self { link, clock: GatewayClock::default(), grain: Grain::default() }
    }
}

impl GatewayConfig {
    /// The longest time that a call may take.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.link.deadline = deadline;
        self
    }

    /// The clock that refills the bucket.
    pub fn clock(mut self, clock: GatewayClock) -> Self {
        self.clock = clock;
        self
    }

    /// The resolution of the clock.
    pub fn grain(mut self, grain: Grain) -> Self {
        self.grain = grain;
        self
    }

    /// Timeouts and bounds of the link.
    pub fn link(mut self, settings: LinkSettings) -> Self {
        self.link = settings;
        self
    }
}

impl GatewayBucket {
    /// A bucket with default settings: the gateways' prefix, and keys without an id rule. Only a malformed address is an
    /// error: the server may start later.
    pub async fn connect(url: &str, limits: GatewayLimits) -> Result<Self, AddressError> {
        Self::connect_with(url, limits, GatewayConfig::default()).await
    }

    /// A bucket with these settings.
    pub async fn connect_with(url: &str, limits: GatewayLimits, config: GatewayConfig) -> Result<Self, AddressError> {
        let bucket = Self::open(Address::parse(url)?, limits, config);
        let link = &bucket.shared.link;
        let deadline = Instant::now() + bucket.shared.config.link.connect_timeout;
        // Waits for the connection, so that the first request does not have to; a failure is no error here.
        let _ = link.command(Destination::Any, &redis::cmd("PING"), deadline).await;
        Ok(bucket)
    }

    /// A bucket, without waiting for the connection.
    pub fn open(address: Address, limits: GatewayLimits, config: GatewayConfig) -> Self {
        let link = Link::open(address, config.link.clone());
        let script = Script::new(concat!("#!lua\n", include_str!("../../lua/gateway/bucket.lua")).to_owned());
        let shared = Arc::new(Shared { link, config, script });
        Self { shared, limits, prefix: PREFIX.into(), id_rule: IdRule::default() }
    }

    /// Replaces the limits, for another route on the same server.
    pub fn limits(mut self, limits: GatewayLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How ids are derived from keys.
    pub fn id_rule(mut self, id_rule: IdRule) -> Self {
        self.id_rule = id_rule;
        self
    }

    /// The prefix of the names on the server; `request_rate_limiter` by default, as in both gateways.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Takes the tokens of one request of this key, as many as the limits say.
    pub async fn check(&self, key: &str) -> Result<GatewayAnswer, GatewayError> {
        self.take(key, self.limits.tokens_per_request()).await
    }

    /// Takes this number of tokens. More than the capacity is an error, before anything is sent.
    pub async fn take(&self, key: &str, tokens: f64) -> Result<GatewayAnswer, GatewayError> {
        self.limits.check(tokens)?;
        let Shared { link, config, script } = &*self.shared;
        let names = self.names(key)?;
        let keys = names.each_ref().map(|name| name.as_bytes());
        let grain: &[u8] = if config.grain == Grain::Fine { b"1" } else { b"0" };
        let mut args = vec![vec![0; DEADLINE_BYTES], config.clock.word()];
        args.extend(self.limits.words(tokens));
        args.push(grain.to_vec());
        let deadline = Instant::now() + config.link.deadline;
        // "Late" before the deadline means that the server's clock was set. The script has done nothing, and its reply has
        // updated the clock estimate.
        for _ in 0..CLOCK_STEPS {
            let called = link.call(Call { script, keys: &keys, args: args.clone(), deadline }).await;
            match called.map_err(CallFailure::from).and_then(|value| GatewayAnswer::read(&value)) {
                Err(CallFailure::Late) if Instant::now() < deadline => {}
                answer => return answer.map_err(|failure| GatewayError::Store(failure.into())),
            }
        }
        Err(GatewayError::Store(CallFailure::Late.into()))
    }

    /// The names of this key's tokens and timestamp on the server.
    fn names(&self, key: &str) -> Result<[String; 2], GatewayError> {
        let id = self.id_rule.id(key);
        let names = keys(&self.prefix, &id);
        if self.shared.link.share_a_slot(&names.each_ref().map(|name| name.as_bytes())) {
            return Ok(names);
        }
        Err(GatewayError::ApartInCluster { id })
    }

    /// Deletes the state of this key. `false` if there was none.
    pub async fn reset(&self, key: &str) -> Result<bool, GatewayError> {
        let Shared { link, config, .. } = &*self.shared;
        let names = self.names(key)?;
        let deadline = Instant::now() + config.link.deadline;
        let command = redis::cmd("DEL").arg(&names).to_owned();
        let deleted = link.command(Destination::Key(names[0].as_bytes()), &command, deadline).await;
        deleted
            .map(|count| count != redis::Value::Int(0))
            .map_err(|error| GatewayError::Store(CallFailure::from(error).into()))
    }
}

impl GatewayClock {
    /// The argument of the script: microseconds, or empty for the server's time.
    fn word(&self) -> Vec<u8> {
        match self {
            Self::Server => Vec::new(),
            Self::Client => {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                since_1970.as_micros().to_string().into_bytes()
            }
            Self::Manual(clock) => clock.now().as_micros().to_string().into_bytes(),
        }
    }
}

/// The prefix of both gateways.
const PREFIX: &str = "request_rate_limiter";
/// Calls of a script whose server's clock is set meanwhile.
const CLOCK_STEPS: u32 = 4;
