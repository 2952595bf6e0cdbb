//! Listener of a port: accepts connections within bounds of number, time and memory, and drains them at shutdown.
//!
//! ```text
//! accept ─▶ connection limit ─▶ TLS handshake ─▶ ConnectionIo ─▶ the wire's serve function
//! ```
//!
//! A connection above the limit is closed at once. Bounds of a connection: [`ConnectionIo`] and [`Account`].

mod account;
mod admission;
mod bare_lf;
mod charged_body;
mod closed_connections;
mod connection_io;
mod frame_budget;
mod header_timeout;
mod http;
mod http_inspection;
mod idle_timeout;
mod lingering_close;
mod malformed;
mod port_budget;
mod read_gate;
mod request_counts;
mod stall_detector;
mod transport;

use std::{error::Error, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};

pub use self::{
    account::Account,
    charged_body::{ChargedRequestBody, ChargedResponseBody, UnsentChunk},
    connection_io::ConnectionIo,
    http::serve_http,
};
pub(crate) use self::{
    account::OutOfBudget,
    http::{ABUSE_CLOSE, WINDOW_BYTES},
    request_counts::RequestCounts,
};
use self::{
    closed_connections::CloseReason,
    port_budget::PortBudget,
    stall_detector::{Registration, StallDetector},
    transport::Transport,
};
use crate::{
    config::Bounds,
    security::Tls,
    shutdown::Shutdown,
    telemetry::{Telemetry, Wire},
};

/// A port that is listened on.
#[derive(Debug)]
pub struct Listener {
    wire: Wire,
    socket: TcpListener,
    tls: Option<Tls>,
    bounds: Bounds,
    stalls: Arc<StallDetector>,
    telemetry: Arc<Telemetry>,
}

/// Why a port cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another program listens on it.
    #[error("{wire} {address}: another program listens there; stop it, or choose another port with --{wire}")]
    Taken {
        /// The wire it is for.
        wire: &'static str,
        /// The address asked for.
        address: SocketAddr,
    },
    /// Any other error of the system.
    #[error("{wire} {address}: cannot listen there: {cause}; choose another address with --{wire}")]
    Other {
        /// The wire it is for.
        wire: &'static str,
        /// The address asked for.
        address: SocketAddr,
        /// The system's error.
        cause: io::Error,
    },
}

/// An accepted connection, after the TLS handshake.
#[derive(Debug)]
pub struct Connection {
    /// Its bytes, within the listener's timeouts.
    pub stream: ConnectionIo,
    /// The peer's address.
    pub peer: SocketAddr,
    /// What its requests and responses are charged to.
    pub account: Account,
}

impl Listener {
    /// Binds the port.
    pub async fn bind(
        wire: Wire,
        address: SocketAddr,
        tls: Option<Tls>,
        bounds: Bounds,
        telemetry: Arc<Telemetry>,
    ) -> Result<Self, ListenError> {
        let socket = TcpListener::bind(address).await.map_err(|cause| match cause.kind() {
            io::ErrorKind::AddrInUse => ListenError::Taken { wire: wire.name(), address },
            _ => ListenError::Other { wire: wire.name(), address, cause },
        })?;
        let stalls = StallDetector::new(PortBudget::new(wire, &bounds, &telemetry), bounds.stall);
        Ok(Self { wire, socket, tls, bounds, stalls, telemetry })
    }

