//! Where the server is and how to get in: one line of text, so that one option of a command or one variable of an
//! environment is enough. [`parse`] reads it, [`show`] says it again without the secrets.

mod error;
mod host;
mod parse;
mod show;

use std::{path::PathBuf, str::FromStr};

pub use self::error::AddressError;
pub(crate) use self::host::HostPort;

/// Where and how to connect. Shown without user and password, always.
///
/// ```text
/// redis://[user[:password]@]host[:port][/database]
/// redis+sentinel://[user[:password]@]host[:port][,host[:port]…]/primary-name[/database]
/// redis+cluster://[user[:password]@]host[:port][,host[:port]…]
/// ```
///
/// `rediss` in place of `redis` speaks TLS and verifies the server's certificate, always. Options follow a question
/// mark: `ca`, `cert` and `key` name PEM files (who is trusted, and who we are), `sentinel_user` and
/// `sentinel_password` are for the sentinels' own door. Reserved characters are written as `%40` and the like: a `/` or `?` before the last `@` is an
/// error, for it might end the password or be part of it.
///
/// ```
/// use tollgate_redis::Address;
///
/// let address = Address::parse("rediss://app:s3cret@redis.internal:6380/2?ca=/etc/ssl/private-ca.pem")?;
/// assert_eq!(address.to_string(), "rediss://redis.internal:6380/2");
/// # Ok::<(), tollgate_redis::AddressError>(())
/// ```
#[derive(Clone, Eq, PartialEq)]
pub struct Address {
    pub(crate) topology: Topology,
    /// Who we are to the servers that keep the data.
    pub(crate) credentials: Credentials,
    pub(crate) database: u32,
    /// Nothing: plain TCP.
    pub(crate) tls: Option<TlsFiles>,
}

/// How the servers hang together.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Topology {
    /// One server, or a name that stands for whichever is in charge.
    Standalone(HostPort),
    /// Sentinels that know who is in charge.
    Sentinel { sentinels: Vec<HostPort>, primary_name: String, credentials: Credentials },
    /// Some nodes of a cluster, which know the others.
    Cluster { seeds: Vec<HostPort> },
}

/// A user and a password, either of which may be missing.
#[derive(Clone, Default, Eq, PartialEq)]
pub(crate) struct Credentials {
    /// Nothing: the user `default`.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// PEM files, read anew for every connection, so that a renewed certificate is taken up without a restart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct TlsFiles {
    /// Whom to trust. Nothing: whom the system trusts.
    pub(crate) ca: Option<PathBuf>,
    /// Who we are, if the server asks.
    pub(crate) identity: Option<Identity>,
}

/// A certificate and its private key: one is of no use without the other.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Identity {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Address {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        parse::parse(text)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests;
