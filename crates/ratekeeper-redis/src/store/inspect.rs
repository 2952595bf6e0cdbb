//! The state of a key for explanations: one read-only script, without fallback.
//!
//! A value that was written under other rules is migrated in this process; the stored one stays as it is.

use std::time::Instant;

use ratekeeper_core::{
    Ask, StoreError, Timestamp,
    store_api::{AllottedKey, InspectedKey},
};
use redis::Value;

use super::{Failure, NamedKey, RedisStore, check};
use crate::{
    link::{Call, DEADLINE_BYTES},
    policies::RedisPolicy,
    state,
    store::failure::Unreadable,
};

impl RedisStore {
    /// Reads the value of the key and the server's time.
    pub(super) async fn inspect_key(&self, ask: &Ask<'_, RedisPolicy>) -> Result<InspectedKey, StoreError> {
        check(std::slice::from_ref(ask), &ratekeeper_core::Verb::Peek)?;
        let key = NamedKey::of(ask);
        let deadline = Instant::now() + self.inner.config.link.deadline;
        Ok(self.read_key(&key, deadline).await?)
    }

    async fn read_key(&self, key: &NamedKey, deadline: Instant) -> Result<InspectedKey, Failure> {
        let (inner, version) = (&*self.inner, &*key.version);
        let args = vec![vec![0; DEADLINE_BYTES]];
        let call = Call { script: &inner.inspect, keys: &[&key.name], args, deadline };
        let (value, server_time) = read_reply(inner.link.call(call).await?).ok_or(Failure::Strange)?;
        let at = inner.config.clock.as_ref().map_or(server_time, |clock| clock.now());
        let Some(value) = value else {
            return Ok(InspectedKey { at, state: version.policy.fresh(), held: 0 });
        };
        let decoded = match state::decode_allotted(&version.policy, version.tag, &value) {
            Some((_, decoded)) => Some(decoded),
            None => self.read_and_migrate(version, &value, at, deadline).await?,
        };
        let Some(AllottedKey { state, allotments }) = decoded else {
            let name = String::from_utf8_lossy(&key.name).into_owned();
            return Err(Failure::NotOurs(Unreadable { name, found: format!("{} bytes", value.len()) }));
        };
        let held = allotments.iter().filter(|allotment| allotment.end > at).map(|allotment| allotment.held).sum();
        Ok(InspectedKey { at, state, held })
    }
}

/// The value, if there is one, and the server's time.
fn read_reply(reply: Value) -> Option<(Option<Vec<u8>>, Timestamp)> {
    let Value::Array(parts) = reply else { return None };
    let [Value::BulkString(seconds), Value::BulkString(micros), value @ ..] = parts.as_slice() else { return None };
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
    let at = number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)?;
    let value = match value {
        [Value::BulkString(value)] => Some(value.clone()),
        _ => None,
    };
    Some((value, Timestamp::from_micros(at)))
}
