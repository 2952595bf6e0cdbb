//! One open connection, shared by everyone who asks this server something.
//!
//! Questions are written as they come and answered in order. A question is never written twice: when the connection is
//! lost, whoever waits on it is told so, and that is all.

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

use crate::address::HostPort;

/// An open connection. Closed when the last handle is gone, so that those who still wait get their answers.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) place: HostPort,
    pub(super) since: Instant,
    connection: MultiplexedConnection,
    /// Its other end goes when the connection does.
    closed: watch::Receiver<()>,
    driver: AbortHandle,
    /// Whether its end has been held against the server.
    is_mourned: AtomicBool,
}

impl Wire {
    /// Takes over a stream on which nothing has been said yet.
    pub(super) async fn over<S>(stream: S, place: HostPort, max_in_flight: usize) -> RedisResult<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Nothing is said behind our back: logging in is our business, where a refusal keeps its words.
        let silent = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new()
            // Deadlines are the callers'.
            .set_response_timeout(None)
            .set_connection_timeout(None)
            // Room for all who may call, so that none waits in line for a place in the line; and for probes.
            .set_pipeline_buffer_size(max_in_flight.saturating_add(16));
        let (connection, driver) = MultiplexedConnection::new_with_config(&silent, stream, config).await?;
        let (open, closed) = watch::channel(());
        let driver = tokio::spawn(async move {
            let _open = open;
            driver.await;
        });
        Ok(Self {
            place,
            since: Instant::now(),
            connection,
            closed,
            driver: driver.abort_handle(),
            is_mourned: AtomicBool::new(false),
        })
    }

    /// Asks one question. With `asking`, as one whom another node has sent here with `ASK`: both commands leave in one
    /// piece, so that nobody else's question can come between them.
    pub(super) async fn ask(&self, command: &Cmd, asking: bool) -> RedisResult<Value> {
        if !asking {
            return self.connection.clone().send_packed_command(command).await;
        }
        let mut both = Pipeline::with_capacity(2);
        both.cmd("ASKING").add_command(command.clone());
        let mut answers = self.ask_all(&both).await?;
        Ok(answers.pop().unwrap_or(Value::Nil))
    }

    /// Asks several questions in one piece. An error among the answers is an answer.
    pub(super) async fn ask_all(&self, questions: &Pipeline) -> RedisResult<Vec<Value>> {
        self.connection.clone().send_packed_commands(questions, 0, questions.len()).await
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.has_changed().is_err()
    }

    /// Whether the connection is lost and this is the first to hear of it: one end is one failure, however many calls
    /// it took along.
    pub(super) fn is_news_of_its_end(&self) -> bool {
        self.is_closed() && !self.is_mourned.swap(true, Relaxed)
    }

    /// Waits until the connection is lost.
    pub(super) async fn closed(&self) {
        while self.closed.clone().changed().await.is_ok() {}
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
