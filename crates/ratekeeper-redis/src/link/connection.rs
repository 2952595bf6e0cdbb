//! One open connection to a server, multiplexed over all callers.
//!
//! Commands are written as they come and answered in order. A command is never written twice: when the connection is
//! lost, the calls in flight on it fail.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Instant,
};

use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisResult, Value, aio::MultiplexedConnection,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    task::AbortHandle,
};

use super::cork::Corked;
use crate::address::HostPort;

/// An open connection. Closed when the last handle is dropped, so that calls in flight still get their replies.
#[derive(Debug)]
pub(super) struct ServerConnection {
    pub(super) address: HostPort,
    pub(super) since: Instant,
    connection: MultiplexedConnection,
    /// Its sender is dropped when the connection is lost.
    closed: watch::Receiver<()>,
    driver: AbortHandle,
    /// Whether a call has failed on it. The driver fails the calls in flight before it ends, so this is known earlier.
    broken: AtomicBool,
    /// Whether its loss has been reported to the circuit breaker.
    failure_reported: AtomicBool,
}

impl ServerConnection {
    /// A connection over a stream on which nothing has been sent.
    pub(super) async fn over<S>(stream: S, address: HostPort, max_in_flight: usize) -> RedisResult<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // The `redis` crate sends nothing during setup: login is in `connect.rs`, which keeps the server's error text.
        let silent = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new()
            // Callers have their own deadlines.
            .set_response_timeout(None)
            .set_connection_timeout(None)
            // At least `max_in_flight`, plus probes, so that callers never queue for a buffer slot.
            .set_pipeline_buffer_size(max_in_flight.saturating_add(16))
            .set_write_backpressure_boundary(MOST_CORKED);
        let corked = Corked::new(stream);
        let (connection, driver) = MultiplexedConnection::new_with_config(&silent, corked, config).await?;
        let (open, closed) = watch::channel(());
        let driver = tokio::spawn(async move {
            let _open = open;
            driver.await;
        });
        Ok(Self {
            address,
            since: Instant::now(),
            connection,
            closed,
            driver: driver.abort_handle(),
            broken: AtomicBool::new(false),
            failure_reported: AtomicBool::new(false),
        })
    }

    /// Sends one command. `asking` precedes it with `ASKING`, after an `ASK` redirect: both commands are written together,
    /// so that no other command comes between them.
    pub(super) async fn ask(&self, command: &Cmd, asking: bool) -> RedisResult<Value> {
        if !asking {
            return self.connection.clone().send_packed_command(command).await;
        }
        let mut both = Pipeline::with_capacity(2);
        both.cmd("ASKING").add_command(command.clone());
        let mut replies = self.ask_all(&both).await?;
        Ok(replies.pop().unwrap_or(Value::Nil))
    }

    /// Sends several commands together. An error reply is one of the values.
    pub(super) async fn ask_all(&self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        self.connection.clone().send_packed_commands(commands, 0, commands.len()).await
    }

    /// Records that a call has failed on it, so that no other call is sent.
    pub(super) fn mark_broken(&self) {
        self.broken.store(true, Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.broken.load(Relaxed) || self.closed.has_changed().is_err()
    }

    /// Whether the connection is lost and this is the first call to report it: one loss counts as one failure, however
    /// many calls were in flight.
    pub(super) fn is_first_report_of_loss(&self) -> bool {
        self.is_closed() && !self.failure_reported.swap(true, Relaxed)
    }

    /// Waits until the connection is lost.
    pub(super) async fn closed(&self) {
        while self.closed.clone().changed().await.is_ok() {}
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Bytes that leave in one write, about: some 500 calls.
const MOST_CORKED: usize = 64 << 10;
