//! The bucket: one request, one script call, sent once.

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
use crate::{
    address::{Address, AddressError},
    counters::Counters,
    link::{Call, DEADLINE_BYTES, Link, LinkSettings, Script, Whom},
    pretend::PretendClock,
    store::Failure,
};

/// Tokens that Rust and the gateways take from together. Cheap to clone.
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

/// Settings of a [`GatewayBucket`]'s way to the server and of its time.
#[derive(Clone, Debug)]
#[must_use]
pub struct GatewayConfig {
    link: LinkSettings,
    clock: GatewayClock,
    grain: Grain,
}

/// Whose clock fills the bucket.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum GatewayClock {
    /// The server's, as with Spring Cloud Gateway.
    #[default]
    Server,
    /// This machine's, as with ShenYu.
    Client,
    /// One held by a test.
    Pretend(PretendClock),
}

/// How finely time is taken.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Grain {
    /// Whole seconds, as the gateways take it: the same decisions and the same bytes. Tokens come at the turn of the
    /// second, and two bursts may lie on either side of it.
    #[default]
    Seconds,
    /// Microseconds, written as seconds with a fraction. The gateways read that, but go on in whole seconds themselves; so
    /// it is even as far as calls of ours go, and for all once the last gateway is gone.
    Fine,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        let link = LinkSettings { deadline: Duration::from_secs(1), ..LinkSettings::default() };
        Self { link, clock: GatewayClock::default(), grain: Grain::default() }
    }
}

impl GatewayConfig {
    /// The longest a call may take.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.link.deadline = deadline;
        self
    }

    /// Whose clock counts.
    pub fn clock(mut self, clock: GatewayClock) -> Self {
        self.clock = clock;
        self
    }

    /// How finely.
    pub fn grain(mut self, grain: Grain) -> Self {
        self.grain = grain;
        self
    }

    /// Patience and bounds of the way to the server.
    pub fn link(mut self, settings: LinkSettings) -> Self {
        self.link = settings;
        self
    }
}

impl GatewayBucket {
    /// A bucket with the usual settings: the gateways' prefix, and keys as they are. Only a bad address is an error: a
    /// server that is not there yet is looked for in the background.
    pub async fn connect(url: &str, limits: GatewayLimits) -> Result<Self, AddressError> {
        Self::connect_with(url, limits, GatewayConfig::default()).await
    }

    /// The same with settings of your own.
    pub async fn connect_with(url: &str, limits: GatewayLimits, config: GatewayConfig) -> Result<Self, AddressError> {
        let bucket = Self::open(Address::parse(url)?, limits, config);
        let link = &bucket.shared.link;
        let deadline = Instant::now() + bucket.shared.config.link.connect_timeout;
        // A first sign of the server, so that the first request need not wait for it; none is no error.
        let _ = link.command(Whom::Any, &redis::cmd("PING"), deadline).await;
        Ok(bucket)
    }

    /// The same without waiting for a first sign of the server.
    pub fn open(address: Address, limits: GatewayLimits, config: GatewayConfig) -> Self {
        let link = Link::open(address, config.link.clone(), Arc::new(Counters::default()));
        let script = Script::new(concat!("#!lua\n", include_str!("../../lua/gateway/bucket.lua")).to_owned());
        let shared = Arc::new(Shared { link, config, script });
        Self { shared, limits, prefix: PREFIX.into(), id_rule: IdRule::default() }
    }

    /// The same server with other limits: those of another route.
    pub fn limits(mut self, limits: GatewayLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How ids are made of keys.
    pub fn id_rule(mut self, id_rule: IdRule) -> Self {
        self.id_rule = id_rule;
        self
    }

    /// What the names on the server begin with; `request_rate_limiter` if nothing is said, as with both gateways.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// May one request of this key pass? It takes as many tokens as the limits say.
    pub async fn check(&self, key: &str) -> Result<GatewayAnswer, GatewayError> {
        self.take(key, self.limits.tokens_per_request()).await
    }

    /// The same for so many tokens. More than the capacity is an error, before anything is sent.
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
        // A script that says it came too late while there is time left has done nothing and has told the time: the
        // server's clock was set.
        for _ in 0..CLOCK_STEPS {
            let called = link.call(Call { script, keys: &keys, args: args.clone(), deadline }).await;
            match called.map_err(Failure::from).and_then(|value| GatewayAnswer::read(&value)) {
                Err(Failure::Late) if Instant::now() < deadline => {}
                answer => return answer.map_err(|failure| GatewayError::Store(failure.into())),
            }
        }
        Err(GatewayError::Store(Failure::Late.into()))
    }

    /// Where the bucket of this key lies.
    fn names(&self, key: &str) -> Result<[String; 2], GatewayError> {
        let id = self.id_rule.id(key);
        let names = keys(&self.prefix, &id);
        if self.shared.link.share_a_slot(&names.each_ref().map(|name| name.as_bytes())) {
            return Ok(names);
        }
        Err(GatewayError::ApartInCluster { id })
    }

    /// Forgets what was taken under this key. False if nothing was.
    pub async fn reset(&self, key: &str) -> Result<bool, GatewayError> {
        let Shared { link, config, .. } = &*self.shared;
        let names = self.names(key)?;
        let deadline = Instant::now() + config.link.deadline;
        let gone = link.command(Whom::Key(names[0].as_bytes()), redis::cmd("DEL").arg(&names), deadline).await;
        gone.map(|gone| gone != redis::Value::Int(0)).map_err(|error| GatewayError::Store(Failure::from(error).into()))
    }
}

impl GatewayClock {
    /// What the script is told: microseconds, or nothing for the server's own time.
    fn word(&self) -> Vec<u8> {
        match self {
            Self::Server => Vec::new(),
            Self::Client => {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                since_1970.as_micros().to_string().into_bytes()
            }
            Self::Pretend(clock) => clock.now().0.to_string().into_bytes(),
        }
    }
}

/// What both gateways begin their names with.
const PREFIX: &str = "request_rate_limiter";
/// So often may a server's clock be set during one call.
const CLOCK_STEPS: u32 = 4;
