//! The keys of a request: validated, with their names on the server and the rules in force.

use std::sync::Arc;

use ratekeeper_core::{Ask, StoreError, Verb, bounds::MAX_KEY_BYTES};

use crate::{
    ledger::RequestKey,
    policies::{RedisPolicy, Version},
};

/// For each key of a request, the rules in force and the key's name on the server.
pub(super) struct Keys(Vec<(Arc<Version>, Vec<u8>)>);

impl Keys {
    pub(super) fn of(asks: &[Ask<'_, RedisPolicy>]) -> Self {
        let versions = asks.iter().map(|ask| (ask.policy.current(), ask.key));
        Self(versions.map(|(version, key)| (Arc::clone(&version), version.keys.name(key))).collect())
    }

    pub(super) fn requests<'a>(&'a self, asks: &'a [Ask<'_, RedisPolicy>]) -> impl Iterator<Item = RequestKey<'a>> {
        let keys = asks.iter().zip(&self.0);
        keys.map(|(ask, (version, name))| RequestKey { version, name, cost: ask.cost })
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
