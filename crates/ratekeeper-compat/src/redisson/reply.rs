//! Replies of the Redisson scripts.

use std::time::Duration;

use redis::Value;

use super::{error::RedissonError, keys::Keys};
use crate::failure::CallFailure;

/// The outcome of one attempt to acquire permits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "an outcome that is not read limits nothing"]
pub enum AcquireOutcome {
    /// The permits are granted until the interval is over.
    Granted {
        /// Permits still free.
        available: u64,
    },
    /// Refused for now. Nothing was charged.
    Refused(AcquireWait),
}

/// How long a refused caller has to wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AcquireWait {
    /// Time until the permits are free, unless others take or release some before. Zero if a timeout was over before the
    /// server's reply.
    pub retry_after: Duration,
    /// The wait that Redisson computes: 3 ms after the oldest grant ends, which may not suffice for several permits.
    pub redisson_wait: Duration,
}

impl AcquireOutcome {
    /// Whether the permits are granted.
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted { .. })
    }
}

/// A reply: its code, and the two numbers after the time.
#[derive(Debug)]
pub(super) struct ScriptReply {
    code: i64,
    numbers: [i64; 2],
}

impl ScriptReply {
    /// Reads a list of numbers, or the packed string of `plain.lua`. "Late" is an error, after which the caller runs the
    /// script again.
    pub(super) fn read(value: &Value) -> Result<Self, CallFailure> {
        let parts = match value {
            Value::Array(parts) => parts,
            Value::BulkString(packed) => return Self::unpack(packed).ok_or(CallFailure::UnexpectedReply),
            _ => return Err(CallFailure::UnexpectedReply),
        };
        let number = |at: usize| match parts.get(at) {
            Some(Value::Int(number)) => *number,
            _ => 0,
        };
        match parts.first() {
            Some(Value::Int(LATE)) => Err(CallFailure::Late),
            Some(Value::Int(code)) => Ok(Self { code: *code, numbers: [number(2), number(3)] }),
            _ => Err(CallFailure::UnexpectedReply),
        }
    }

    /// Reads the packing of `plain.lua`.
    fn unpack(packed: &[u8]) -> Option<Self> {
        let (code, rest) = packed.split_first()?;
        let (first, rest) = rest.get(NUMBERS_AT..)?.split_first_chunk()?;
        let second = rest.first_chunk()?;
        Some(Self { code: i64::from(*code), numbers: [i64::from_be_bytes(*first), i64::from_be_bytes(*second)] })
    }

    /// Whether the operation was carried out, or the error.
    pub(super) fn yes(&self, keys: &Keys) -> Result<bool, RedissonError> {
        match self.code {
            NO => Ok(false),
            YES => Ok(true),
            _ => Err(self.error(keys, 0)),
        }
    }

    /// The number of a successful reply.
    pub(super) fn count(&self, keys: &Keys) -> Result<u64, RedissonError> {
        if self.code == YES { Ok(natural(self.numbers[0])) } else { Err(self.error(keys, 0)) }
    }

    pub(super) fn outcome(&self, keys: &Keys, permits: u64) -> Result<AcquireOutcome, RedissonError> {
        let [first, second] = self.numbers;
        match self.code {
            YES => Ok(AcquireOutcome::Granted { available: natural(first) }),
            NO => Ok(AcquireOutcome::Refused(AcquireWait {
                // At least 1 ms: another attempt in the same millisecond would be refused.
                retry_after: Duration::from_millis(natural(first).max(1)),
                redisson_wait: Duration::from_millis(natural(second)),
            })),
            _ => Err(self.error(keys, permits)),
        }
    }

    fn error(&self, keys: &Keys, permits: u64) -> RedissonError {
        let (name, number) = (keys.name().to_owned(), natural(self.numbers[0]));
        match self.code {
            NOT_SET_UP => RedissonError::NotInitialized { name },
            UNREADABLE => {
                let [shared, own] = keys.grants();
                let key = if self.numbers[1] == 1 { own } else { shared };
                RedissonError::UnreadableGrant { key: key.to_owned(), bytes: number }
            }
            ABOVE_RATE => RedissonError::AboveRate { permits, rate: number },
            DAMAGED => RedissonError::DamagedConfig { name, found: "a field is no number".to_owned() },
            _ => RedissonError::Store(CallFailure::UnexpectedReply.into()),
        }
    }
}

fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// After the code: five unused bytes and seven of the time.
const NUMBERS_AT: usize = 12;

// Codes of lua/redisson/*.lua; see clock.lua.
const NO: i64 = 0;
const YES: i64 = 1;
const NOT_SET_UP: i64 = 2;
const LATE: i64 = 3;
const UNREADABLE: i64 = 4;
const ABOVE_RATE: i64 = 5;
const DAMAGED: i64 = 6;
