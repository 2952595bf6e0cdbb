//! Finding the primary by way of the sentinels that watch it.
//!
//! Asked anew for every connection, as the sentinel protocol demands: a primary that was in charge a moment ago may be
//! a replica now. What a sentinel says is checked with the server itself, since a sentinel may be behind the times.
//!
//! And asked now and then while all seems well: in a planned failover the old primary goes on taking writes for some
//! eight seconds before the sentinels get round to telling it, and all of those writes are lost.

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
    dial::{DialError, Dialer, Greeted},
    settings::LinkSettings,
    wire::Wire,
};
use crate::address::{Address, Credentials, HostPort};

/// The sentinels of one primary.
#[derive(Debug)]
pub(super) struct Sentinels {
    places: Vec<HostPort>,
    primary_name: String,
    dialer: Dialer,
    check_every: Duration,
    /// Who answered last; asked first next time, so that dead sentinels cost time only once.
    favourite: AtomicUsize,
    /// The line to whoever was asked last.
    line: Mutex<Option<Arc<Wire>>>,
}

impl Sentinels {
    pub(super) fn new(
        places: Vec<HostPort>,
        primary_name: String,
        credentials: Credentials,
        address: &Address,
        settings: &LinkSettings,
    ) -> Self {
        let dialer = Dialer::for_sentinels(address, credentials, settings);
        Self {
            places,
            primary_name,
            dialer,
            check_every: settings.failover_check,
            favourite: AtomicUsize::new(0),
            line: Mutex::new(None),
        }
    }

    pub(super) fn places(&self) -> &[HostPort] {
        &self.places
    }

    /// Connects to the primary. One that is not in charge is no primary, whatever the sentinel says; another sentinel may
    /// know better.
    pub(super) async fn dial_primary(&self, dialer: &Dialer) -> Result<Greeted, DialError> {
        let count = self.places.len();
        let first = self.favourite.load(Ordering::Relaxed);
        let mut failures = Vec::new();
        for index in (0..count).map(|step| (first + step) % count) {
            let sentinel = &self.places[index];
            let found = match self.ask(sentinel).await {
                Ok(place) => dial_if_primary(dialer, &place).await.map_err(|error| (place, error)),
                Err(error) => Err((sentinel.clone(), error)),
            };
            match found {
                Ok(greeted) => {
                    self.favourite.store(index, Ordering::Relaxed);
                    return Ok(greeted);
                }
                // A wrong password is wrong everywhere, and must not drown in talk of dead sentinels.
                Err((_, refused @ DialError::Refused(_))) => return Err(refused),
                Err((place, DialError::NotRun(why))) => failures.push(format!("{place}: {why}")),
            }
        }
        failures.dedup();
        Err(DialError::unreachable(failures.join("; ")))
    }

    /// Waits until a sentinel names another primary than this one. Silence is no reason to leave a server that answers.
    pub(super) async fn deposed(&self, primary: &HostPort) {
        loop {
            sleep(self.check_every).await;
            let index = self.favourite.load(Ordering::Relaxed);
            let Some(sentinel) = self.places.get(index) else { return std::future::pending().await };
            match self.ask(sentinel).await {
                Ok(named) if named != *primary => return,
                Ok(_) => {}
                Err(_) => self.favourite.store((index + 1) % self.places.len(), Ordering::Relaxed),
            }
        }
    }

    /// Where the primary is, according to one sentinel.
    async fn ask(&self, sentinel: &HostPort) -> Result<HostPort, DialError> {
        let wire = self.line_to(sentinel).await?;
        let mut question = cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(&self.primary_name);
        let answer = self.dialer.within_patience(wire.ask(&question, false)).await;
        let answer = answer.inspect_err(|_| *self.line.lock() = None)?;
        match answer {
            Value::Nil => {
                Err(DialError::unreachable(format!("the sentinel watches no primary named \"{}\"", self.primary_name)))
            }
            Value::ServerError(error) => Err(DialError::unreachable(error.to_string())),
            other => read_place(&other).ok_or_else(|| DialError::unreachable("the sentinel's answer makes no sense")),
        }
    }

    async fn line_to(&self, sentinel: &HostPort) -> Result<Arc<Wire>, DialError> {
        let open = self.line.lock().clone().filter(|wire| wire.place == *sentinel && !wire.is_closed());
        if let Some(wire) = open {
            return Ok(wire);
        }
        let wire = Arc::new(self.dialer.dial(sentinel).await?.wire);
        *self.line.lock() = Some(wire.clone());
        Ok(wire)
    }
}

/// Connects, if the server says that it is in charge.
async fn dial_if_primary(dialer: &Dialer, place: &HostPort) -> Result<Greeted, DialError> {
    let greeted = dialer.dial(place).await?;
    let answer = dialer.within_patience(greeted.wire.ask(&cmd("ROLE"), false)).await?;
    match read_role(&answer) {
        Some(b"master") => Ok(greeted),
        Some(role) => {
            Err(DialError::unreachable(format!("it is a {}, not the primary", String::from_utf8_lossy(role))))
        }
        // Without the right to ask, `READONLY` will tell.
        None => Ok(greeted),
    }
}

fn read_role(answer: &Value) -> Option<&[u8]> {
    let Value::Array(parts) = answer else { return None };
    let Value::BulkString(role) = parts.first()? else { return None };
    Some(role)
}

fn read_place(answer: &Value) -> Option<HostPort> {
    let Value::Array(parts) = answer else { return None };
    let [Value::BulkString(host), Value::BulkString(port)] = parts.as_slice() else { return None };
    let (host, port) = (std::str::from_utf8(host).ok()?, std::str::from_utf8(port).ok()?);
    Some(HostPort::new(host, port.parse().ok()?))
}
