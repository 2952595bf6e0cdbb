//! Why a limiter shared with Redisson could not do what it was asked to.

use std::time::Duration;

use tollgate_core::StoreError;

/// Something other than "granted" or "refused". Nothing was charged, unless the server fell silent: then what may have
/// been taken is given back as soon as it answers again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedissonError {
    /// Nobody has said how many permits there are, or it has expired.
    #[error("limiter `{name}` is not set up (or has expired); call `try_set_rate` first")]
    NotInitialized {
        /// The limiter, as mapped.
        name: String,
    },
    /// No wait would do.
    #[error("{permits} permits were asked for at once, and the rate is {rate}; ask for less, or in parts")]
    AboveRate {
        /// Asked for.
        permits: u64,
        /// The most there can be.
        rate: u64,
    },
    /// Java would add an empty grant, which makes others wait in a busy loop.
    #[error("0 permits were asked for; ask for at least 1")]
    NoPermits,
    /// A grant has 32 bits for its permits; Java would store the remainder.
    #[error("{permits} permits do not fit into one grant, which holds up to {}; ask in parts", u32::MAX)]
    TooManyPermits {
        /// Asked for.
        permits: u64,
    },
    /// A rate that cannot be kept.
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
    /// The config is no config of Redisson's.
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
        /// What would do.
        advice: &'static str,
    },
    /// The server could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A rate that cannot be kept, told before anything is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// Everybody would be refused, for ever.
    #[error("a rate of 0 permits refuses everyone; 1 is the least")]
    Zero,
    /// Scripts reckon in doubles.
    #[error("a rate of {rate} permits is more than {max}, up to which scripts reckon exactly")]
    TooHigh {
        /// Asked for.
        rate: u64,
        /// The most.
        max: u64,
    },
    /// Redisson counts in milliseconds and would cut the rest off, down to 0.
    #[error("{span:?} is not a whole number of milliseconds above 0, which is what Redisson counts in")]
    NotInMillis {
        /// Asked for.
        span: Duration,
    },
    /// Beyond what a time to live can be.
    #[error("{span:?} is longer than {max:?}")]
    TooLong {
        /// Asked for.
        span: Duration,
        /// The most.
        max: Duration,
    },
    /// The limiter would forget grants that still count.
    #[error("a keep-alive time of {keep_alive:?} is shorter than the interval, {interval:?}")]
    KeepAliveTooShort {
        /// Asked for.
        keep_alive: Duration,
        /// The least.
        interval: Duration,
    },
}
