//! The keys of a request: validated, with their names on the server and the rules in force.

use std::sync::Arc;

use ratekeeper_core::{Ask, StoreError, Verb, bounds::MAX_KEY_BYTES};

use crate::{
    key::KeyName,
    ledger::RequestKey,
    policies::{RedisPolicy, Version},
};

/// The rules in force for one key of a request, and the key's name on the server.
pub(super) struct NamedKey {
    pub(super) version: Arc<Version>,
    pub(super) name: KeyName,
    pub(super) cost: u64,
}

impl NamedKey {
    pub(super) fn of(ask: &Ask<'_, RedisPolicy>) -> Self {
        let version = ask.policy.current();
        Self { name: version.keys.name(ask.key), version, cost: ask.cost }
    }

    pub(super) fn request(&self) -> RequestKey<'_> {
        RequestKey { version: &self.version, name: &self.name, cost: self.cost }
    }
}

pub(super) fn check(asks: &[Ask<'_, RedisPolicy>], verb: &Verb) -> Result<(), StoreError> {
    if let Some(found) = asks.iter().map(|ask| ask.key.len()).find(|length| *length > MAX_KEY_BYTES) {
        return Err(StoreError::KeyTooLong { found, max: MAX_KEY_BYTES });
    }
    match (asks, verb) {
        ([_], _) => Ok(()),
        ([], _) | (_, Verb::Take(_)) => {
            let same = |index: usize| {
                asks[..index]
                    .iter()
                    .any(|other| other.key == asks[index].key && other.policy.is_same_as(asks[index].policy))
            };
            match (0..asks.len()).find(|index| same(*index)) {
                Some(again) => Err(StoreError::SameKeyTwice { key: asks[again].key.to_owned() }),
                None => Ok(()),
            }
        }
        _ => Err(StoreError::OneKeyOnly { verb: verb.name(), found: asks.len() }),
    }
}
