//! Charging the store for local grants, before it decides about their key again.
//!
//! Every caller that finds a key in debt sends the key's charge before its own call. Several of them may send the same
//! one: it has an operation id, and only the first has an effect. A charge whose reply is lost is sent again with the
//! same id. Keys that no caller asks about are charged in the background, [`BATCH`] at once and a pause after each batch.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tollgate_core::{Decision, Verb};

use super::{Failure, Inner, MOST_CARRIES, RedisStore};
use crate::{
    fallback::said_by_charge,
    key::charges_name,
    ledger::{Charge, Party},
    link::{Call, CallError},
    policies::Version,
    reply::{self, Reply},
    request,
    standing::Standing,
};

impl RedisStore {
    /// Charges what the keys of a request owe. A reset needs no charge: it clears the debt as well.
    pub(super) async fn charge_first(&self, asks: &[Party<'_>], verb: &Verb, deadline: Instant) -> Result<(), Failure> {
        if self.inner.fallback.ledger.owing().0 == 0 || matches!(verb, Verb::Reset) {
            return Ok(());
        }
        for ask in asks {
            self.charge_key(ask, deadline).await?;
        }
        Ok(())
    }

    /// Until nothing is owed any more; grants may be added meanwhile by callers whose calls failed.
    async fn charge_key(&self, party: &Party<'_>, deadline: Instant) -> Result<(), Failure> {
        let inner = &*self.inner;
        for _ in 0..MOST_CHARGES {
            let Some(charge) = inner.fallback.ledger.due(party.version, party.name, self.now_here()) else {
                return Ok(());
            };
            let decision = match self.send_charge(party, &charge, deadline).await {
                Ok(decision) => decision,
                Err(failure) => {
                    let surely = !matches!(failure, Failure::Call(CallError::Unknown { .. }) | Failure::Strange);
                    inner.fallback.ledger.not_charged(party.name, charge.sequence, surely);
                    return Err(failure);
                }
            };
            let grants = inner.fallback.ledger.charged(party, charge.sequence, &said_by_charge(&decision));
            inner.counters.local_grants_charged.add(grants);
        }
        Err(Failure::Late)
    }

    async fn send_charge(&self, party: &Party<'_>, charge: &Charge, deadline: Instant) -> Result<Decision, Failure> {
        let inner = &*self.inner;
        let Version { policy, scripts, .. } = &**party.version;
        let id_name = charges_name(party.name, inner.process);
        let names: [&[u8]; 2] = [party.name, &id_name];
        for _ in 0..MOST_CARRIES {
            let mut args = vec![request::charge(party.version.tagged(), charge)];
            self.pretend(&mut args);
            inner.counters.local_charges_sent.add_one();
            let call = Call { script: &scripts.charge, keys: &names, args, deadline };
            let value = inner.link.call(call).await.map_err(|error| match error {
                CallError::Refused { code, .. } if code == "WRONGTYPE" => Self::another_kind(&names),
                error => error.into(),
            })?;
            match reply::to_amend(policy, &Verb::Peek, &value) {
                Reply::Decided(decision) => {
                    self.keep_written_down(party.version);
                    return Ok(decision);
                }
                Reply::Late if Instant::now() < deadline => {}
                Reply::Late => return Err(Failure::Late),
                Reply::NotOurs { value, now, .. } => {
                    self.carry_over(party.version, party.name, value, now, deadline).await?;
                }
                Reply::Strange => return Err(Failure::Strange),
            }
        }
        Err(Failure::Late)
    }

    /// Charges in the background as long as anything is owed.
    pub(super) fn ensure_charging(&self) {
        self.inner.charging.ensure(|| {
            let inner = Arc::downgrade(&self.inner);
            async move {
                while let Some(inner) = inner.upgrade() {
                    let store = Self { inner };
                    if store.inner.fallback.ledger.owing().0 == 0 {
                        return;
                    }
                    // While the server is being asked whether it would decide, that is answered first: a call that a replica
                    // refuses gives up the connection, and the question would find none.
                    let is_asked = store.inner.doubt.is_asking();
                    let pause = if !is_asked && store.charge_some().await { BETWEEN_BATCHES } else { BETWEEN_TRIES };
                    drop(store);
                    tokio::time::sleep(pause).await;
                }
            }
        });
    }

    /// Charges the store for every local grant, as far as that succeeds in the time given, and says how many keys still
    /// owe something. For a graceful end of the process: what it owes then is forgotten with it.
    pub async fn charge_local_grants(&self, within: Duration) -> u64 {
        let ends = Instant::now() + within;
        loop {
            let (owing, _) = self.inner.fallback.ledger.owing();
            if owing == 0 || Instant::now() >= ends {
                return owing;
            }
            if !self.charge_some().await {
                tokio::time::sleep(BETWEEN_TRIES.min(ends.saturating_duration_since(Instant::now()))).await;
            }
        }
    }

    /// One batch. Says whether any of it was charged.
    async fn charge_some(&self) -> bool {
        // A server that refuses is asked once a second whether it would decide again; until then it is left alone.
        if matches!(self.standing(), Standing::Away(_)) {
            return false;
        }
        let mut charging = JoinSet::new();
        for (version, name) in self.inner.fallback.ledger.some_owing(BATCH) {
            let store = self.clone();
            charging.spawn(async move {
                let deadline = Instant::now() + store.inner.config.link.deadline;
                let party = Party { version: &version, name: &name, times: 1 };
                let charged = store.charge_key(&party, deadline).await;
                if let Err(failure) = &charged {
                    store.doubt_after(failure);
                    // What is refused for good waits until the key is asked about.
                    if !matches!(failure, Failure::NotOurs(_) | Failure::Call(CallError::Refused { .. })) {
                        store.inner.fallback.ledger.name_again(&name);
                    }
                }
                charged.is_ok()
            });
        }
        let mut any = false;
        while let Some(done) = charging.join_next().await {
            any |= done.unwrap_or(false);
        }
        any
    }
}

impl Inner {
    /// Numbers for health pages: keys with grants that are not charged yet, and those grants.
    pub(crate) fn owing(&self) -> (u64, u64) {
        self.fallback.ledger.owing()
    }
}

/// Keys charged at once in the background, and the pauses: 32 000 a second at most.
const BATCH: usize = 64;
const BETWEEN_BATCHES: Duration = Duration::from_millis(2);
const BETWEEN_TRIES: Duration = Duration::from_millis(200);
/// Charges of one key for one call. Each after the first is for grants that were made while the one before was under way.
const MOST_CHARGES: usize = 4;
