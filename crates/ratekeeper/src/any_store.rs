//! A store chosen at run time: in process memory, or in Redis.
//!
//! An enum rather than a trait object: `Limiter<AnyStore>` is one type whatever the configuration says, and a decision in
//! memory stays a plain call behind one branch.

use ratekeeper_core::{
    Ask, Decision, HealthStatus, Immediate, InlineLimits, ManualClock, OnQuotaChange, Policy, Store, StoreError, Take,
    Terms, Timestamp, Verb, store_api::InspectedKey,
};
use ratekeeper_memory::{Clock, InstalledPolicy, MemoryConfig, MemoryStore, SystemClock};
#[cfg(feature = "redis")]
use ratekeeper_redis::{AddressError, RedisConfig, RedisPolicy, RedisStore};
use smallvec::SmallVec;

/// A store that was chosen by configuration.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ratekeeper::{AnyStore, Limiter, Quota, Rule};
///
/// let url = std::env::var("RATE_LIMIT_STORE").unwrap_or_else(|_| "memory".to_owned());
/// let limiter: Limiter<AnyStore> = Limiter::builder()
///     .rule(Rule::token_bucket("burst", Quota::per_second(100)))
///     .store(AnyStore::open(&url).await?)
///     .build()?;
/// assert!(limiter.check("user:42").await?.is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyStore {
    /// In this process.
    Memory(MemoryStore),
    /// In this process, on a manual clock: for tests.
    Manual(MemoryStore<ManualClock>),
    /// In Redis or Valkey.
    #[cfg(feature = "redis")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
    Redis(RedisStore),
}

/// The handle of a policy that is installed in an [`AnyStore`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyPolicy {
    /// In an embedded store.
    Memory(InstalledPolicy),
    /// In Redis or Valkey.
    #[cfg(feature = "redis")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
    Redis(RedisPolicy),
}

/// Settings of an [`AnyStore`]: those of every kind of store, of which the address selects one.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct StoreConfig {
    memory: MemoryConfig,
    #[cfg(feature = "redis")]
    redis: RedisConfig,
}

impl StoreConfig {
    /// The default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// The settings of the embedded store.
    pub fn memory(mut self, config: MemoryConfig) -> Self {
        self.memory = config;
        self
    }

    /// The settings of the store in Redis.
    #[cfg(feature = "redis")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
    pub fn redis(mut self, config: RedisConfig) -> Self {
        self.redis = config;
        self
    }
}

/// The address of a store cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// It is not `memory`, and this build has no other store.
    #[error("the store is not \"memory\"; for redis:// addresses enable the feature \"redis\" of ratekeeper")]
    NeedsRedis,
    /// It is not `memory`, and not an address of Redis either.
    #[cfg(feature = "redis")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
    #[error("{0}; or use memory, which needs no server")]
    Address(#[from] AddressError),
}

impl AnyStore {
    /// Opens the store that the address names, with default settings: `memory`, or with the feature `redis` a `redis://`,
    /// `redis+sentinel://` or `redis+cluster://` address (`rediss` for TLS).
    ///
    /// A server that is unreachable is no error: the store looks for it in the background, and until then every rule is
    /// decided by its [`OnStoreFailure`](ratekeeper_core::OnStoreFailure).
    pub async fn open(url: &str) -> Result<Self, OpenStoreError> {
        Self::open_with(url, StoreConfig::default()).await
    }

    /// [`open`](Self::open) with settings.
    pub async fn open_with(url: &str, config: StoreConfig) -> Result<Self, OpenStoreError> {
        if url == "memory" {
            return Ok(Self::Memory(MemoryStore::with(config.memory, SystemClock::new())));
        }
        #[cfg(feature = "redis")]
        return Ok(Self::Redis(RedisStore::connect_with(url, config.redis).await?));
        #[cfg(not(feature = "redis"))]
        Err(OpenStoreError::NeedsRedis)
    }

    /// `memory` or `redis`, for logs and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) | Self::Manual(_) => "memory",
            #[cfg(feature = "redis")]
            Self::Redis(_) => "redis",
        }
    }

    /// Whether decisions need no round trip.
    #[inline]
    pub fn is_immediate(&self) -> bool {
        match self {
            Self::Memory(_) | Self::Manual(_) => true,
            #[cfg(feature = "redis")]
            Self::Redis(_) => false,
        }
    }

    /// Whether [`Store::decide_here`] may answer: always in memory, and with Redis if a policy is prepaid.
    #[inline]
    pub fn may_decide_here(&self) -> bool {
        match self {
            Self::Memory(_) | Self::Manual(_) => true,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.has_prepaid(),
        }
    }

    /// [`Store::decide`] without a future; `None` if the store needs a round trip.
    #[inline]
    pub fn decide_now(&self, asks: &[Ask<'_, AnyPolicy>], verb: &Verb) -> Option<Result<Decision, StoreError>> {
        match self {
            Self::Memory(store) => Some(decide_in_memory(store, asks, verb)),
            Self::Manual(store) => Some(decide_in_memory(store, asks, verb)),
            #[cfg(feature = "redis")]
            Self::Redis(_) => None,
        }
    }
}

impl Store for AnyStore {
    type Policy = AnyPolicy;

    fn install(&self, policy: Policy, on_change: OnQuotaChange) -> Result<AnyPolicy, StoreError> {
        match self {
            Self::Memory(store) => store.install(policy, on_change).map(AnyPolicy::Memory),
            Self::Manual(store) => store.install(policy, on_change).map(AnyPolicy::Memory),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.install(policy, on_change).map(AnyPolicy::Redis),
        }
    }

