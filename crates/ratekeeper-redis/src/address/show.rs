//! Display of addresses in messages, logs and on the dashboard, without user and password.
//!
//! The user is left out because `redis://password@host` is a common mistake.

use std::fmt;

use super::{Address, Credentials, HostPort, Topology};

/// The address without user, password, options and default values.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        match &self.topology {
            Topology::Standalone(host) => write!(f, "{scheme}://{host}"),
            Topology::Sentinel { sentinels, primary_name, .. } => {
                write!(f, "{scheme}+sentinel://{}/{}", list(sentinels), encoded(primary_name))
            }
            Topology::Cluster { seeds } => write!(f, "{scheme}+cluster://{}", list(seeds)),
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
        let hidden = |secret: &Option<String>| secret.as_ref().map(|_| format_args!("…"));
        let (user, password) = (hidden(&self.user), hidden(&self.password));
        f.debug_struct("Credentials").field("user", &user).field("password", &password).finish()
    }
}

/// Percent-encodes reserved and invisible characters.
fn encoded(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || c.is_whitespace() || "%/?@&".contains(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                shown.push_str(&format!("%{byte:02X}"));
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

fn list(hosts: &[HostPort]) -> String {
    let hosts: Vec<_> = hosts.iter().map(HostPort::to_string).collect();
    hosts.join(",")
}
