//! Addresses as they may be shown: in messages, in logs, to anyone. No password gets through.

use std::fmt;

use super::{Address, Credentials, HostPort, Topology};

/// As it was written, less the password, the options and what is the default anyway.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        let user = self.credentials.user.as_deref().map(|user| format!("{user}@")).unwrap_or_default();
        match &self.topology {
            Topology::Standalone(host) => write!(f, "{scheme}://{user}{host}"),
            Topology::Sentinel { sentinels, primary_name, .. } => {
                write!(f, "{scheme}+sentinel://{user}{}/{primary_name}", list(sentinels))
            }
            Topology::Cluster { seeds } => write!(f, "{scheme}+cluster://{user}{}", list(seeds)),
        }?;
        match self.database {
            0 => Ok(()),
            database => write!(f, "/{database}"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&format_args!("{self}")).finish()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| format_args!("…"));
        f.debug_struct("Credentials").field("user", &self.user).field("password", &password).finish()
    }
}

fn list(hosts: &[HostPort]) -> String {
    let hosts: Vec<_> = hosts.iter().map(HostPort::to_string).collect();
    hosts.join(",")
}