    async fn decide(&self, asks: &[Ask<'_, AnyPolicy>], verb: Verb) -> Result<Decision, StoreError> {
        match self {
            Self::Memory(store) => decide_in_memory(store, asks, &verb),
            Self::Manual(store) => decide_in_memory(store, asks, &verb),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.decide(&all(asks, in_redis)?, verb).await,
        }
    }

    async fn decide_with(&self, asks: &[Ask<'_, AnyPolicy>], verb: Verb, terms: Terms) -> Result<Decision, StoreError> {
        match self {
            Self::Memory(store) => store.decide_now_with(&all(asks, in_memory)?, &verb, &terms),
            Self::Manual(store) => store.decide_now_with(&all(asks, in_memory)?, &verb, &terms),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.decide_with(&all(asks, in_redis)?, verb, terms).await,
        }
    }

    async fn inspect(&self, ask: &Ask<'_, AnyPolicy>) -> Result<Option<InspectedKey>, StoreError> {
        match self {
            Self::Memory(store) => store.inspect(&in_memory(ask)?).await,
            Self::Manual(store) => store.inspect(&in_memory(ask)?).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.inspect(&in_redis(ask)?).await,
        }
    }

    fn now(&self) -> Timestamp {
        match self {
            Self::Memory(store) => store.now(),
            Self::Manual(store) => store.now(),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.now(),
        }
    }

    fn health(&self) -> HealthStatus {
        match self {
            Self::Memory(store) => store.health(),
            Self::Manual(store) => store.health(),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.health(),
        }
    }

    #[inline]
    fn decide_here(&self, ask: &Ask<'_, AnyPolicy>, take: &Take) -> Option<Decision> {
        match self {
            Self::Memory(store) => store.decide_here(&in_memory(ask).ok()?, take),
            Self::Manual(store) => store.decide_here(&in_memory(ask).ok()?, take),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.decide_here(&in_redis(ask).ok()?, take),
        }
    }

    async fn close(&self) {
        match self {
            Self::Memory(store) => store.close().await,
            Self::Manual(store) => store.close().await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.close().await,
        }
    }

    fn submit(&self, ask: Ask<'_, AnyPolicy>, verb: Verb) {
        // A policy of another store was never charged here.
        match self {
            Self::Memory(store) => _ = in_memory(&ask).map(|ask| store.submit(ask, verb)),
            Self::Manual(store) => _ = in_memory(&ask).map(|ask| store.submit(ask, verb)),
            #[cfg(feature = "redis")]
            Self::Redis(store) => _ = in_redis(&ask).map(|ask| store.submit(ask, verb)),
        }
    }
}

impl InlineLimits for AnyStore {
    fn install_variant(&self, policy: Policy) -> Result<AnyPolicy, StoreError> {
        match self {
            Self::Memory(store) => store.install_variant(policy).map(AnyPolicy::Memory),
            Self::Manual(store) => store.install_variant(policy).map(AnyPolicy::Memory),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.install_variant(policy).map(AnyPolicy::Redis),
        }
    }
}

impl From<MemoryStore> for AnyStore {
    fn from(store: MemoryStore) -> Self {
        Self::Memory(store)
    }
}

impl From<MemoryStore<ManualClock>> for AnyStore {
    fn from(store: MemoryStore<ManualClock>) -> Self {
        Self::Manual(store)
    }
}

#[cfg(feature = "redis")]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
impl From<RedisStore> for AnyStore {
    fn from(store: RedisStore) -> Self {
        Self::Redis(store)
    }
}

#[inline]
fn decide_in_memory<C: Clock>(
    store: &MemoryStore<C>,
    asks: &[Ask<'_, AnyPolicy>],
    verb: &Verb,
) -> Result<Decision, StoreError> {
    match asks {
        [ask] => Immediate::decide_now(store, &[in_memory(ask)?], verb),
        asks => Immediate::decide_now(store, &all(asks, in_memory)?, verb),
    }
}

/// The asks of one request, for the store that keeps their policies.
type Asks<'a, P> = SmallVec<[Ask<'a, P>; 2]>;

fn all<'a, P>(
    asks: &[Ask<'a, AnyPolicy>],
    one: impl Fn(&Ask<'a, AnyPolicy>) -> Result<Ask<'a, P>, StoreError>,
) -> Result<Asks<'a, P>, StoreError> {
    asks.iter().map(one).collect()
}

#[inline]
fn in_memory<'a>(ask: &Ask<'a, AnyPolicy>) -> Result<Ask<'a, InstalledPolicy>, StoreError> {
    match ask.policy {
        AnyPolicy::Memory(policy) => Ok(Ask::new(policy, ask.key).cost(ask.cost)),
        #[cfg(feature = "redis")]
        AnyPolicy::Redis(_) => Err(of_another_store()),
    }
}

#[cfg(feature = "redis")]
fn in_redis<'a>(ask: &Ask<'a, AnyPolicy>) -> Result<Ask<'a, RedisPolicy>, StoreError> {
    match ask.policy {
        AnyPolicy::Redis(policy) => Ok(Ask::new(policy, ask.key).cost(ask.cost)),
        AnyPolicy::Memory(_) => Err(of_another_store()),
    }
}

#[cold]
#[cfg(feature = "redis")]
fn of_another_store() -> StoreError {
    StoreError::Refused { address: "this process".to_owned(), reason: "the policy belongs to another store".to_owned() }
}
