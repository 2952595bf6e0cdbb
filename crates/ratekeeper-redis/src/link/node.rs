//! One server: its connection, circuit breaker, clock estimate and bound on calls in flight.
//!
//! Callers never connect. They use the open connection, wait for one that is being opened, or fail at once if the last
//! attempt failed. The task in [`reconnect`] opens, probes and replaces connections.

mod late_reply;
mod reconnect;
mod shared;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ratekeeper_core::Timestamp;
use redis::{Cmd, RedisResult, Value};
use tokio::{sync::Notify, time::timeout_at};

pub(crate) use self::late_reply::MOST_GRACE;
use self::shared::{ConnectionState, NodeHealth, Shared};
use super::{
    background::Background,
    breaker::Event,
    connect::{ConnectError, Connector, ServerTime},
    connection::ServerConnection,
    error::NotExecuted,
    outcome::{CallOutcome, TimedReply},
    sentinel::Sentinels,
    settings::LinkSettings,
};
use crate::{address::HostPort, counters::Counters, events::Events};

/// A server as callers use it.
#[derive(Debug)]
pub(super) struct Node {
    shared: Arc<Shared>,
    reconnect_task: Background,
}

/// How the address of a node's server is found.
#[derive(Debug)]
pub(super) enum ServerLocation {
    Fixed(HostPort),
    /// The primary that the sentinels name.
    Sentinels(Box<Sentinels>),
}

/// What all nodes of a link share.
#[derive(Clone, Debug)]
pub(super) struct NodeContext {
    pub(super) connector: Arc<Connector>,
    pub(super) settings: LinkSettings,
    pub(super) counters: Arc<Counters>,
    pub(super) events: Arc<Events>,
    /// Notified when a node loses its connection or cannot open one. The cluster then refreshes its slot map.
    pub(super) connection_lost: Arc<Notify>,
    /// Notified when the health of a node may have changed.
    pub(super) health_changed: Arc<Notify>,
}

/// A node's state, for health pages and tests.
#[derive(Clone, Debug)]
pub(crate) struct NodeState {
    /// Its address, or the last known one.
    pub(crate) address: HostPort,
    pub(crate) is_connected: bool,
    /// Why calls fail: no connection, or an open circuit breaker. `None` while they succeed.
    pub(crate) failure: Option<String>,
    pub(crate) is_breaker_closed: bool,
    /// The estimated time of its clock, and the error bound of the estimate.
    pub(crate) clock: Option<(Timestamp, Duration)>,
}

impl Node {
    pub(super) fn new(location: ServerLocation, context: NodeContext) -> Arc<Self> {
        let shared = Arc::new(Shared::new(location, context));
        let node = Arc::new(Self { shared, reconnect_task: Background::default() });
        node.ensure_reconnect_task();
        node
    }

    /// Its address, or the last known one.
    pub(super) fn address(&self) -> HostPort {
        self.shared.address()
    }

    /// Sends a command, once. `command` is given the deadline by the server's clock, in microseconds; `time_in` finds the
    /// server's time in the reply.
    pub(super) async fn ask(
        &self,
        deadline: Instant,
        asking: bool,
        command: impl FnOnce(f64) -> Cmd,
        time_in: impl FnOnce(&Value) -> Option<Timestamp>,
    ) -> CallOutcome {
        self.ensure_reconnect_task();
        let Some(_in_flight) = self.shared.enter() else {
            return CallOutcome::NotExecuted(NotExecuted::TooBusy);
        };
        let mut server_deadline = {
            let health = self.shared.health.lock();
            if !health.breaker.is_closed() {
                return CallOutcome::NotExecuted(NotExecuted::BreakerOpen);
            }
            health.server_deadline(deadline)
        };
        let connection = match self.open_connection() {
            Some(connection) => connection,
            None => match self.connection(deadline).await {
                Ok(connection) => {
                    // A new connection comes with a new estimate.
                    server_deadline = self.shared.health.lock().server_deadline(deadline);
                    connection
                }
                Err(error) => return error.into(),
            },
        };
        let command = command(server_deadline);
        let asked = Instant::now();
        if asked >= deadline {
            return CallOutcome::NotExecuted(NotExecuted::OutOfTime);
        }
        // From here on the command may have been sent.
        let mut reply = std::pin::pin!(connection.ask(&command, asking));
        let outcome = match timeout_at(deadline.into(), &mut reply).await {
            Ok(reply) => self.outcome_of(reply, asked, &connection),
            Err(_) => match self.wait_for_late_reply(reply, asked, deadline.elapsed(), &connection).await {
                Some(outcome) => outcome,
                // The delay was this process's, so the breaker does not count it.
                None => return CallOutcome::Unknown { waited: asked.elapsed() },
            },
        };
        self.judge(&outcome, &connection, time_in);
        outcome
    }

    /// Interprets a reply. Without one the connection is lost, and the next call must not be sent on it: it may be the
    /// charge for the local grant that replaces this reply.
    fn outcome_of(&self, reply: RedisResult<Value>, asked: Instant, connection: &Arc<ServerConnection>) -> CallOutcome {
        let outcome = CallOutcome::of(reply, asked);
        if matches!(outcome, CallOutcome::Unknown { .. }) {
            connection.mark_broken();
            self.shared.abandon(connection);
        }
        outcome
    }

