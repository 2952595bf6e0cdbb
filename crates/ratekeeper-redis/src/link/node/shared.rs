//! The state of a node that callers and the reconnect task share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{NodeContext, ServerLocation};
use crate::{
    address::HostPort,
    link::{
        breaker::{Breaker, Change, Event},
        clock::ServerClock,
        connect::{ConnectError, Connected, ServerTime},
        connection::ServerConnection,
        random::Random,
    },
};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) location: ServerLocation,
    pub(super) context: NodeContext,
    pub(super) connection: watch::Sender<ConnectionState>,
    pub(super) health: Mutex<NodeHealth>,
    in_flight: AtomicUsize,
    /// Wakes the reconnect task: the breaker has opened, or the connection was dropped.
    pub(super) wake: Notify,
}

/// The connection, or why there is none.
#[derive(Clone, Debug)]
pub(super) enum ConnectionState {
    /// Being opened for the first time, or after one was lost. Callers wait for it.
    Connecting,
    Up(Arc<ServerConnection>),
    /// The last attempt failed. Callers do not wait for the next one.
    Down(ConnectError),
}

#[derive(Debug)]
pub(super) struct NodeHealth {
    pub(super) breaker: Breaker,
    pub(super) clock: ServerClock,
    pub(super) last_reply: Option<Instant>,
}

impl Shared {
    pub(super) fn new(location: ServerLocation, context: NodeContext) -> Self {
        let breaker = Breaker::new(context.settings.breaker.clone(), Random::new());
        Self {
            location,
            connection: watch::Sender::new(ConnectionState::Connecting),
            health: Mutex::new(NodeHealth { breaker, clock: ServerClock::default(), last_reply: None }),
            in_flight: AtomicUsize::new(0),
            wake: Notify::new(),
            context,
        }
    }

    pub(super) fn address(&self) -> HostPort {
        match (&self.location, &*self.connection.borrow()) {
            (_, ConnectionState::Up(connection)) => connection.address.clone(),
            (ServerLocation::Fixed(address), _) => address.clone(),
            (ServerLocation::Sentinels(sentinels), _) => {
                sentinels.addresses().first().cloned().unwrap_or_else(HostPort::unknown)
            }
        }
    }

    pub(super) async fn connect(&self) -> Result<Connected, ConnectError> {
        match &self.location {
            ServerLocation::Fixed(address) => self.context.connector.connect(address).await,
            ServerLocation::Sentinels(sentinels) => sentinels.connect_to_primary(&self.context.connector).await,
        }
    }

    /// Waits until the sentinels name another primary. Never ends without sentinels.
    pub(super) async fn deposed(&self, primary: &HostPort) {
        match &self.location {
            ServerLocation::Fixed(_) => std::future::pending().await,
            ServerLocation::Sentinels(sentinels) => sentinels.deposed(primary).await,
        }
    }

    /// Counts one more call in flight. `None` if there are too many.
    pub(super) fn enter(&self) -> Option<InFlight<'_>> {
        let in_flight = InFlight(&self.in_flight);
        let most = self.context.settings.max_in_flight.max(1);
        (self.in_flight.fetch_add(1, Relaxed) < most).then_some(in_flight)
    }

    pub(super) fn observe_time(&self, time: ServerTime) {
        self.health.lock().observe_time(time);
    }

    /// Stops using the connection. Calls in flight on it still get their replies.
    pub(super) fn disconnect(&self) {
        self.disconnect_if(|_| true);
    }

    /// Stops using this connection, unless another one has replaced it.
    pub(super) fn abandon(&self, connection: &Arc<ServerConnection>) {
        self.disconnect_if(|current| Arc::ptr_eq(current, connection));
    }

    fn disconnect_if(&self, condition: impl FnOnce(&Arc<ServerConnection>) -> bool) {
        let was_up = self.connection.send_if_modified(|state| {
            let is_up = matches!(state, ConnectionState::Up(current) if condition(current));
            if is_up {
                *state = ConnectionState::Connecting;
            }
            is_up
        });
        if was_up {
            self.wake.notify_one();
        }
    }

    /// Feeds an event to the circuit breaker.
    pub(super) fn judge(&self, event: Event) {
        self.judge_timed(event, None, Instant::now());
    }

    /// Feeds an event to the circuit breaker, and the server's time to the estimate of its clock.
    pub(super) fn judge_timed(&self, event: Event, time: Option<ServerTime>, now: Instant) {
        let change = {
            let mut health = self.health.lock();
            if let Some(time) = time {
                health.observe_time(time);
            }
            if matches!(event, Event::Answered | Event::Probed) {
                health.last_reply = Some(now);
            }
            health.breaker.on(event, now)
        };
        match change {
            Some(Change::Opened) => {
                self.context.counters.breaker_opened.add_one();
                self.context.events.breaker_opened(&self.address());
                // The reconnect task may sleep until the next probe.
                self.wake.notify_one();
            }
            Some(Change::Closed) => {
                self.context.counters.breaker_closed.add_one();
                self.context.events.breaker_closed(&self.address());
            }
            None => return,
        }
        self.context.health_changed.notify_one();
    }
}

impl NodeHealth {
    fn observe_time(&mut self, time: ServerTime) {
        self.clock.observe(time.server, time.asked, time.answered);
    }
}

/// A call in flight, until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight<'a>(&'a AtomicUsize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
