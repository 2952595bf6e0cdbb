//! The RESP wire: whoever has a Redis client can ask.
//!
//! ```text
//!   bytes ─frame─▶ words ─commands─▶ engine ─reply─▶ bytes
//! ```
//!
//! [`frame`] reads commands, `commands` answers each of them, [`reply`] writes RESP 2 or 3, and `connection` does that
//! for one client until it leaves; `pipeline` keeps answers in order where a store has to be waited for, `transaction`
//! keeps commands until `EXEC`. docs/resp.md tells users which commands there are.

mod commands;
mod connection;
mod converse;
pub mod frame;
mod pipeline;
pub mod reply;
mod session;
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
    connection::End,
    pipeline::{MAX_UNDER_WAY, Pipeline},
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
    /// Clients so far; each is told its number.
    clients: Arc<AtomicU64>,
    /// What the connections may ask of the store at the same time.
    places: Arc<Semaphore>,
}

impl Resp {
    /// A wire to this engine.
    pub fn new(engine: Engine, access: Access) -> Self {
        Self { engine, access, clients: Arc::default(), places: Arc::new(Semaphore::new(MAX_UNDER_WAY)) }
    }

    fn pipeline(&self) -> Pipeline {
        Pipeline::new(Arc::clone(&self.places))
    }

    /// Serves everybody who comes to the listener, until the word to stop: then all that has arrived is answered.
    pub async fn serve(self, listener: Listener, shutdown: Shutdown) {
        let frame_timeout = listener.bounds().request;
        let latency = self.engine.telemetry().latency(Wire::Resp);
        let serve = move |Connection { stream, .. }: Connection, shutdown: Shutdown| {
            let (resp, latency) = (self.clone(), latency.clone());
            async move {
                let id = resp.clients.fetch_add(1, Ordering::Relaxed) + 1;
                let session = Session::new(resp.engine.clone(), resp.access.clone(), id);
                match connection::serve(stream, session, resp.pipeline(), frame_timeout, &latency, shutdown).await {
                    Ok(End::Malformed(what)) => {
                        resp.engine.telemetry().bad_requests.get_or_create(&Wire::Resp.label()).inc();
                        tracing::debug!(%what, "a RESP client broke the protocol");
                    }
                    Ok(End::Left | End::Silent | End::Shutdown) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::ConnectionReset) => {}
                    Err(error) => tracing::debug!(%error, "a RESP connection was lost"),
                }
            }
        };
        listener.run(shutdown, serve).await;
    }
}
