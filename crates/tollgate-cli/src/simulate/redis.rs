//! Keys on a server, for one run: a prefix of its own, the clock of the file, and the server's word or none.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    time::{Duration, Instant},
};

use tokio::runtime::{Builder, Runtime};
use tollgate_core::{Ask, Carry, Decision, Micros, Policy, Store, Verb};
use tollgate_redis::{Address, LinkSettings, PretendClock, RedisConfig, RedisPolicy, RedisStore};

use crate::report::{self, Failure};

/// Keys in Redis or Valkey.
pub(crate) struct InRedis {
    runtime: Runtime,
    store: RedisStore,
    clock: PretendClock,
    policy: RedisPolicy,
    address: String,
    prefix: String,
    began: Instant,
    /// Requests answered so far.
    rows: u64,
}

impl InRedis {
    pub(crate) fn new(policy: Policy, address: &Address) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let clock = PretendClock::default();
        // Under the prefix that accounts have rights for; apart from the limits of those who use it in earnest.
        let prefix = format!("tollgate:simulate-{:016x}", RandomState::new().build_hasher().finish());
        let mut link = LinkSettings::default();
        (link.deadline, link.connect_timeout) = (PATIENCE, PATIENCE);
        let config = RedisConfig::default().prefix(&prefix).pretend_time(clock.clone()).link(link);
        let store = {
            let _entered = runtime.enter();
            RedisStore::open(address.clone(), config)
        };
        let address = address.to_string();
        let failed = |error| Failure::StoreFailed { address: address.clone(), error };
        let policy = store.install(policy, Carry::Keep).map_err(failed)?;
        Ok(Self { runtime, store, clock, policy, address, prefix, began: Instant::now(), rows: 0 })
    }

    /// The server decides, or the run ends: an answer of any other origin would be one about something else.
    pub(crate) fn decide(&mut self, key: &str, verb: &Verb, now: Micros) -> Result<Decision, Failure> {
        if self.began.elapsed() > LONGEST_RUN {
            return Err(Failure::StoreTooSlow { address: self.address.clone(), rows: self.rows });
        }
        self.clock.set(now);
        let asks = [Ask::new(&self.policy, key)];
        let decision = self.runtime.block_on(self.store.decide_by_server(&asks, verb));
        let decision = decision.map_err(|error| Failure::StoreFailed { address: self.address.clone(), error })?;
        self.rows += 1;
        Ok(decision)
    }

    pub(crate) fn clean_up(&mut self) {
        if self.rows == 0 {
            return;
        }
        if let Err(error) = self.runtime.block_on(self.store.forget_all()) {
            let failure = Failure::StoreFailed { address: self.address.clone(), error };
            report::tell(&format_args!("warning: {failure}; keys under {}:* are left to expire", self.prefix));
        }
    }
}

/// For a decision and for a dial. Nobody waits behind this one, so a slow server is merely slow.
const PATIENCE: Duration = Duration::from_secs(10);
/// On a clock of ours, keys live for an hour of real time longer than they would; then they begin to go.
const LONGEST_RUN: Duration = Duration::from_secs(3_600);
