//! The one file that names stores. Everything else asks a [`Storage`] and does not know which it is.

use tollgate_core::{Ask, Carry, Decision, Immediate, Micros, Policy, Store, StoreError, Verb};
pub use tollgate_memory::WhenFull;
use tollgate_memory::{Clock, InstalledPolicy, ManualClock, MemoryConfig, MemoryStore, SystemClock};
use tollgate_redis::{Address, RedisConfig, RedisPolicy, RedisStore};
pub use tollgate_redis::{AddressError as StoreAddressError, Standing};

use futures_util::FutureExt;
use smallvec::SmallVec;

/// Where limits are kept.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In this process.
    Memory(MemoryStore),
    /// In this process, by a clock in somebody's hands: for tests and for what is simulated.
    ByHand(MemoryStore<ManualClock>),
    /// In Redis or Valkey, shared with others.
    Redis(RedisStore),
}

/// A policy that a [`Storage`] has been told about.
#[derive(Clone, Debug)]
pub enum StoredPolicy {
    /// By the store in this process.
    Memory(InstalledPolicy),
    /// By the shared one.
    Redis(RedisPolicy),
}

/// How a store is doing, for metrics and health pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreHealth {
    /// `memory` or `redis`.
    pub kind: &'static str,
    /// Keys remembered in this process.
    pub keys: u64,
    /// Bytes they take.
    pub bytes: u64,
    /// Keys let go because they were as good as new.
    pub expired: u64,
    /// Keys let go before that, for want of room.
    pub evicted: u64,
    /// Decisions for keys that found no room.
    pub overflowed: u64,
    /// Those of them that were admitted without being counted.
    pub unenforced: u64,
    /// Policies and superseded versions of them that are kept in this process.
    pub policy_versions: u64,
    /// Whether it can decide.
    pub standing: Standing,
    /// What last kept the server from deciding, and how many seconds ago that was.
    pub last_failure: Option<(f64, String)>,
    /// Keys with local grants that the server has not been charged for yet, and those grants.
    pub owing: (u64, u64),
    /// Counts by name, of the way to the server.
    pub counts: Vec<(&'static str, u64)>,
}

impl Storage {
    /// `memory`, or the address of a server. A server that is not there yet is no error: it is looked for in the
    /// background, and until it is found rules answer by their own policy.
    pub async fn open(url: &str, settings: &StorageSettings) -> Result<Self, StoreAddressError> {
        if url == "memory" {
            let config = MemoryConfig::default().budget_bytes(settings.memory_bytes).when_full(settings.when_full);
            return Ok(Self::Memory(MemoryStore::with(config, SystemClock::new())));
        }
        let config = RedisConfig::default()
            .prefix(settings.prefix.clone())
            .nodes(settings.nodes)
            .local_bytes(settings.memory_bytes)
            .local_start(settings.local_start)
            .deadline(settings.deadline);
        RedisStore::connect_with(url, config).await.map(Self::Redis)
    }

    /// The address as it may be shown: without credentials.
    pub fn shown(url: &str) -> String {
        if url == "memory" {
            return url.to_owned();
        }
        Address::parse(url).map_or_else(|_| "an address that cannot be read".to_owned(), |address| address.to_string())
    }

    /// `memory` or `redis`.
    pub fn kind(&self) -> &'static str {
        if self.is_immediate() { "memory" } else { "redis" }
    }

    /// Whether answers come without waiting.
    pub fn is_immediate(&self) -> bool {
        !matches!(self, Self::Redis(_))
    }

    /// Decides at once, if this store can.
    #[inline]
    pub fn decide_now(&self, asks: &[Ask<'_, StoredPolicy>], verb: &Verb) -> Option<Result<Decision, StoreError>> {
        match self {
            Self::Memory(store) => Some(in_memory(asks).and_then(|asks| Immediate::decide_now(store, &asks, verb))),
            Self::ByHand(store) => Some(in_memory(asks).and_then(|asks| Immediate::decide_now(store, &asks, verb))),
            Self::Redis(_) => None,
        }
    }

    /// Charges a server for what was granted without it, as far as that succeeds in the time given. Says how many keys
    /// still owe something.
    pub async fn charge_local_grants(&self, within: std::time::Duration) -> u64 {
        match self {
            Self::Memory(_) | Self::ByHand(_) => 0,
            Self::Redis(store) => store.charge_local_grants(within).await,
        }
    }

    /// How it is doing.
    pub fn health(&self) -> StoreHealth {
        match self {
            Self::Memory(store) => memory_health(store),
            Self::ByHand(store) => memory_health(store),
            Self::Redis(store) => {
                let counts = store.counts();
                StoreHealth {
                    kind: "redis",
                    standing: store.standing(),
                    last_failure: store.last_failure().map(|(ago, what)| (ago.as_secs_f64(), what)),
                    owing: (counts.local_keys_owing, counts.local_grants_owing),
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
                    ..StoreHealth::default()
                }
            }
        }
    }
}

impl StoreHealth {
    /// Whether it answers, all of it or a part.
    pub fn answers(&self) -> bool {
        !matches!(self.standing, Standing::Away(_))
    }

    /// How often a node was found to leave too many calls without an answer.
    pub(crate) fn breaker_opened(&self) -> u64 {
        self.counts.iter().find(|(name, _)| *name == "breaker_opened").map_or(0, |(_, count)| *count)
    }
}

