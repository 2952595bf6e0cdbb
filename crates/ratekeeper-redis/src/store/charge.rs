//! Charging the store for local grants, before it decides about their key again.
//!
//! A call about a key with uncharged grants sends the charge first. Several calls may send the same charge: it has an
//! operation id, and only the first has an effect. A charge whose reply is lost is sent again under the same id. Keys
//! without traffic are charged in the background, [`BATCH`] at a time.
//!
//! No charge is sent to a node that is known to be down. After a failed attempt the ledger delays the next one, and the
//! key is decided locally meanwhile.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use ratekeeper_core::{Decision, HealthStatus, Verb};
use tokio::task::JoinSet;

use super::{Failure, Inner, RedisStore, ask::MAX_MIGRATIONS};
use crate::{
    events::TARGET,
    fallback::report_of_charge,
    key::charges_name,
    ledger::{Due, RequestKey, StoreCharge},
    link::CallError,
    policies::Version,
    reply::{self, Reply},
    request,
};

impl RedisStore {
    /// Charges the uncharged grants of a request's keys. A reset needs no charge: it clears the debt as well.
    pub(super) async fn charge_first(
        &self,
        asks: &[RequestKey<'_>],
        verb: &Verb,
        deadline: Instant,
    ) -> Result<(), Failure> {
        if self.inner.fallback.ledger.owing().0 == 0 || matches!(verb, Verb::Reset) {
            return Ok(());
        }
        for ask in asks {
            self.charge_key(ask, deadline).await?;
        }
        Ok(())
    }

    /// Charges one key until nothing is owed; callers whose calls fail may add grants meanwhile.
    async fn charge_key(&self, party: &RequestKey<'_>, deadline: Instant) -> Result<(), Failure> {
        let inner = &*self.inner;
        for _ in 0..MAX_CHARGES {
            // Nothing is sent to a node that is known to be down, and the charge is not frozen for it.
            if let Some(error) = inner.link.known_failure(party.name) {
                return Err(error.into());
            }
            let charge = match inner.fallback.ledger.due(party.version, party.name, self.now_here(), Instant::now()) {
                Due::Nothing => return Ok(()),
                Due::Later => return Err(Failure::ChargeLater),
                Due::Charge(charge) => charge,
            };
            let decision = match self.send_charge(party, &charge, deadline).await {
                Ok(decision) => decision,
                Err(failure) => {
                    let surely = !matches!(failure, Failure::Call(CallError::Unknown { .. }) | Failure::Strange);
                    // A foreign value is a reply, so the server is healthy and no pause is due.
                    let failed_at = (!matches!(failure, Failure::NotOurs(_))).then(Instant::now);
                    inner.fallback.ledger.not_charged(party.name, charge.sequence, surely, failed_at);
                    return Err(failure);
                }
            };
            let grants = inner.fallback.ledger.charged(party, charge.sequence, &report_of_charge(&decision));
            inner.counters.local_grants_charged.add(grants);
            inner.log_charged(grants);
        }
        Err(Failure::Late)
    }

    async fn send_charge(
        &self,
        party: &RequestKey<'_>,
        charge: &StoreCharge,
        deadline: Instant,
    ) -> Result<Decision, Failure> {
        let inner = &*self.inner;
        let Version { policy, scripts, .. } = &**party.version;
        let id_name = charges_name(party.name, inner.process);
        let names: [&[u8]; 2] = [party.name, &id_name];
        let mut time = self.now_here();
        for _ in 0..MAX_MIGRATIONS {
            inner.counters.local_charges_sent.add_one();
            let subject = party.version.tagged().at(time);
            let numbers = request::charge(subject, charge);
            let value = self.call_script(&scripts.charge, &[subject], &names, numbers, deadline).await?;
            match reply::to_amend(policy, &Verb::Peek, &value) {
                Reply::Decided(decision) => {
                    self.ensure_definition(party.version);
                    return Ok(decision);
                }
                Reply::Late if Instant::now() < deadline => {}
                Reply::Late => return Err(Failure::Late),
                Reply::NotOurs { value, now, .. } => {
                    self.migrate_state(party.version, party.name, value, now, deadline).await?;
                }
                Reply::OtherTime(now) => time = now,
                Reply::Strange | Reply::RepeatedUnread | Reply::UnknownId => return Err(Failure::Strange),
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
                    // Not while the health probe runs: a charge that a replica refuses drops the connection, which the
                    // probe needs.
                    let is_probing = store.inner.health.is_probing();
                    let pause = if !is_probing && store.charge_batch().await { BATCH_PAUSE } else { RETRY_PAUSE };
                    drop(store);
                    tokio::time::sleep(pause).await;
                }
            }
        });
    }

    /// Charges the store for every local grant, for at most this time, and returns the number of keys with uncharged
    /// grants. For a graceful shutdown: uncharged grants are lost with the process.
    pub async fn charge_local_grants(&self, within: Duration) -> u64 {
        let ends = Instant::now() + within;
        loop {
            let (owing, _) = self.inner.fallback.ledger.owing();
            if owing == 0 || Instant::now() >= ends {
                return owing;
            }
            if !self.charge_batch().await {
                tokio::time::sleep(RETRY_PAUSE.min(ends.saturating_duration_since(Instant::now()))).await;
            }
        }
    }

    /// Charges up to [`BATCH`] keys. Returns whether any was charged.
    async fn charge_batch(&self) -> bool {
        // The health probe asks a server that refuses writes once a second.
        if matches!(self.health(), HealthStatus::Down(_)) {
            return false;
        }
        let mut charging = JoinSet::new();
        for (version, name) in self.inner.fallback.ledger.next_owing_keys(BATCH) {
            let store = self.clone();
            charging.spawn(async move {
                let deadline = Instant::now() + store.inner.config.link.deadline;
                let party = RequestKey { version: &version, name: &name, cost: 1 };
                let charged = store.charge_key(&party, deadline).await;
                if let Err(failure) = &charged {
                    store.probe_after(failure);
                    // A charge that would be refused again waits for the next request about its key.
                    if !matches!(failure, Failure::NotOurs(_) | Failure::Call(CallError::Refused { .. })) {
                        store.inner.fallback.ledger.requeue(&name);
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
    /// The number of keys with uncharged grants, and of those grants.
    pub(crate) fn owing(&self) -> (u64, u64) {
        self.fallback.ledger.owing()
    }

    /// Logs the grants charged since the last line, once no key owes anything.
    fn log_charged(&self, grants: u64) {
        self.charged_since_log.fetch_add(grants, Relaxed);
        if self.owing().0 == 0
            && tracing::enabled!(target: TARGET, tracing::Level::INFO)
            && self.charge_log.admit(Instant::now()).is_some()
        {
            let grants = self.charged_since_log.swap(0, Relaxed);
            tracing::info!(target: TARGET, grants, "local grants charged to the store");
        }
    }
}

/// Keys charged concurrently in the background, and the pauses: 32 000 keys a second at most.
const BATCH: usize = 64;
const BATCH_PAUSE: Duration = Duration::from_millis(2);
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Charges of one key per request. Each after the first is for grants made while the one before was in flight.
const MAX_CHARGES: usize = 4;
