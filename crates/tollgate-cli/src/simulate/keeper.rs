//! Where keys are kept while requests are replayed: in this process, or on a server.
//!
//! A choice of two rather than a trait object or an async seam: answers from memory stay plain calls, since ten million
//! of them are made in one run.

use tollgate_core::{Ask, Carry, Decision, Micros, Policy, Store, Verb};
use tollgate_memory::{InstalledPolicy, ManualClock, MemoryConfig, MemoryStore};
use tollgate_redis::Address;

use super::redis::InRedis;
use crate::{
    cli::SimulateArgs,
    report::{self, Failure},
};

/// What `--store` asks for.
#[derive(Debug)]
pub(crate) enum Place {
    Memory { budget_mib: u32 },
    Redis(Box<Address>),
}

impl Place {
    pub(crate) fn of(args: &SimulateArgs) -> Result<Self, Failure> {
        match args.store.as_str() {
            "memory" => Ok(Self::Memory { budget_mib: args.budget }),
            address => Address::parse(address).map(|address| Self::Redis(Box::new(address))).map_err(Failure::Store),
        }
    }
}

/// A store with one policy, whose clock is the file.
pub(crate) enum Keeper {
    Memory(InMemory),
    Redis(Box<InRedis>),
}

impl Keeper {
    pub(crate) fn new(place: &Place, policy: Policy) -> Result<Self, Failure> {
        Ok(match place {
            Place::Memory { budget_mib } => Self::Memory(InMemory::new(policy, *budget_mib)?),
            Place::Redis(address) => Self::Redis(Box::new(InRedis::new(policy, address)?)),
        })
    }

    #[inline]
    pub(crate) fn decide(&mut self, key: &str, verb: &Verb, now: Micros) -> Result<Decision, Failure> {
        match self {
            Self::Memory(memory) => memory.decide(key, verb, now),
            Self::Redis(redis) => redis.decide(key, verb, now),
        }
    }

    /// Leaves nothing behind, and says what there is to say.
    pub(crate) fn clean_up(&mut self) {
        match self {
            Self::Memory(memory) => report::warn_if_memory_was_short(memory.store.stats(), memory.budget_mib),
            Self::Redis(redis) => redis.clean_up(),
        }
    }
}

/// Keys in this process.
pub(crate) struct InMemory {
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
    policy: InstalledPolicy,
    budget_mib: u32,
}

impl InMemory {
    fn new(policy: Policy, budget_mib: u32) -> Result<Self, Failure> {
        let clock = ManualClock::default();
        let bytes = usize::try_from(u64::from(budget_mib) << 20).unwrap_or(usize::MAX);
        let store = MemoryStore::with(MemoryConfig::default().budget_bytes(bytes), clock.clone());
        let policy = store.install(policy, Carry::Keep).map_err(Failure::Undecided)?;
        Ok(Self { store, clock, policy, budget_mib })
    }

    #[inline]
    fn decide(&mut self, key: &str, verb: &Verb, now: Micros) -> Result<Decision, Failure> {
        self.clock.set(now);
        self.store.decide_now(&[Ask::new(&self.policy, key)], verb).map_err(Failure::Undecided)
    }
}
