//! Address of a store: topology, hosts, credentials, database and TLS files in one URL.
//!
//! [`parse`] reads it, [`show`] prints it without credentials.

mod error;
mod host;
mod parse;
mod show;

use std::{path::PathBuf, str::FromStr};

pub use self::error::AddressError;
pub use self::host::HostPort;

/// Where and how to connect. Displayed without user and password.
///
/// ```text
/// redis://[user[:password]@]host[:port][/database]
/// redis+sentinel://[user[:password]@]host[:port][,host[:port]…]/primary-name[/database]
/// redis+cluster://[user[:password]@]host[:port][,host[:port]…]
/// ```
///
/// `rediss` in place of `redis` uses TLS and always verifies the server's certificate; it needs the feature `tls`. Options
/// follow a question mark: `ca`, `cert` and `key` name PEM files (trusted authorities, client certificate and its key),
/// `sentinel_user` and `sentinel_password` are the credentials for the sentinels. Reserved characters are written as `%40`
/// and the like: a `/` or `?` before the last `@` is an error, since it might end the password or be part of it.
///
/// ```
/// use ratekeeper_redis::Address;
///
/// let address = Address::parse("redis://app:s3cret@redis.internal:6380/2")?;
/// assert_eq!(address.to_string(), "redis://redis.internal:6380/2");
/// # Ok::<(), ratekeeper_redis::AddressError>(())
/// ```
#[derive(Clone, Eq, PartialEq)]
pub struct Address {
    pub(crate) topology: Topology,
    /// The credentials for the servers that keep the data.
    pub(crate) credentials: Credentials,
    pub(crate) database: u32,
    /// `None`: plain TCP.
    pub(crate) tls: Option<TlsFiles>,
}

/// How the servers are found.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Topology {
    /// One server, or a name that resolves to the primary.
    Standalone(HostPort),
    /// Sentinels, which know the primary's address.
    Sentinel {
        /// Addresses of some of them.
        sentinels: Vec<HostPort>,
        /// The name that they monitor the primary under.
        primary_name: String,
        /// The user and password for the sentinels themselves.
        credentials: Credentials,
    },
    /// A cluster.
    Cluster {
        /// Addresses of some nodes, from which the others are learnt.
        seeds: Vec<HostPort>,
    },
}

/// A user and a password, either of which may be missing.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Credentials {
    /// `None`: the user `default`.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// PEM files, read for every connection, so that a renewed certificate is used without a restart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct TlsFiles {
    /// Trusted authorities. `None`: those of the system.
    pub(crate) ca: Option<PathBuf>,
    /// The client certificate, if the server requests one.
    pub(crate) identity: Option<Identity>,
}

/// A certificate and its private key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Identity {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Address {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let address = parse::parse(text)?;
        if address.tls.is_some() && !cfg!(feature = "tls") {
            return Err(AddressError::NoTls);
        }
        Ok(address)
    }

    /// How the servers are found.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The user, if one is named; else the server's user `default`.
    pub fn user(&self) -> Option<&str> {
        self.credentials.user.as_deref()
    }

    /// One server, with the credentials, database and TLS settings of this address.
    pub fn at_server(&self, server: &HostPort) -> Self {
        Self { topology: Topology::Standalone(server.clone()), ..self.clone() }
    }

    /// One sentinel, with the sentinels' credentials and the TLS settings of this address.
    pub fn at_sentinel(&self, sentinel: &HostPort) -> Self {
        let credentials = match &self.topology {
            Topology::Sentinel { credentials, .. } => credentials.clone(),
            _ => Credentials::default(),
        };
        Self { credentials, database: 0, ..self.at_server(sentinel) }
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
