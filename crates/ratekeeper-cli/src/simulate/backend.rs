//! Store backend of a replay: in this process, or in Redis.
//!
//! An enum instead of a trait object or an async interface keeps decisions in memory plain calls; a run may make ten million
//! of them.

use ratekeeper_core::{
    Ask, Decision, Immediate, OnQuotaChange, Policy, Speed, Store, StoreError, Terms, Timestamp, Verb,
};
use ratekeeper_memory::{InstalledPolicy, ManualClock, MemoryConfig, MemoryStore};
use ratekeeper_redis::Address;

use super::{args::SimulateArgs, redis::RedisBackend};
use crate::report::{self, Failure};

/// The value of `--store`.
#[derive(Debug)]
pub(crate) enum StoreChoice {
    Memory { budget_mib: u32 },
    Redis(Box<Address>),
}

impl StoreChoice {
    pub(crate) fn of(args: &SimulateArgs) -> Result<Self, Failure> {
        match Self::parse(&args.store)? {
            Self::Memory { .. } => Ok(Self::Memory { budget_mib: args.budget }),
            redis => Ok(redis),
        }
    }

    /// The embedded store, for few keys.
    pub(crate) fn memory() -> Self {
        Self::Memory { budget_mib: 64 }
    }

    /// `memory`, or the address of a Redis server.
    pub(crate) fn parse(word: &str) -> Result<Self, Failure> {
        match word {
            "memory" => Ok(Self::memory()),
            address => Address::parse(address)
                .map(|address| Self::Redis(Box::new(address)))
                .map_err(|error| Failure::Store(error.into())),
        }
    }
}

/// A store with one policy, driven by the times in the file.
pub(crate) enum Backend {
    Memory(MemoryBackend),
    Redis(Box<RedisBackend>),
}

impl Backend {
    pub(crate) fn new(store: &StoreChoice, policy: Policy) -> Result<Self, Failure> {
        // One process replays requests in the order of the file, so there is nothing to prepay.
        let policy = policy.with_speed(Speed::Exact);
        Ok(match store {
            StoreChoice::Memory { budget_mib } => Self::Memory(MemoryBackend::new(policy, *budget_mib)?),
            StoreChoice::Redis(address) => Self::Redis(Box::new(RedisBackend::new(policy, address)?)),
        })
    }

    #[inline]
    pub(crate) fn decide(
        &mut self,
        key: &str,
        cost: u64,
        verb: &Verb,
        terms: &Terms,
        now: Timestamp,
    ) -> Result<Decision, Failure> {
        match self {
            Self::Memory(memory) => memory.decide(key, cost, verb, terms, now),
            Self::Redis(redis) => redis.decide(key, cost, verb, terms, now),
        }
    }

    /// Deletes the keys of this run, and warns if memory was short.
    pub(crate) fn clean_up(&mut self) {
        match self {
            Self::Memory(memory) => report::warn_if_memory_was_short(memory.store.stats(), memory.budget_mib),
            Self::Redis(redis) => redis.clean_up(),
        }
    }
}

/// The embedded store on a manual clock.
pub(crate) struct MemoryBackend {
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
    policy: InstalledPolicy,
    budget_mib: u32,
}

impl MemoryBackend {
    fn new(policy: Policy, budget_mib: u32) -> Result<Self, Failure> {
        let clock = ManualClock::default();
        let bytes = usize::try_from(u64::from(budget_mib) << 20).unwrap_or(usize::MAX);
        let store = MemoryStore::with(MemoryConfig::default().budget_bytes(bytes), clock.clone());
        let policy = store.install(policy, OnQuotaChange::Keep).map_err(Failure::Undecided)?;
        Ok(Self { store, clock, policy, budget_mib })
    }

    #[inline]
    fn decide(
        &mut self,
        key: &str,
        cost: u64,
        verb: &Verb,
        terms: &Terms,
        now: Timestamp,
    ) -> Result<Decision, Failure> {
        self.clock.set(now);
        let ask = [Ask::new(&self.policy, key).cost(cost)];
        let decided = match terms.is_none() {
            true => self.store.decide_now(&ask, verb),
            false => self.store.decide_now_with(&ask, verb, terms),
        };
        match decided {
            // The state of the key, without permits that were charged.
            Err(StoreError::UnknownId) => self.store.decide_now(&ask, &Verb::Peek),
            decided => decided,
        }
        .map_err(Failure::Undecided)
    }
}
