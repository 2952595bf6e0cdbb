//! Redis backend of a replay: a prefix per run, the clock of the file, and no fallback.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    time::{Duration, Instant},
};

use ratekeeper_core::{Ask, Decision, OnQuotaChange, Policy, Store, StoreError, Terms, Timestamp, Verb};
use ratekeeper_redis::{Address, LinkSettings, ManualClock, RedisConfig, RedisPolicy, RedisStore};
use tokio::runtime::{Builder, Runtime};

use crate::report::{self, Failure};

/// A store in Redis or Valkey.
pub(crate) struct RedisBackend {
    runtime: Runtime,
    store: RedisStore,
    clock: ManualClock,
    policy: RedisPolicy,
    address: String,
    prefix: String,
    began: Instant,
    /// Requests decided so far.
    requests: u64,
}

impl RedisBackend {
    pub(crate) fn new(policy: Policy, address: &Address) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let clock = ManualClock::default();
        // Below the prefix that ACLs usually allow, and separate from the keys of real limits.
        let prefix = format!("ratekeeper:simulate-{:016x}", RandomState::new().build_hasher().finish());
        let mut link = LinkSettings::default();
        (link.deadline, link.connect_timeout) = (TIMEOUT, TIMEOUT);
        let config = RedisConfig::default().prefix(&prefix).manual_clock(clock.clone()).link(link);
        let store = {
            let _entered = runtime.enter();
            RedisStore::open(address.clone(), config)
        };
        let address = address.to_string();
        let failed = |error| Failure::StoreFailed { address: address.clone(), error };
        let policy = store.install(policy, OnQuotaChange::Keep).map_err(failed)?;
        Ok(Self { runtime, store, clock, policy, address, prefix, began: Instant::now(), requests: 0 })
    }

    /// Decides on the server. A failure ends the run, because a fallback decision would not follow the rules.
    pub(crate) fn decide(
        &mut self,
        key: &str,
        cost: u64,
        verb: &Verb,
        terms: &Terms,
        now: Timestamp,
    ) -> Result<Decision, Failure> {
        if self.began.elapsed() > MAX_RUN {
            return Err(Failure::StoreTooSlow { address: self.address.clone(), requests: self.requests });
        }
        self.clock.set(now);
        let asks = [Ask::new(&self.policy, key).cost(cost)];
        let decision = self.runtime.block_on(async {
            match self.store.decide_by_server_with(&asks, verb, terms).await {
                // The state of the key, without permits that were charged.
                Err(StoreError::UnknownId) => self.store.decide_by_server(&asks, &Verb::Peek).await,
                decided => decided,
            }
        });
        let decision = decision.map_err(|error| Failure::StoreFailed { address: self.address.clone(), error })?;
        self.requests += 1;
        Ok(decision)
    }

    pub(crate) fn clean_up(&mut self) {
        if self.requests == 0 {
            return;
        }
        if let Err(error) = self.runtime.block_on(self.store.forget_all()) {
            let failure = Failure::StoreFailed { address: self.address.clone(), error };
            report::print(&format_args!("warning: {failure}; keys under {}:* are left to expire", self.prefix));
        }
    }
}

/// Timeout of a decision and of a connection attempt; generous, because no request waits for it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// On the manual clock, keys expire an hour of real time later than they would otherwise.
const MAX_RUN: Duration = Duration::from_secs(3_600);
