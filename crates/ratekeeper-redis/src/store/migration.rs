//! Migration of state written under other rules, and treatment of foreign values.
//!
//! A script that reads a value with another tag changes nothing and returns the value. The rules of that tag are known
//! here or stored on the server. The state is migrated as the core does it, and replaces the value if that is unchanged.
//! Then the request is sent again. This happens once per key and change of rules; every other decision is one round trip.

use std::{sync::Arc, time::Instant};

use ratekeeper_core::{
    LeaseId, Policy, Span, Timestamp,
    algorithm::{Algorithm, AnyAlgorithm, Charge},
    store_api::{Allotment, AllottedKey, KeyState, migrate_state},
};
use redis::Value;

use crate::{
    config::OnForeignState,
    fingerprint,
    key::definition_name,
    link::{Call, DEADLINE_BYTES, Destination},
    policies::Version,
    request::Tagged,
    state::{self, Tag},
    store::{Failure, RedisStore, failure::Unreadable},
};

impl RedisStore {
    /// Replaces the value that was found by one under the current rules.
    pub(crate) async fn migrate_state(
        &self,
        version: &Version,
        name: &[u8],
        found: Vec<u8>,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let migrated = match self.read_and_migrate(version, &found, now, deadline).await? {
            Some(state) => {
                self.inner.link.events().migrated(version.policy.name());
                state
            }
            None => AllottedKey::new(self.replacement_of_foreign(version, name, &found, now)?),
        };
        let encoded = state::encode_allotted(&version.policy, version.tag, &migrated, now);
        let (value, ttl) = encoded.unwrap_or_default();
        let (option, expiry) = match self.inner.config.clock {
            Some(_) => ("PXAT", ttl + self.inner.expiry_base),
            None => ("PX", ttl),
        };
        let args = vec![vec![0; DEADLINE_BYTES], found, value, option.into(), expiry.to_string().into_bytes()];
        let call = Call { script: &self.inner.replace, keys: &[name], args, deadline };
        // If the value has changed meanwhile nothing is replaced, and the next reply returns the new one.
        self.inner.link.call(call).await?;
        Ok(())
    }

    /// The state of a value, migrated to the current rules. `None` if the value is foreign: damaged, not ours, or written
    /// under rules that are not known any more.
    pub(super) async fn read_and_migrate(
        &self,
        version: &Version,
        found: &[u8],
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Option<AllottedKey>, Failure> {
        let Some(tag) = Tag::found_in(found) else { return Ok(None) };
        let Some(old) = self.rules_of(tag, deadline).await? else { return Ok(None) };
        let Some((_, mut key)) = state::decode_allotted(&old, tag, found) else { return Ok(None) };
        // Ended allotments are charged under the old rules.
        let _ = old.allotted_request_key(&mut key, 0, now);
        let AllottedKey { state, mut allotments } = key;
        let mut state = migrate_state(&old, &version.policy, state, version.carry, now);
        if version.prepaid.is_none() {
            charge_as_if_used(&version.policy, &mut state, &allotments, now);
            allotments.clear();
        }
        Ok(Some(AllottedKey { state, allotments }))
    }

    /// The rules with this tag: known here, or read from the server and checked against their fingerprint.
    async fn rules_of(&self, tag: Tag, deadline: Instant) -> Result<Option<Arc<Policy>>, Failure> {
        if let Some(known) = self.inner.policies.with_tag(tag) {
            return Ok(Some(known));
        }
        let name = definition_name(&self.inner.config.prefix, tag.fingerprint());
        let command = redis::cmd("GET").arg(&name).to_owned();
        let Value::BulkString(text) = self.inner.link.command(Destination::Key(&name), &command, deadline).await?
        else {
            return Ok(None);
        };
        let text = String::from_utf8(text).unwrap_or_default();
        if Tag::new(fingerprint::fingerprint(&text)) != tag {
            return Ok(None);
        }
        Ok(fingerprint::parse(&text).map(|policy| self.inner.policies.learn(tag, policy)))
    }

    fn replacement_of_foreign(
        &self,
        version: &Version,
        name: &[u8],
        found: &[u8],
        now: Timestamp,
    ) -> Result<KeyState, Failure> {
        let mut state = version.policy.fresh();
        let action = match self.inner.config.on_foreign_state {
            OnForeignState::Fail => "left alone",
            OnForeignState::Fresh => "replaced by an initial state",
            OnForeignState::Spent => "replaced by an exhausted state",
        };
        self.inner.link.events().foreign(version.policy.name(), Some(found.len()), action);
        match self.inner.config.on_foreign_state {
            // Counted with each request that meets it.
            OnForeignState::Fail => {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(Failure::NotOurs(Unreadable { name, found: excerpt(found) }));
            }
            OnForeignState::Fresh => self.inner.counters.foreign_states.add_one(),
            OnForeignState::Spent => {
                self.inner.counters.foreign_states.add_one();
                for (rule, rule_state) in version.policy.rules().iter().zip(&mut state.states) {
                    let everything = Charge { cost: rule.algorithm().limit(), at: now, lease: LeaseId(0) };
                    rule.algorithm().penalize(rule_state, everything, now);
                }
            }
        }
        Ok(state)
    }

    /// The failure for a key that holds a list, a set or the like. Such a key belongs to another application and is left
    /// alone, whatever `on_foreign_state` says.
    pub(crate) fn wrong_type(&self, subjects: &[Tagged<'_>], names: &[&[u8]]) -> Failure {
        let policy = subjects.first().map_or("", |subject| subject.policy.name());
        self.inner.link.events().foreign(policy, None, "left alone");
        let name = names.iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>().join("\" or \"");
        Failure::NotOurs(Unreadable { name, found: "a value that is no string".to_owned() })
    }
}

/// Charges held permits as if they were used just before they end. Under rules that are not prepaid their holders are not
/// recorded, and may use them until then.
fn charge_as_if_used(policy: &Policy, key_state: &mut KeyState, allotments: &[Allotment], now: Timestamp) {
    for Allotment { held, end, .. } in allotments.iter().filter(|allotment| allotment.held > 0) {
        for (rule, state) in policy.rules().iter().zip(&mut key_state.states) {
            let charge = Charge { cost: *held, at: *end - Span::MICROSECOND, lease: LeaseId(0) };
            if !matches!(rule.algorithm(), AnyAlgorithm::Leases(_)) {
                rule.algorithm().charge(state, charge, now);
            }
        }
    }
}

/// Length and first bytes of a value, escaped.
fn excerpt(value: &[u8]) -> String {
    let beginning = &value[..value.len().min(24)];
    let more = if beginning.len() < value.len() { "…" } else { "" };
    format!("{} bytes, beginning with \"{}{more}\"", value.len(), beginning.escape_ascii())
}
