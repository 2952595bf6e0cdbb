//! The Redis store: decides on the server, or by each rule's `on_store_failure` if the server cannot decide.
//!
//! ```text
//!   decide ─▶ keys ─▶ merge ─▶ charge (uncharged local grants) ─▶ ask ─▶ Decision
//!                      │ one key with a call in flight: wait       ├ several nodes ─▶ in_turn
//!                      └─────────── leave together ──▶             └ failure ─▶ on_failure
//! ```

mod ask;
mod charge;
mod clear;
mod definitions;
mod failure;
mod fallback_log;
mod health;
mod in_turn;
mod inspect;
mod keys;
mod local_ids;
mod merge;
mod migration;
mod on_failure;
mod prepaid;
mod reply_slot;
mod server_only;
mod terms;
mod without_rules;

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use ratekeeper_core::{
    Ask, Decision, HealthStatus, InlineLimits, ManualClock, OnQuotaChange, Policy, Source, Store, StoreError, Take,
    Terms, Timestamp, Verb,
    store_api::{Expiring, InspectedKey},
};
use tokio::runtime::Handle;

pub(crate) use self::failure::Failure;
use self::{
    fallback_log::FallbackLog,
    health::HealthProbe,
    keys::{NamedKey, check},
    local_ids::LocalIds,
    merge::{Joined, StoreHotKeys, Turn},
    prepaid::TimedKeys,
    terms::charged,
};
use crate::{
    address::{Address, AddressError},
    allotment::LocalClock,
    config::RedisConfig,
    counters::{Counters, Counts},
    events::EventLimit,
    fallback::Fallback,
    ledger::{InitialShare, RequestKey},
    link::{Background, Destination, Link, Script},
    policies::{Policies, RedisPolicy},
    prepaid_keys::PrepaidKeys,
};

/// A store in Redis or Valkey: one server, a primary behind Sentinel, or a cluster. Cheap to clone.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use ratekeeper_redis::RedisStore;
///
/// let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) link: Link,
    pub(crate) config: RedisConfig,
    pub(crate) counters: Arc<Counters>,
    pub(crate) policies: Policies,
    pub(crate) replace: Script,
    inspect: Script,
    pub(crate) began: Instant,
    fallback: Fallback,
    fallback_log: FallbackLog,
    runtime: Option<Handle>,
    /// Under a manual clock: the expiry, in milliseconds since 1970, of a key with a TTL of 0.
    pub(crate) expiry_base: u64,
    last_failure: Mutex<Option<(Instant, String)>>,
    pub(crate) health: HealthProbe,
    /// Distinguishes the charges of this process from those of others.
    process: u64,
    charging: Background,
    /// Local grants charged since they were last logged.
    charged_since_log: AtomicU64,
    charge_log: EventLimit,
    /// Keys with a call in flight, and the requests that wait for its end.
    hot_keys: StoreHotKeys,
    /// Prepaid keys, with their allotments and remembered denials.
    prepaid: PrepaidKeys,
    timed_keys: Mutex<TimedKeys>,
    local_clock: LocalClock,
    /// Ids of requests that were granted without the server.
    local_ids: LocalIds,
    /// Reservations of this process to be refunded when they expire.
    expiring: Expiring<RedisPolicy>,
    /// Whether any policy was prepaid.
    has_prepaid: AtomicBool,
}

impl RedisStore {
    /// Opens a store with the default settings. Only a malformed address is an error: the server may start later, and
    /// until then rules decide by `on_store_failure`.
    pub async fn connect(url: &str) -> Result<Self, AddressError> {
        Self::connect_with(url, RedisConfig::default()).await
    }

    /// Opens a store with these settings.
    pub async fn connect_with(url: &str, config: RedisConfig) -> Result<Self, AddressError> {
        let store = Self::open(Address::parse(url)?, config);
        store.wait_for_server().await;
        Ok(store)
    }

