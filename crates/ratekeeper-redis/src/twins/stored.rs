//! One key of a scenario, with the value and TTL that the server should have.

use ratekeeper_core::{Policy, Timestamp, algorithm::AnyAlgorithm, store_api::AllottedKey};
use redis::Value;

use crate::{
    request::Tagged,
    state::{self, Tag},
};

/// Expiry base in milliseconds: long after the test. A key's TTL is its expiry minus this.
pub(super) const EXPIRY_BASE: u64 = 10_000_000_000_000;

pub(super) struct Key {
    pub(super) name: String,
    pub(super) policy: Policy,
    pub(super) tag: Tag,
    /// The expected value and TTL.
    pub(super) stored: Option<(Vec<u8>, u64)>,
    /// The last operation id that was executed.
    pub(super) charged: u64,
}

impl Key {
    pub(super) fn tagged(&self) -> Tagged<'_> {
        Tagged { policy: &self.policy, tag: self.tag, cost: 1, now: Timestamp::EPOCH }
    }

    /// The value without the free room of a single log, whose size depends on when it was last written as a whole. The
    /// room must be at most an eighth of the entries, and zero.
    pub(super) fn without_room(&self, stored: Option<(Vec<u8>, u64)>) -> Option<(Vec<u8>, u64)> {
        let (mut value, lives) = stored?;
        if let [rule] = self.policy.rules()
            && let AnyAlgorithm::Log(_) = rule.algorithm()
        {
            let head = value.len() - list_length(&value);
            let entries = u32::from_be_bytes(value[head + 12..head + 16].try_into().unwrap()) as usize;
            let room = value.split_off(head + 49 + 12 * entries);
            assert!(room.len() / 12 <= entries / 8 && room.iter().all(|byte| *byte == 0), "{room:?}");
            let length = u32::try_from(49 + 12 * entries).unwrap();
            value[head - 4..head].copy_from_slice(&length.to_be_bytes());
        }
        Some((value, lives))
    }

    /// The state of the stored value.
    pub(super) fn subject(&self) -> AllottedKey {
        match &self.stored {
            Some((value, _)) => {
                state::decode_allotted(&self.policy, self.tag, value).expect("a stored value can be read").1
            }
            None => AllottedKey::new(self.policy.fresh()),
        }
    }
}

/// The value and TTL of a reply.
pub(super) fn as_stored((value, expires): (Value, Value)) -> Option<(Vec<u8>, u64)> {
    match (value, expires) {
        (Value::BulkString(value), Value::Int(expires)) => {
            let lives = u64::try_from(expires).ok().and_then(|at| at.checked_sub(EXPIRY_BASE));
            Some((value, lives.expect("no key without a time to live")))
        }
        _ => None,
    }
}

/// The length of the only list of a value, from its start.
fn list_length(value: &[u8]) -> usize {
    let begins = match value[0] {
        b'U' => 13 + 21,
        b'V' => 13 + 21 + 20 + 27 * usize::from(value[13 + 21 + 19]),
        _ => 13,
    };
    value.len() - begins - 4
}
