//! What can be wrong with an address, and what would do.
//!
//! No message repeats the address itself: a password may stand anywhere in a line that could not be read.

/// An address that could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Not one of the ways to connect.
    #[error(
        "the address starts with \"{found}\"; redis://, redis+sentinel:// and redis+cluster:// would do, \
         or the same with rediss for TLS"
    )]
    Scheme {
        /// What stands before `://`, or the first word.
        found: String,
    },
    /// No host between `//` and the path.
    #[error("the address names no host; write redis://127.0.0.1:6379, for example")]
    NoHost,
    /// A host or port that cannot be read.
    #[error(
        "\"{found}\" is no host and port; host:6379, 10.0.0.1:6379 or [::1]:6379 would do, and a password's @ and / written as %40 and %2F"
    )]
    Host {
        /// The piece, without credentials.
        found: String,
    },
    /// Several hosts where one is meant.
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
    /// Sentinels without the name of what they watch.
    #[error("sentinels need the primary's name; write redis+sentinel://host:26379/mymaster, for example")]
    NoPrimaryName,
    /// More path than there is meaning for.
    #[error("\"/{found}\" follows what a path can say; leave it out")]
    LongPath {
        /// The rest.
        found: String,
    },
    /// An option nobody knows.
    #[error("\"{found}\" is no option; ca, cert, key, sentinel_user and sentinel_password are")]
    Option {
        /// Its name.
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
    /// A user without a password: Redis has no such thing.
    #[error("the user \"{user}\" has no password; write user:password@host, or :password@host for the default user")]
    NoPassword {
        /// Who.
        user: String,
    },
}