/// What a store is told when it is opened.
#[derive(Clone, Debug)]
pub struct StorageSettings {
    /// The most bytes keys and their states may take in this process.
    pub memory_bytes: usize,
    /// What new keys get in memory while all of it is taken by keys that are being limited.
    pub when_full: WhenFull,
    /// What the names of keys begin with, on a server.
    pub prefix: String,
    /// How many processes share the limits: each enforces its share while the server cannot answer.
    pub nodes: u32,
    /// How much of that share is free while the server has not answered since the start: from 0 to 1.
    pub local_start: f64,
    /// The longest a decision may take on a server. Envoy waits 20 ms for an answer, and lets pass after that.
    pub deadline: std::time::Duration,
}

impl Default for StorageSettings {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            when_full: WhenFull::default(),
            prefix: "tollgate".to_owned(),
            nodes: 1,
            local_start: 0.0,
            deadline: std::time::Duration::from_millis(12),
        }
    }
}

impl Store for Storage {
    type Policy = StoredPolicy;

    fn install(&self, policy: Policy, carry: Carry) -> Result<StoredPolicy, StoreError> {
        match self {
            Self::Memory(store) => store.install(policy, carry).map(StoredPolicy::Memory),
            Self::ByHand(store) => store.install(policy, carry).map(StoredPolicy::Memory),
            Self::Redis(store) => store.install(policy, carry).map(StoredPolicy::Redis),
        }
    }

    fn install_beside(&self, policy: Policy) -> Result<StoredPolicy, StoreError> {
        match self {
            Self::Memory(store) => store.install_beside(policy).map(StoredPolicy::Memory),
            Self::ByHand(store) => store.install_beside(policy).map(StoredPolicy::Memory),
            Self::Redis(store) => store.install_beside(policy).map(StoredPolicy::Redis),
        }
    }

    async fn decide(&self, asks: &[Ask<'_, StoredPolicy>], verb: Verb) -> Result<Decision, StoreError> {
        match self {
            Self::Memory(store) => Immediate::decide_now(store, &in_memory(asks)?, &verb),
            Self::ByHand(store) => Immediate::decide_now(store, &in_memory(asks)?, &verb),
            Self::Redis(store) => store.decide(&in_redis(asks)?, verb).await,
        }
    }

    fn now(&self) -> Micros {
        match self {
            Self::Memory(store) => store.now(),
            Self::ByHand(store) => store.now(),
            Self::Redis(store) => store.now(),
        }
    }

    fn tell(&self, ask: Ask<'_, StoredPolicy>, verb: Verb) {
        match (self, ask.policy) {
            (Self::Memory(store), StoredPolicy::Memory(policy)) => {
                store.tell(Ask { policy, key: ask.key, times: ask.times }, verb);
            }
            (Self::ByHand(store), StoredPolicy::Memory(policy)) => {
                store.tell(Ask { policy, key: ask.key, times: ask.times }, verb);
            }
            (Self::Redis(store), StoredPolicy::Redis(policy)) => {
                store.tell(Ask { policy, key: ask.key, times: ask.times }, verb);
            }
            _ => {}
        }
    }
}

fn memory_health<C: Clock>(store: &MemoryStore<C>) -> StoreHealth {
    let stats = store.stats();
    StoreHealth {
        kind: "memory",
        keys: store.len() as u64,
        bytes: store.bytes() as u64,
        expired: stats.expired,
        evicted: stats.evicted,
        overflowed: stats.overflowed,
        unenforced: stats.unenforced,
        policy_versions: store.policy_versions() as u64,
        ..StoreHealth::default()
    }
}

type Asks<'a, P> = SmallVec<[Ask<'a, P>; 2]>;

#[inline]
fn in_memory<'a>(asks: &[Ask<'a, StoredPolicy>]) -> Result<Asks<'a, InstalledPolicy>, StoreError> {
    let one = |ask: &Ask<'a, StoredPolicy>| match ask.policy {
        StoredPolicy::Memory(policy) => Ok(Ask { policy, key: ask.key, times: ask.times }),
        StoredPolicy::Redis(_) => Err(of_another_store()),
    };
    asks.iter().map(one).collect()
}

fn in_redis<'a>(asks: &[Ask<'a, StoredPolicy>]) -> Result<Asks<'a, RedisPolicy>, StoreError> {
    let one = |ask: &Ask<'a, StoredPolicy>| match ask.policy {
        StoredPolicy::Redis(policy) => Ok(Ask { policy, key: ask.key, times: ask.times }),
        StoredPolicy::Memory(_) => Err(of_another_store()),
    };
    asks.iter().map(one).collect()
}

/// A process has one store, so this is never; and if it were, nobody should be limited by the wrong one.
#[cold]
fn of_another_store() -> StoreError {
    StoreError::Refused { address: "this process".to_owned(), reason: "the policy belongs to another store".to_owned() }
}

/// Awaits a question to the store without keeping it in the caller's future: on the stack if the store answers at once, else in a box.
///
/// An HTTP/2 stream keeps its future until the answer is sent, and such a question was most of its 22 KiB.
pub(crate) async fn small<F: Future>(store: &Storage, question: impl Fn() -> F) -> F::Output {
    if let Some(answered) = store.is_immediate().then(|| question().now_or_never()).flatten() {
        return answered;
    }
    Box::pin(question()).await
}