    /// Opens a store without waiting for the server's first reply.
    pub fn open(address: Address, config: RedisConfig) -> Self {
        let counters = Arc::new(Counters::default());
        let link = Link::open_counted(address, config.link.clone(), Arc::clone(&counters));
        let at = config.clock.as_ref().map_or_else(|| link.server_now(), ManualClock::now);
        let start = InitialShare { at, free_permille: config.local_start_permille };
        let inner = Inner {
            link,
            policies: Policies::default(),
            replace: Script::new(format!("#!lua\n{}", include_str!("../lua/replace.lua"))),
            inspect: Script::new(format!("#!lua flags=no-writes\n{}", include_str!("../lua/inspect.lua"))),
            began: Instant::now(),
            fallback: Fallback::new(config.local_bytes, start),
            fallback_log: FallbackLog::default(),
            process: RandomState::new().build_hasher().finish(),
            charging: Background::default(),
            charged_since_log: AtomicU64::new(0),
            charge_log: EventLimit::default(),
            hot_keys: StoreHotKeys::new(config.link.max_in_flight),
            prepaid: PrepaidKeys::new(),
            timed_keys: Mutex::default(),
            local_clock: LocalClock::new(),
            local_ids: LocalIds::default(),
            expiring: Expiring::default(),
            has_prepaid: AtomicBool::new(false),
            runtime: Handle::try_current().ok(),
            expiry_base: expiry_base_ms(),
            last_failure: Mutex::new(None),
            health: HealthProbe::default(),
            counters,
            config,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Waits for the server, at most `connect_timeout`, so that the first decisions are the store's if it is there.
    async fn wait_for_server(&self) {
        let deadline = Instant::now() + self.inner.config.link.connect_timeout;
        let _ = self.inner.link.command(Destination::Any, &redis::cmd("PING"), deadline).await;
    }

    /// The counters of this store.
    pub fn counts(&self) -> Counts {
        let mut counts = self.inner.counters.snapshot();
        (counts.local_keys_owing, counts.local_grants_owing) = self.inner.owing();
        let prepaid = self.inner.prepaid.counts();
        (counts.decided_by_allotment, counts.cached_denials) = (prepaid.requests, prepaid.denials);
        (counts.allotment_held, counts.allotment_holders) = (prepaid.held, prepaid.holders);
        counts.allotment_granted = prepaid.permits.granted;
        counts.allotment_used = prepaid.permits.used;
        counts.allotment_returned = prepaid.permits.returned;
        counts.allotment_expired = prepaid.permits.expired;
        counts.allotment_lost = prepaid.permits.lost;
        counts
    }

    /// Whether any of its policies was prepaid, so that [`Store::decide_here`] may answer.
    #[inline]
    pub fn has_prepaid(&self) -> bool {
        self.inner.has_prepaid.load(Relaxed)
    }

    /// The last error of a call, and its age. May name a key; meant for health pages, not for logs.
    pub fn last_failure(&self) -> Option<(Duration, String)> {
        let last = self.inner.last_failure.lock();
        last.as_ref().map(|(at, error)| (at.elapsed(), error.clone()))
    }
}

impl Store for RedisStore {
    type Policy = RedisPolicy;

    fn install(&self, policy: Policy, carry: OnQuotaChange) -> Result<RedisPolicy, StoreError> {
        let Inner { policies, config, has_prepaid, .. } = &*self.inner;
        let installed = policies.install(policy, carry, &config.prefix, config.together, config.nodes);
        has_prepaid.fetch_or(installed.load().prepaid.is_some(), Relaxed);
        Ok(installed)
    }

    async fn decide(&self, asks: &[Ask<'_, RedisPolicy>], verb: Verb) -> Result<Decision, StoreError> {
        check(asks, &verb)?;
        if self.is_expiry_due() {
            Box::pin(self.expire_due()).await;
        }
        if let Some(finish) = self.finish_here(asks, &verb) {
            return Box::pin(self.finish_local(finish)).await;
        }
        if let ([ask], Verb::Take(take)) = (asks, &verb)
            && let Some(decision) = self.answer_here(ask, take)
        {
            // A loop of answers without a call must not keep other tasks from running.
            tokio::task::coop::consume_budget().await;
            return Ok(decision);
        }
        if asks.iter().any(without_rules::has_effect) {
            return self.decide_without_rules(asks, verb, &Terms::NONE).await;
        }
        let deadline = Instant::now() + self.inner.config.link.deadline;
        let [ask] = asks else {
            let keys: Vec<NamedKey> = asks.iter().map(NamedKey::of).collect();
            let requests: Vec<RequestKey<'_>> = keys.iter().map(NamedKey::request).collect();
            return self.decide_alone(&requests, &verb, deadline).await;
        };
        // A decision is large, and every `async fn` that returns it copies it. So it is awaited here.
        let failure = match self.join(ask, &verb, deadline) {
            Joined::Alone { key, turn } => {
                let mut turn = turn.map(|turn| Turn::new(self, &key.name, turn));
                let decided = self.decide_alone(&[key.request()], &verb, deadline).await;
                if let Some(turn) = &mut turn {
                    turn.ends_with(&decided);
                }
                return decided;
            }
            Joined::Queued(decision) => match decision.await {
                Some(decided) => return decided,
                None => Failure::NotSent,
            },
            Joined::Full => Failure::TooManyWaiting,
            Joined::Refunded(decision) => return Ok(decision),
            Joined::Prepaid(key) => return Box::pin(self.decide_prepaid(ask, key, verb, deadline)).await,
        };
        self.decide_without_store(&[NamedKey::of(ask).request()], &verb, failure)
    }

    async fn decide_with(
        &self,
        asks: &[Ask<'_, RedisPolicy>],
        verb: Verb,
        terms: Terms,
    ) -> Result<Decision, StoreError> {
        self.decide_under(asks, verb, terms).await
    }

    #[inline]
    fn decide_here(&self, ask: &Ask<'_, RedisPolicy>, take: &Take) -> Option<Decision> {
        self.answer_here(ask, take)
    }

    async fn close(&self) {
        self.return_allotments().await;
    }

    async fn inspect(&self, ask: &Ask<'_, RedisPolicy>) -> Result<Option<InspectedKey>, StoreError> {
        self.inspect_key(ask).await.map(Some)
    }

    fn now(&self) -> Timestamp {
        self.now_here()
    }

    fn health(&self) -> HealthStatus {
        Self::health(self)
    }

    fn submit(&self, ask: Ask<'_, RedisPolicy>, verb: Verb) {
        let (store, policy, key, cost) = (self.clone(), ask.policy.clone(), ask.key.to_owned(), ask.cost);
        let runtime = Handle::try_current().ok().or_else(|| self.inner.runtime.clone());
        if let Some(runtime) = runtime {
            runtime.spawn(async move {
                let _ = store.decide(&[Ask::new(&policy, &key).cost(cost)], verb).await;
            });
        }
    }
}

impl RedisStore {
    /// Decides in a separate call.
    async fn decide_alone(
        &self,
        requests: &[RequestKey<'_>],
        verb: &Verb,
        deadline: Instant,
    ) -> Result<Decision, StoreError> {
        self.decide_alone_with(requests, verb, &Terms::NONE, deadline).await
    }

    /// The same under these terms.
    async fn decide_alone_with(
        &self,
        requests: &[RequestKey<'_>],
        verb: &Verb,
        terms: &Terms,
        deadline: Instant,
    ) -> Result<Decision, StoreError> {
        let inner = &*self.inner;
        // Taken before anything is sent: local grants made meanwhile are recognized when the reply arrives.
        let mark = inner.fallback.ledger.mark();
        let decided = async {
            self.charge_first(requests, verb, deadline).await?;
            self.ask_or_repeat(requests, verb, terms, deadline).await
        };
        match decided.await {
            // A repeated decision says nothing of the key's present state.
            Ok(decision)
                if decision.source == Source::Repeated
                    || inner.fallback.observe(&charged(requests, &decision), verb, &decision, mark) =>
            {
                inner.counters.decided_by_store.add_one();
                inner.fallback_log.decided_by_store();
                Ok(decision)
            }
            Ok(raced) => {
                inner.counters.raced_grants.add_one();
                self.release_raced(requests, &raced);
                self.decide_by_fallback_with(requests, verb, terms)
            }
            Err(failure) => self.decide_without_store_with(requests, verb, terms, failure),
        }
    }
}

impl InlineLimits for RedisStore {
    fn install_variant(&self, policy: Policy) -> Result<RedisPolicy, StoreError> {
        let Inner { policies, config, .. } = &*self.inner;
        Ok(policies.install_variant(policy, &config.prefix, config.together, config.nodes))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("link", &self.inner.link).finish_non_exhaustive()
    }
}

/// Under a manual clock a key expires at this time plus its TTL by that clock: an hour from now, so that no key expires
/// in real time before the test has advanced its clock.
fn expiry_base_ms() -> u64 {
    let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(real.as_millis()).unwrap_or(u64::MAX / 2) + 3_600_000
}