    /// The bound address, with the real port if port 0 was asked for.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The wire it is for.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Its bounds.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Serves connections until shutdown begins, then drains them for at most `bounds.drain`. When the future of
    /// `serve` ends, its connection is closed.
    pub async fn run<F, S>(self, mut shutdown: Shutdown, serve: S)
    where
        S: Fn(Connection, Shutdown) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let permits = Arc::new(Semaphore::new(self.bounds.connections));
        // Aborts the stall detector when dropped.
        let mut detector = JoinSet::new();
        detector.spawn(Arc::clone(&self.stalls).run());
        let mut tasks = JoinSet::new();
        let mut begun = shutdown.clone();
        let mut is_failing = false;
        loop {
            tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, peer)) => {
                        if std::mem::take(&mut is_failing) {
                            tracing::info!(wire = self.wire.name(), "connections are accepted again");
                        }
                        self.spawn(stream, peer, &permits, &shutdown, &serve, &mut tasks);
                    }
                    // Usually too many open files, until connections close.
                    Err(error) => {
                        if !std::mem::replace(&mut is_failing, true) {
                            tracing::warn!(wire = self.wire.name(), %error, "accept failed; retrying (logged once)");
                        }
                        sleep(ACCEPT_RETRY).await;
                    }
                },
                Some(_) = tasks.join_next() => {}
                () = begun.begun() => break,
            }
        }
        // The system has completed the handshakes of queued connections, so their clients expect a response.
        let deadline = Instant::now() + QUEUE_DRAIN;
        // The clock is read as well: with a queue that never empties, `timeout_at` would not fire.
        while Instant::now() < deadline
            && let Ok(Ok((stream, peer))) = timeout_at(deadline, self.socket.accept()).await
        {
            self.spawn(stream, peer, &permits, &shutdown, &serve, &mut tasks);
        }
        drop(self.socket);
        shutdown.begun().await;
        let all_ended = async { while tasks.join_next().await.is_some() {} };
        if timeout(self.bounds.drain, all_ended).await.is_err() {
            let open = tasks.len();
            tracing::warn!(wire = self.wire.name(), open, "connections were aborted: the drain time has elapsed");
            tasks.shutdown().await;
        }
    }

    fn spawn<F, S>(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        permits: &Arc<Semaphore>,
        shutdown: &Shutdown,
        serve: &S,
        tasks: &mut JoinSet<()>,
    ) where
        S: Fn(Connection, Shutdown) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let Ok(permit) = Arc::clone(permits).try_acquire_owned() else {
            // Closed at once, so that the client does not wait for a response.
            self.telemetry.refused_connections.get_or_create(&self.wire.label()).inc();
            return;
        };
        // Responses are small, and clients wait for each.
        let _ = stream.set_nodelay(true);
        let (account, registration) = self.stalls.register();
        let open = OpenConnection::new(self.wire, &self.telemetry, permit, registration);
        let (tls, bounds, serve, shutdown) = (self.tls.clone(), self.bounds, serve.clone(), shutdown.clone());
        tasks.spawn(async move {
            if let Some(transport) = Transport::accept(stream, tls.as_ref(), bounds.first_byte).await {
                let stream = ConnectionIo::new(transport, bounds.first_byte, bounds.idle);
                serve(Connection { stream, peer, account }, shutdown).await;
            }
            drop(open);
        });
    }
}

/// Counts a connection that has ended, if it was closed for abuse: by the server, or by h2 with this error.
pub(crate) fn count_closed_for_abuse(account: &Account, error: Option<&(dyn Error + 'static)>) {
    let is_flood = |error: &(dyn Error + 'static)| {
        let error = error.downcast_ref::<h2::Error>();
        error.is_some_and(|error| error.is_library() && error.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM))
    };
    let by_h2 = || std::iter::successors(error, |error| (*error).source()).any(is_flood).then_some(CloseReason::Flood);
    if let Some(reason) = account.close_reason().or_else(by_h2) {
        account.port().closed_connections.count(reason);
    }
}

/// A connection in the gauge, the connection limit and the stall detector, until dropped.
struct OpenConnection {
    wire: Wire,
    telemetry: Arc<Telemetry>,
    _permit: OwnedSemaphorePermit,
    _registration: Registration,
}

impl OpenConnection {
    fn new(wire: Wire, telemetry: &Arc<Telemetry>, permit: OwnedSemaphorePermit, registration: Registration) -> Self {
        telemetry.connections.get_or_create(&wire.label()).inc();
        Self { wire, telemetry: Arc::clone(telemetry), _permit: permit, _registration: registration }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.telemetry.connections.get_or_create(&self.wire.label()).dec();
    }
}

/// Pause after a failed accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// How long queued connections are still accepted after shutdown has begun.
const QUEUE_DRAIN: Duration = Duration::from_millis(20);
