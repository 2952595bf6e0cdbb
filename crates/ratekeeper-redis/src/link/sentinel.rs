//! Sentinel: discovery of the primary.
//!
//! The sentinels are asked before every connection, as their protocol requires, and `ROLE` of the server is checked,
//! because a sentinel's view may be stale.
//!
//! They are also asked every `failover_check` while the connection is healthy: in a planned failover the old primary
//! accepts writes for about eight seconds before it is demoted, and those writes are lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use redis::{Value, cmd};
use tokio::time::sleep;

use super::{
    connect::{ConnectError, Connected, Connector},
    connection::ServerConnection,
    settings::LinkSettings,
};
use crate::address::{Address, Credentials, HostPort};

/// The sentinels of one primary.
#[derive(Debug)]
pub(super) struct Sentinels {
    addresses: Vec<HostPort>,
    primary_name: String,
    connector: Connector,
    check_every: Duration,
    /// Index of the sentinel that answered last. It is asked first, so that a dead sentinel costs one timeout.
    last_answered: AtomicUsize,
    /// The connection to the sentinel that was asked last.
    connection: Mutex<Option<Arc<ServerConnection>>>,
}

impl Sentinels {
    pub(super) fn new(
        addresses: Vec<HostPort>,
        primary_name: String,
        credentials: Credentials,
        address: &Address,
        settings: &LinkSettings,
    ) -> Self {
        let connector = Connector::for_sentinels(address, credentials, settings);
        Self {
            addresses,
            primary_name,
            connector,
            check_every: settings.failover_check,
            last_answered: AtomicUsize::new(0),
            connection: Mutex::new(None),
        }
    }

    pub(super) fn addresses(&self) -> &[HostPort] {
        &self.addresses
    }

    /// Connects to the primary. If the server that a sentinel names is a replica, the next sentinel is asked.
    pub(super) async fn connect_to_primary(&self, connector: &Connector) -> Result<Connected, ConnectError> {
        let count = self.addresses.len();
        let first = self.last_answered.load(Ordering::Relaxed);
        let mut failures = Vec::new();
        for index in (0..count).map(|step| (first + step) % count) {
            let sentinel = &self.addresses[index];
            let found = match self.ask(sentinel).await {
                Ok(address) => connect_if_primary(connector, &address).await.map_err(|error| (address, error)),
                Err(error) => Err((sentinel.clone(), error)),
            };
            match found {
                Ok(connected) => {
                    self.last_answered.store(index, Ordering::Relaxed);
                    return Ok(connected);
                }
                // A wrong password is wrong everywhere; the error must not be hidden by those of dead sentinels.
                Err((_, refused @ ConnectError::Refused(_))) => return Err(refused),
                Err((address, ConnectError::NotExecuted(why))) => failures.push(format!("{address}: {why}")),
            }
        }
        failures.dedup();
        Err(ConnectError::unreachable(failures.join("; ")))
    }

    /// Waits until a sentinel names another primary. A sentinel that does not answer is no reason to reconnect.
    pub(super) async fn deposed(&self, primary: &HostPort) {
        loop {
            sleep(self.check_every).await;
            let index = self.last_answered.load(Ordering::Relaxed);
            let Some(sentinel) = self.addresses.get(index) else { return std::future::pending().await };
            match self.ask(sentinel).await {
                Ok(named) if named != *primary => return,
                Ok(_) => {}
                Err(_) => self.last_answered.store((index + 1) % self.addresses.len(), Ordering::Relaxed),
            }
        }
    }

    /// The address of the primary, according to one sentinel.
    async fn ask(&self, sentinel: &HostPort) -> Result<HostPort, ConnectError> {
        let connection = self.connection_to(sentinel).await?;
        let mut command = cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(&self.primary_name);
        let reply = self.connector.with_timeout(connection.ask(&command, false)).await;
        let reply = reply.inspect_err(|_| *self.connection.lock() = None)?;
        match reply {
            Value::Nil => Err(ConnectError::unreachable(format!(
                "the sentinel watches no primary named \"{}\"",
                self.primary_name
            ))),
            Value::ServerError(error) => Err(ConnectError::unreachable(error.to_string())),
            other => {
                read_address(&other).ok_or_else(|| ConnectError::unreachable("the sentinel's answer makes no sense"))
            }
        }
    }

    async fn connection_to(&self, sentinel: &HostPort) -> Result<Arc<ServerConnection>, ConnectError> {
        let open = self
            .connection
            .lock()
            .clone()
            .filter(|connection| connection.address == *sentinel && !connection.is_closed());
        if let Some(connection) = open {
            return Ok(connection);
        }
        let connection = Arc::new(self.connector.connect(sentinel).await?.connection);
        *self.connection.lock() = Some(connection.clone());
        Ok(connection)
    }
}

/// Connects, if the server's `ROLE` is primary.
async fn connect_if_primary(connector: &Connector, address: &HostPort) -> Result<Connected, ConnectError> {
    let connected = connector.connect(address).await?;
    let reply = connector.with_timeout(connected.connection.ask(&cmd("ROLE"), false)).await?;
    match read_role(&reply) {
        Some(b"master") => Ok(connected),
        Some(role) => {
            Err(ConnectError::unreachable(format!("it is a {}, not the primary", String::from_utf8_lossy(role))))
        }
        // Without the right to `ROLE`, a replica is found by its reply `READONLY`.
        None => Ok(connected),
    }
}

fn read_role(reply: &Value) -> Option<&[u8]> {
    let Value::Array(parts) = reply else { return None };
    let Value::BulkString(role) = parts.first()? else { return None };
    Some(role)
}

fn read_address(reply: &Value) -> Option<HostPort> {
    let Value::Array(parts) = reply else { return None };
    let [Value::BulkString(host), Value::BulkString(port)] = parts.as_slice() else { return None };
    let (host, port) = (std::str::from_utf8(host).ok()?, std::str::from_utf8(port).ok()?);
    Some(HostPort::new(host, port.parse().ok()?))
}
