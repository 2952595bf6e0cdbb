//! What scripts answer, in words of ours.

use std::time::Duration;

use redis::Value;

use super::{error::RedissonError, keys::Keys};
use crate::store::Failure;

/// The answer to one attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "an answer that nobody reads holds nobody back"]
pub enum Outcome {
    /// The permits are the caller's, until the interval is over.
    Granted {
        /// Permits still free.
        available: u64,
    },
    /// Not now. Nothing was charged.
    Refused(Refusal),
}

/// How long to wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// When so many permits will be free, unless others come first or somebody gives some back. Zero if a timeout was up
    /// before the server could say.
    pub retry_after: Duration,
    /// What Redisson would say: 3 ms after the oldest grant lapses, which may not be enough for several permits.
    pub redisson_wait: Duration,
}

impl Outcome {
    /// Whether the permits are the caller's.
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted { .. })
    }
}

/// A code and what follows the time.
#[derive(Debug)]
pub(super) struct Reply {
    code: i64,
    numbers: [i64; 2],
}

impl Reply {
    /// Reads a list of numbers, or the string that plain answers come in. `Late` is not in it: whoever calls a script asks
    /// again then.
    pub(super) fn read(value: &Value) -> Result<Self, Failure> {
        let parts = match value {
            Value::Array(parts) => parts,
            Value::BulkString(packed) => return Self::unpack(packed).ok_or(Failure::Strange),
            _ => return Err(Failure::Strange),
        };
        let number = |at: usize| match parts.get(at) {
            Some(Value::Int(number)) => *number,
            _ => 0,
        };
        match parts.first() {
            Some(Value::Int(LATE)) => Err(Failure::Late),
            Some(Value::Int(code)) => Ok(Self { code: *code, numbers: [number(2), number(3)] }),
            _ => Err(Failure::Strange),
        }
    }

    /// As `plain.lua` packs it.
    fn unpack(packed: &[u8]) -> Option<Self> {
        let (code, rest) = packed.split_first()?;
        let (first, rest) = rest.get(NUMBERS_AT..)?.split_first_chunk()?;
        let second = rest.first_chunk()?;
        Some(Self { code: i64::from(*code), numbers: [i64::from_be_bytes(*first), i64::from_be_bytes(*second)] })
    }

    /// Yes or no, or why neither.
    pub(super) fn yes(&self, keys: &Keys) -> Result<bool, RedissonError> {
        match self.code {
            NO => Ok(false),
            YES => Ok(true),
            _ => Err(self.trouble(keys, 0)),
        }
    }

    /// The number that comes with a yes.
    pub(super) fn count(&self, keys: &Keys) -> Result<u64, RedissonError> {
        if self.code == YES { Ok(natural(self.numbers[0])) } else { Err(self.trouble(keys, 0)) }
    }

    pub(super) fn outcome(&self, keys: &Keys, permits: u64) -> Result<Outcome, RedissonError> {
        let [first, second] = self.numbers;
        match self.code {
            YES => Ok(Outcome::Granted { available: natural(first) }),
            NO => Ok(Outcome::Refused(Refusal {
                // A millisecond at least: nobody asks again in the same one.
                retry_after: Duration::from_millis(natural(first).max(1)),
                redisson_wait: Duration::from_millis(natural(second)),
            })),
            _ => Err(self.trouble(keys, permits)),
        }
    }

    fn trouble(&self, keys: &Keys, permits: u64) -> RedissonError {
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
            _ => RedissonError::Store(Failure::Strange.into()),
        }
    }
}

fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Behind the code: five bytes of nothing and seven for the time.
const NUMBERS_AT: usize = 12;

// As the headers of the scripts say.
const NO: i64 = 0;
const YES: i64 = 1;
const NOT_SET_UP: i64 = 2;
const LATE: i64 = 3;
const UNREADABLE: i64 = 4;
const ABOVE_RATE: i64 = 5;
const DAMAGED: i64 = 6;
