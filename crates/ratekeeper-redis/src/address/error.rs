//! Errors of addresses, with remedies.
//!
//! No message quotes the whole address, and none quotes anything that precedes its last `@`: all of that may be a
//! password. A part that might be one nevertheless is left empty, and the message names the part instead.

/// An address that could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// An unknown scheme.
    #[error(
        "the address starts with {}; redis://, redis+sentinel:// and redis+cluster:// would do, \
         or the same with rediss for TLS",
        quoted(found, "none of the schemes known here")
    )]
    Scheme {
        /// The scheme with its `://`; empty if it may be part of a password.
        found: String,
    },
    /// `rediss://`, in a build without TLS.
    #[error(
        "the address asks for TLS (rediss://), which this build lacks; enable the feature \"tls\" of ratekeeper-redis \
         (\"redis-tls\" of ratekeeper), or connect without TLS by redis://"
    )]
    NoTls,
    /// A raw `/` or `?` precedes the last `@`.
    #[error(
        "the address has a / or ? before its last @, so where the password ends is unclear; \
         in a user or password write / as %2F, ? as %3F and @ as %40, and after the hosts write @ as %40"
    )]
    UnclearLogin,
    /// No host between `//` and the path.
    #[error("the address names no host; write redis://127.0.0.1:6379, for example")]
    NoHost,
    /// A host or port that cannot be read.
    #[error(
        "{} is no host and port; host:6379, 10.0.0.1:6379 or [::1]:6379 would do, and a user and password go before an @, \
         with their @, / and ? written as %40, %2F and %3F",
        quoted(found, "what follows ://")
    )]
    Host {
        /// The piece, without credentials; empty if it may be part of a password.
        found: String,
    },
    /// Several hosts with `redis://`.
    #[error(
        "{found} hosts are named, and redis:// is for one; write redis+cluster:// or redis+sentinel:// for several"
    )]
    SeveralHosts {
        /// How many.
        found: usize,
    },
    /// A database that is no number.
    #[error("\"{found}\" is no database number; /0 to /15 are there unless the server says otherwise")]
    Database {
        /// What was written.
        found: String,
    },
    /// A path on a cluster's address.
    #[error("a cluster has neither databases nor a name; leave \"/{found}\" out")]
    ClusterPath {
        /// What was written.
        found: String,
    },
    /// Sentinels without the name of the primary.
    #[error("sentinels need the primary's name; write redis+sentinel://host:26379/mymaster, for example")]
    NoPrimaryName,
    /// More path segments than the scheme has.
    #[error("\"/{found}\" follows what a path can say; leave it out")]
    LongPath {
        /// The rest.
        found: String,
    },
    /// An unknown option.
    #[error(
        "{} is no option; ca, cert, key, sentinel_user and sentinel_password are",
        quoted(found, "what follows an & after sentinel_password (written %26 inside it)")
    )]
    Option {
        /// Its name; empty if it may be part of a password.
        found: String,
    },
    /// An option given twice.
    #[error("the option \"{name}\" is given twice; once would do")]
    Twice {
        /// Its name.
        name: String,
    },
    /// An option that does not go with the rest.
    #[error("the option \"{name}\" is of no use here: {why}")]
    Useless {
        /// Its name.
        name: &'static str,
        /// What it would need.
        why: &'static str,
    },
    /// A `%` that does not start two hexadecimal digits of UTF-8.
    #[error("{place} has a % that starts no character; write %25 for a plain one")]
    Percent {
        /// Where.
        place: &'static str,
    },
    /// A user without a password, which Redis does not have.
    #[error("a user is named without a password; write user:password@host, or :password@host for the default user")]
    NoPassword,
}

/// A piece of the address in quotes, or the name of the part if the piece must not be shown.
fn quoted(found: &str, part: &str) -> String {
    if found.is_empty() { part.to_owned() } else { format!("\"{found}\"") }
}