    /// The estimated time of the server's clock, and the error bound of the estimate.
    pub(super) fn clock(&self) -> Option<(Timestamp, Duration)> {
        let now = Instant::now();
        let health = self.shared.health.lock();
        Some((health.clock.at(now)?, health.clock.error_bound(now)?))
    }

    /// Replaces the connection, because its server is not the primary any more.
    pub(super) fn reconnect(&self) {
        self.shared.disconnect();
    }

    /// Why a call would fail at once: the breaker is open, or the last connection attempt failed. `None` if a call is
    /// worth sending.
    pub(super) fn known_failure(&self) -> Option<ConnectError> {
        self.ensure_reconnect_task();
        if !self.shared.health.lock().breaker.is_closed() {
            return Some(ConnectError::NotExecuted(NotExecuted::BreakerOpen));
        }
        match &*self.shared.connection.borrow() {
            ConnectionState::Down(error) => Some(error.clone()),
            ConnectionState::Connecting | ConnectionState::Up(_) => None,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(&*self.shared.connection.borrow(), ConnectionState::Up(connection) if !connection.is_closed())
    }

    /// Whether the server has replied since the link was opened.
    pub(super) fn was_reached(&self) -> bool {
        self.shared.health.lock().last_reply.is_some()
    }

    pub(super) fn state(&self) -> NodeState {
        let (address, is_connected, clock) = (self.address(), self.is_connected(), self.clock());
        let (is_breaker_closed, was_reached) = {
            let health = self.shared.health.lock();
            (health.breaker.is_closed(), health.last_reply.is_some())
        };
        let failure = match &*self.shared.connection.borrow() {
            ConnectionState::Down(error) => Some(error.to_string()),
            ConnectionState::Connecting if !was_reached => Some(NOT_YET.to_owned()),
            // While a connection is replaced the node counts as up; the attempt that follows decides.
            ConnectionState::Connecting | ConnectionState::Up(_) if is_breaker_closed => None,
            ConnectionState::Connecting | ConnectionState::Up(_) => {
                let deadline = self.shared.context.settings.deadline;
                Some(format!("too many calls had no answer within {deadline:?}; the circuit breaker is open"))
            }
        };
        NodeState { address, is_connected, failure, is_breaker_closed, clock }
    }

    /// The connection, if it is open.
    fn open_connection(&self) -> Option<Arc<ServerConnection>> {
        match &*self.shared.connection.borrow() {
            ConnectionState::Up(connection) if !connection.is_closed() => Some(connection.clone()),
            _ => None,
        }
    }

    /// Waits for a connection that is being opened, until the deadline.
    async fn connection(&self, deadline: Instant) -> Result<Arc<ServerConnection>, ConnectError> {
        let mut state = self.shared.connection.subscribe();
        let settled = state.wait_for(|state| match state {
            ConnectionState::Up(connection) => !connection.is_closed(),
            ConnectionState::Down(_) => true,
            ConnectionState::Connecting => false,
        });
        let out_of_time = Err(ConnectError::NotExecuted(NotExecuted::OutOfTime));
        let Ok(Ok(state)) = timeout_at(deadline.into(), settled).await else { return out_of_time };
        match &*state {
            ConnectionState::Up(connection) => Ok(connection.clone()),
            ConnectionState::Down(error) => Err(error.clone()),
            ConnectionState::Connecting => out_of_time,
        }
    }

    /// Feeds the outcome of a call to the circuit breaker and the clock estimate.
    fn judge(
        &self,
        outcome: &CallOutcome,
        connection: &ServerConnection,
        time_in: impl FnOnce(&Value) -> Option<Timestamp>,
    ) {
        let event = match outcome {
            CallOutcome::Answered(TimedReply { value, asked, answered }) => {
                let time = time_in(value).map(|server| ServerTime { server, asked: *asked, answered: *answered });
                return self.shared.judge_timed(Event::Answered, time, *answered);
            }
            CallOutcome::NotExecuted(why) if why.is_unhealthy() => Event::Failed,
            CallOutcome::Unknown { .. } if connection.is_closed() => {
                if !connection.is_first_report_of_loss() {
                    return;
                }
                Event::Failed
            }
            // A call that started with less than half a deadline left says little about the server.
            CallOutcome::Unknown { waited } if *waited * 2 < self.shared.context.settings.deadline => return,
            CallOutcome::Unknown { .. } => Event::Failed,
            _ => Event::Answered,
        };
        self.shared.judge(event);
    }

    fn ensure_reconnect_task(&self) {
        self.reconnect_task.ensure(|| reconnect::run(self.shared.clone()));
    }
}

impl NodeHealth {
    /// The deadline by the server's clock. Infinity while that clock is unknown: the script then runs without a deadline.
    fn server_deadline(&self, deadline: Instant) -> f64 {
        // Microseconds since 1970 are exact in a double until 2255.
        self.clock.at(deadline).map_or(f64::INFINITY, |micros| micros.as_micros() as f64)
    }
}

/// The failure of a server that has not replied since the link was opened.
pub(super) const NOT_YET: &str = "it has not answered yet";
