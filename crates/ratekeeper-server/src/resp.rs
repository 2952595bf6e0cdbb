//! RESP wire: rate limits over the Redis protocol, for Redis clients.
//!
//! ```text
//!   bytes ─frame─▶ words ─commands─▶ engine ─reply─▶ bytes
//! ```
//!
//! [`frame`] parses commands, `commands` executes them, [`reply`] encodes RESP 2 or 3, and `connection` runs this loop
//! for one client. `pipeline` keeps replies in order while store calls are in flight; `transaction` queues commands
//! until `EXEC`. docs/resp.md lists the commands.

mod commands;
mod connection;
pub mod frame;
mod pipeline;
pub mod reply;
mod session;
mod testing;
mod transaction;

use std::{
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::Semaphore;

use self::{
    connection::ConnectionEnd,
    pipeline::{MAX_IN_FLIGHT, Pipeline},
    session::Session,
};
use crate::{
    engine::Engine,
    listen::{Connection, Listener},
    security::Access,
    shutdown::Shutdown,
    telemetry::Wire,
};

/// The RESP wire.
#[derive(Clone, Debug)]
pub struct Resp {
    engine: Engine,
    access: Access,
    /// Connections accepted so far; the source of `CLIENT ID`.
    clients: Arc<AtomicU64>,
    /// Store calls that all connections together may have in flight, beyond one each.
    permits: Arc<Semaphore>,
}

impl Resp {
    /// Creates a wire in front of this engine.
    pub fn new(engine: Engine, access: Access) -> Self {
        Self { engine, access, clients: Arc::default(), permits: Arc::new(Semaphore::new(MAX_IN_FLIGHT)) }
    }

    fn pipeline(&self) -> Pipeline {
        Pipeline::new(Arc::clone(&self.permits))
    }

    /// Serves the connections of the listener until shutdown; commands that have arrived by then are answered.
    pub async fn serve(self, listener: Listener, shutdown: Shutdown) {
        let frame_timeout = listener.bounds().request;
        let latency = self.engine.telemetry().latency(Wire::Resp);
        let serve = move |Connection { stream, .. }: Connection, shutdown: Shutdown| {
            let (resp, latency) = (self.clone(), latency.clone());
            async move {
                let id = resp.clients.fetch_add(1, Ordering::Relaxed) + 1;
                let session = Session::new(resp.engine.clone(), resp.access.clone(), id);
                match connection::serve(stream, session, resp.pipeline(), frame_timeout, &latency, shutdown).await {
                    Ok(ConnectionEnd::Malformed(what)) => {
                        resp.engine.telemetry().bad_requests.get_or_create(&Wire::Resp.label()).inc();
                        tracing::debug!(%what, "a RESP client broke the protocol");
                    }
                    Ok(ConnectionEnd::Closed | ConnectionEnd::TimedOut | ConnectionEnd::Shutdown) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::ConnectionReset) => {}
                    Err(error) => tracing::debug!(%error, "a RESP connection was lost"),
                }
            }
        };
        listener.run(shutdown, serve).await;
    }
}
