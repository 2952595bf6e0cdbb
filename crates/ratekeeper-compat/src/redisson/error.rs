//! Errors of a limiter shared with Redisson.

use std::time::Duration;

use ratekeeper_core::StoreError;

/// Why permits were neither granted nor refused. Nothing was charged, except if the outcome is unknown: then a grant that
/// may have been made is returned once the server answers again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedissonError {
    /// The rate is not set, or has expired.
    #[error("limiter `{name}` is not set up (or has expired); call `try_set_rate` first")]
    NotInitialized {
        /// The limiter, as mapped.
        name: String,
    },
    /// No wait would suffice.
    #[error("{permits} permits were asked for at once, and the rate is {rate}; ask for less, or in parts")]
    AboveRate {
        /// The permits requested.
        permits: u64,
        /// The rate.
        rate: u64,
    },
    /// Java would add an empty grant, which makes others wait in a busy loop.
    #[error("0 permits were asked for; ask for at least 1")]
    NoPermits,
    /// A grant has 32 bits for its permits; Java would store the lower 32.
    #[error("{permits} permits do not fit into one grant, which holds up to {}; ask in parts", u32::MAX)]
    TooManyPermits {
        /// The permits requested.
        permits: u64,
    },
    /// A rate that is not valid.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// A grant in no form that a release of Redisson writes.
    #[error(
        "`{key}` holds a grant of {bytes} bytes, as no release of Redisson writes them; `set_rate`, `delete` or `DEL {key}` \
         clears it, and the limiter begins anew"
    )]
    UnreadableGrant {
        /// The sorted set.
        key: String,
        /// The size of what was found.
        bytes: u64,
    },
    /// The configuration is not one that Redisson writes.
    #[error("the config of limiter `{name}` cannot be read: {found}; `set_rate` or `delete` clears it")]
    DamagedConfig {
        /// The limiter, as mapped.
        name: String,
        /// What is wrong with it.
        found: String,
    },
    /// The keys of one limiter, or of the old and the new name, belong to different nodes of a cluster.
    #[error("the keys of `{name}` lie in different slots of the cluster; {advice}")]
    ApartInCluster {
        /// The limiter, as mapped.
        name: String,
        /// The remedy.
        advice: &'static str,
    },
    /// The server did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A rate that is not valid. Nothing was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// Every request would be refused.
    #[error("a rate of 0 permits refuses every request; 1 is the least")]
    Zero,
    /// Scripts compute in doubles.
    #[error("a rate of {rate} permits is more than {max}, up to which scripts compute exactly")]
    TooHigh {
        /// The rate requested.
        rate: u64,
        /// The most.
        max: u64,
    },
    /// Redisson counts in milliseconds and would truncate the rest, down to 0.
    #[error("{span:?} is not a whole number of milliseconds above 0, which is what Redisson counts in")]
    NotInMillis {
        /// The duration found.
        span: Duration,
    },
    /// Longer than a TTL can be.
    #[error("{span:?} is longer than {max:?}")]
    TooLong {
        /// The duration found.
        span: Duration,
        /// The most.
        max: Duration,
    },
    /// The limiter would expire while grants still count.
    #[error("a keep-alive time of {keep_alive:?} is shorter than the interval, {interval:?}")]
    KeepAliveTooShort {
        /// The keep-alive time found.
        keep_alive: Duration,
        /// The least.
        interval: Duration,
    },
}
