//! Reconnect task: opens a node's connection, probes it, and replaces one that does not answer.
//!
//! One attempt at a time, with backoff. A healthy connection is probed after a second without traffic, an unhealthy one
//! at the times the circuit breaker names.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::timeout_at;

use super::shared::{ConnectionState, Shared};
use crate::{
    address::HostPort,
    link::{
        backoff::Backoff,
        breaker::Event,
        connect::{self, ConnectError, Connected},
        connection::ServerConnection,
        random::Random,
    },
};

/// Runs until the node is dropped.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut backoff = Backoff::new(&shared.context.settings, Random::new());
    let mut last_server: Option<HostPort> = None;
    loop {
        let pause = backoff.pause();
        shared.announce_pause(pause);
        tokio::time::sleep(pause).await;
        match shared.connect().await {
            Ok(connected) => {
                let server = connected.connection.address.clone();
                shared.context.events.connected(&server);
                // Counted before callers can use it.
                if let Some(last) = last_server.replace(server.clone()) {
                    shared.context.counters.reconnects.add_one();
                    if last != server {
                        shared.context.events.primary_changed(&last, &server);
                    }
                }
                let connection = shared.adopt(connected);
                let since = connection.since;
                supervise(&shared, connection).await;
                shared.disconnect();
                backoff.lost(since, Instant::now());
            }
            Err(error) => {
                shared.context.counters.dials_failed.add_one();
                shared.context.events.connect_failed(&shared.address(), &error);
                shared.connection.send_replace(ConnectionState::Down(error));
                shared.context.health_changed.notify_one();
            }
        }
        shared.context.connection_lost.notify_one();
    }
}

/// Returns when the connection is lost, dropped by a caller, or does not answer probes.
async fn supervise(shared: &Shared, connection: Arc<ServerConnection>) {
    let mut failures = 0;
    let mut deposed = std::pin::pin!(shared.deposed(&connection.address));
    loop {
        let next = shared.next_probe(failures > 0);
        tokio::select! {
            () = connection.closed() => return,
            () = &mut deposed => return,
            () = shared.wake.notified() => {}
            () = tokio::time::sleep_until(next.into()) => {
                failures = shared.probe(&connection).await.map_or(failures + 1, |()| 0);
            }
        }
        // A half-open TCP connection never answers again, although the server may be healthy. After failed calls one
        // failed probe is enough to replace it; without them it takes two.
        let enough = if shared.health.lock().breaker.is_closed() { 2 } else { 1 };
        if failures >= enough || !shared.is_current(&connection) {
            return;
        }
    }
}

impl Shared {
    /// Callers do not wait for an attempt that starts only after a pause.
    fn announce_pause(&self, pause: Duration) {
        let is_changed = self.connection.send_if_modified(|state| {
            let is_changed = !pause.is_zero() && matches!(state, ConnectionState::Connecting);
            if is_changed {
                let cause = "the connection was lost as soon as it was there";
                *state = ConnectionState::Down(ConnectError::unreachable(cause));
            }
            is_changed
        });
        if is_changed {
            self.context.health_changed.notify_one();
        }
    }

    /// Makes a new connection the current one.
    fn adopt(&self, connected: Connected) -> Arc<ServerConnection> {
        let connection = Arc::new(connected.connection);
        if let Some(time) = connected.time {
            self.observe_time(time);
        }
        // A successful handshake is the first of the good replies that close the breaker.
        self.judge(Event::Probed);
        self.connection.send_replace(ConnectionState::Up(connection.clone()));
        self.context.health_changed.notify_one();
        connection
    }

    fn is_current(&self, connection: &Arc<ServerConnection>) -> bool {
        matches!(&*self.connection.borrow(), ConnectionState::Up(current) if Arc::ptr_eq(current, connection))
    }

    /// When to probe: as the breaker says while it is open, soon after a failed probe, else one pulse after the last
    /// reply.
    fn next_probe(&self, last_failed: bool) -> Instant {
        let (now, settings) = (Instant::now(), &self.context.settings);
        let health = self.health.lock();
        match (health.breaker.probe_at(now), health.last_reply) {
            (Some(at), _) => at,
            (None, Some(last_reply)) if !last_failed => last_reply + settings.pulse,
            (None, _) => now + settings.breaker.probe_min,
        }
    }

    /// Sends `PING` and `TIME`, unless a caller had a reply within the last pulse.
    async fn probe(&self, connection: &ServerConnection) -> Result<(), ()> {
        let now = Instant::now();
        let is_healthy = {
            let health = self.health.lock();
            let is_recent = health.last_reply.is_some_and(|last| last + self.context.settings.pulse > now);
            if is_recent && health.breaker.is_closed() {
                return Ok(());
            }
            health.breaker.is_closed()
        };
        // An unhealthy node has to answer in the time that callers have. A healthy one has longer: without an answer its
        // connection is closed, and the delay may be this process's.
        let deadline = self.context.settings.deadline;
        let limit = if is_healthy { deadline.max(HEALTHY_PROBE_TIMEOUT) } else { deadline };
        match timeout_at((now + limit).into(), connect::probe(connection)).await {
            Ok(Ok(time)) => {
                if let Some(time) = time {
                    self.observe_time(time);
                }
                self.judge(Event::Probed);
                Ok(())
            }
            Ok(Err(_)) | Err(_) => {
                self.judge(Event::ProbeFailed);
                Err(())
            }
        }
    }
}

/// How long a healthy node may take to answer a probe.
const HEALTHY_PROBE_TIMEOUT: Duration = Duration::from_millis(100);
