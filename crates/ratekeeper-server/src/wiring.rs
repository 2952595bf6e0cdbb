//! Store of a server: opening by address, settings, health and statistics.
//!
//! The only module of the server that names a concrete store. All others use [`AnyStore`].

pub use ratekeeper::{AnyPolicy, AnyStore, OpenStoreError};
use ratekeeper::{MemoryConfig, RedisConfig, RedisStore, StoreConfig};
pub use ratekeeper_core::HealthStatus;
pub use ratekeeper_memory::WhenFull;
use ratekeeper_memory::{Clock, MemoryStore};
use ratekeeper_redis::Address;
pub use ratekeeper_redis::{Counts, OnForeignState};

use futures_util::FutureExt;

/// Health and statistics of a store, for metrics and health checks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreHealth {
    /// `memory` or `redis`.
    pub kind: &'static str,
    /// Keys stored in this process.
    pub keys: u64,
    /// Bytes that these keys occupy.
    pub bytes: u64,
    /// Keys removed because they were back in their initial state.
    pub expired: u64,
    /// Keys evicted before that, to free memory.
    pub evicted: u64,
    /// Decisions about keys that had no room in memory.
    pub overflowed: u64,
    /// Overflow decisions that admitted the request without counting it.
    pub unenforced: u64,
    /// Versions of policies in this process, superseded ones included.
    pub policy_versions: u64,
    /// Whether the store can decide.
    pub health: HealthStatus,
    /// The last failure to decide: its age in seconds, and its description.
    pub last_failure: Option<(f64, String)>,
    /// Local grants that are not charged to the server yet: number of keys, number of grants.
    pub owing: (u64, u64),
    /// Counters of the link to the server, by name.
    pub counts: Vec<(&'static str, u64)>,
    /// All counters of a store on a server, allotments included; `None` for a store in memory.
    pub shared: Option<Counts>,
}

/// Opens the store at an address: `memory`, or that of a Redis server. An unreachable server is no error: the link
/// reconnects in the background, and until then each rule is decided by its `on_store_failure`.
pub async fn open_store(url: &str, settings: &StorageSettings) -> Result<AnyStore, OpenStoreError> {
    let memory = MemoryConfig::default().budget_bytes(settings.memory_bytes).when_full(settings.when_full);
    let redis = RedisConfig::default()
        .prefix(settings.prefix.clone())
        .nodes(settings.nodes)
        .local_bytes(settings.memory_bytes)
        .local_start(settings.local_start)
        .on_foreign_state(settings.on_foreign_state)
        .deadline(settings.deadline);
    AnyStore::open_with(url, StoreConfig::new().memory(memory).redis(redis)).await
}

/// The address without credentials.
pub fn shown_address(url: &str) -> String {
    if url == "memory" {
        return url.to_owned();
    }
    Address::parse(url).map_or_else(|_| "an address that cannot be read".to_owned(), |address| address.to_string())
}

/// Charges local grants to the server, for at most this time. Returns the number of keys that are not charged yet.
pub(crate) async fn charge_local_grants(store: &AnyStore, within: std::time::Duration) -> u64 {
    match store {
        AnyStore::Redis(store) => store.charge_local_grants(within).await,
        _ => 0,
    }
}

impl StoreHealth {
    /// The current health and statistics of a store.
    pub fn of(store: &AnyStore) -> Self {
        match store {
            AnyStore::Memory(store) => Self::of_memory(store),
            AnyStore::Manual(store) => Self::of_memory(store),
            AnyStore::Redis(store) => Self::of_redis(store),
            _ => Self::default(),
        }
    }

    fn of_redis(store: &RedisStore) -> Self {
        let counts = store.counts();
        Self {
            kind: "redis",
            health: store.health(),
            last_failure: store.last_failure().map(|(ago, what)| (ago.as_secs_f64(), what)),
            owing: (counts.local_keys_owing, counts.local_grants_owing),
            shared: Some(counts),
            counts: vec![
                ("decided_by_store", counts.decided_by_store),
                ("decided_locally", counts.decided_locally),
                ("local_grants_charged", counts.local_grants_charged),
                ("local_charges_sent", counts.local_charges_sent),
                ("local_no_room", counts.local_no_room),
                ("raced_grants", counts.raced_grants),
                ("let_through", counts.let_through),
                ("turned_away", counts.turned_away),
                ("foreign_states", counts.foreign_states),
                ("ambiguous_calls", counts.ambiguous_calls),
                ("silent_store", counts.silent_store),
                ("silent_by_own_delay", counts.silent_by_own_delay),
                ("replies_read_late", counts.replies_read_late),
                ("breaker_opened", counts.breaker_opened),
                ("breaker_closed", counts.breaker_closed),
                ("script_reloads", counts.script_reloads),
                ("redirects_followed", counts.redirects_followed),
                ("reconnects", counts.reconnects),
                ("dials_failed", counts.dials_failed),
            ],
            ..Self::default()
        }
    }

    fn of_memory<C: Clock>(store: &MemoryStore<C>) -> Self {
        let stats = store.stats();
        Self {
            kind: "memory",
            keys: store.len() as u64,
            bytes: store.bytes() as u64,
            expired: stats.expired,
            evicted: stats.evicted,
            overflowed: stats.overflowed,
            unenforced: stats.unenforced,
            policy_versions: store.policy_versions() as u64,
            ..Self::default()
        }
    }

    /// Whether the store is up or degraded.
    pub fn answers(&self) -> bool {
        !matches!(self.health, HealthStatus::Down(_))
    }
}

/// Settings of the store.
#[derive(Clone, Debug)]
pub struct StorageSettings {
    /// The most bytes of memory for keys and their states in this process.
    pub memory_bytes: usize,
    /// The decision for new keys while keys that are currently limited occupy all memory.
    pub when_full: WhenFull,
    /// The prefix of all keys on a server.
    pub prefix: String,
    /// The number of processes that share the limits. Each enforces its share while the server is unreachable.
    pub nodes: u32,
    /// The fraction of the share, from 0 to 1, that is free while the server has not answered since the start of the
    /// process.
    pub local_start: f64,
    /// What happens to a value under a key of ours that cannot be read. Each is logged, within a bound.
    pub on_foreign_state: OnForeignState,
    /// The deadline of a decision on a server. By default Envoy waits 20 ms for an answer and then admits the request.
    pub deadline: std::time::Duration,
}

impl Default for StorageSettings {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            when_full: WhenFull::default(),
            prefix: "ratekeeper".to_owned(),
            nodes: 1,
            local_start: 0.0,
            on_foreign_state: OnForeignState::default(),
            deadline: std::time::Duration::from_millis(12),
        }
    }
}

/// Awaits a store call without storing its future in that of the caller: it is polled once on the stack if the store is
/// immediate, else boxed.
///
/// An HTTP/2 stream keeps its future until the response is sent, and an unboxed store call was most of its 22 KiB.
pub(crate) async fn small<F: Future>(store: &AnyStore, call: impl Fn() -> F) -> F::Output {
    if let Some(answered) = store.is_immediate().then(|| call().now_or_never()).flatten() {
        return answered;
    }
    Box::pin(call()).await
}
