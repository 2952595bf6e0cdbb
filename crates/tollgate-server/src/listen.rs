//! Accepting connections, within bounds: so many at once, none that stays silent, all let go in good order.
//!
//! ```text
//! bind ─▶ accept ─▶ a place is free? ─▶ TLS ─▶ timed stream ─▶ the wire's own code
//! ```

mod account;
mod admission;
mod bodies;
mod closures;
mod frames;
mod guard;
mod heads;
mod http;
mod lines;
mod malformed;
mod parting;
mod stream;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};

pub use self::{
    account::Account,
    bodies::{Answer, Received, Unsent},
    http::serve_http,
    parting::Parting,
    stream::{Plain, Timed},
};
pub(crate) use self::{
    account::NoRoom,
    guard::Guarded,
    heads::Heads,
    http::{GOODBYE, WINDOW_BYTES},
};
use self::{
    account::{PortBudget, Registered},
    closures::Reason,
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
    budget: Arc<PortBudget>,
    telemetry: Arc<Telemetry>,
}

/// Why a port cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody else has it.
    #[error("{wire} {address}: another program listens there; stop it, or choose another port with --{wire}")]
    Taken {
        /// For which wire.
        wire: &'static str,
        /// Which one.
        address: SocketAddr,
    },
    /// Anything else.
    #[error("{wire} {address}: cannot listen there: {cause}; choose another address with --{wire}")]
    Other {
        /// For which wire.
        wire: &'static str,
        /// Which one.
        address: SocketAddr,
        /// What the system says.
        cause: io::Error,
    },
}

/// Somebody who has come in.
#[derive(Debug)]
pub struct Connection {
    /// Bytes both ways, with the listener's patience.
    pub stream: Timed<Parting<Plain>>,
    /// Where they come from.
    pub peer: SocketAddr,
    /// What its requests and answers are charged to.
    pub account: Account,
}

impl Listener {
    /// Listens.
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
        let budget = PortBudget::new(wire, &bounds, &telemetry);
        Ok(Self { wire, socket, tls, bounds, budget, telemetry })
    }

    /// Where it listens; the port is a real one even if 0 was asked for.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Which wire it is for.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Its bounds.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Serves connections until the word to stop, and then until the last of them is done or the time for that is up.
    /// `serve` is given one connection and the word; when its future ends, the connection is closed.
    pub async fn run<F, S>(self, mut shutdown: Shutdown, serve: S)
    where
        S: Fn(Connection, Shutdown) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(self.bounds.connections));
        // Dropped at the end, and with it the only task in it.
        let mut watching = JoinSet::new();
        watching.spawn(Arc::clone(&self.budget).watch());
        let mut tasks = JoinSet::new();
        let mut begun = shutdown.clone();
        let mut in_trouble = false;
        loop {
            tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, peer)) => {
                        if std::mem::take(&mut in_trouble) {
                            tracing::info!(wire = self.wire.name(), "connections are accepted again");
                        }
                        self.welcome(stream, peer, &places, &shutdown, &serve, &mut tasks);
                    }
                    // Too many files are open, or the like: what is open will close, and then there is room again.
                    Err(error) => {
                        if !std::mem::replace(&mut in_trouble, true) {
                            tracing::warn!(wire = self.wire.name(), %error, "no connection can be accepted; it is tried on (said once)");
                        }
                        sleep(AFTER_TROUBLE).await;
                    }
                },
                Some(_) = tasks.join_next() => {}
                () = begun.begun() => break,
            }
        }
        // Whoever has connected by now was promised an answer by the system, if not by us.
        let last_call = Instant::now() + LAST_CALL;
        // The clock is looked at as well: a queue that is never empty would leave no time to hear that it is up.
        while Instant::now() < last_call
            && let Ok(Ok((stream, peer))) = timeout_at(last_call, self.socket.accept()).await
        {
            self.welcome(stream, peer, &places, &shutdown, &serve, &mut tasks);
        }
        drop(self.socket);
        shutdown.begun().await;
        let all_done = async { while tasks.join_next().await.is_some() {} };
        if timeout(self.bounds.drain, all_done).await.is_err() {
            let open = tasks.len();
            tracing::warn!(wire = self.wire.name(), open, "connections were cut off: the time to finish was up");
            tasks.shutdown().await;
        }
    }

    fn welcome<F, S>(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        places: &Arc<Semaphore>,
        shutdown: &Shutdown,
        serve: &S,
        tasks: &mut JoinSet<()>,
    ) where
        S: Fn(Connection, Shutdown) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let Ok(place) = Arc::clone(places).try_acquire_owned() else {
            // Closed at once: a client that hears nothing would wait.
            self.telemetry.refused_connections.get_or_create(&self.wire.label()).inc();
            return;
        };
        // Answers are small and somebody waits for each of them.
        let _ = stream.set_nodelay(true);
        let (account, registered) = self.budget.open();
        let guest = Guest::new(self.wire, &self.telemetry, place, registered);
        let (tls, bounds, serve, shutdown) = (self.tls.clone(), self.bounds, serve.clone(), shutdown.clone());
        tasks.spawn(async move {
            if let Some(stream) = Plain::open(stream, tls.as_ref(), bounds.first_byte).await {
                let stream = Timed::new(Parting::new(stream), bounds.first_byte, bounds.idle);
                serve(Connection { stream, peer, account }, shutdown).await;
            }
            drop(guest);
        });
    }
}

/// Counts how a connection ended, if it was closed for abuse: by us, or by h2.
pub(crate) fn count_closure(account: &Account, error: Option<&(dyn std::error::Error + 'static)>) {
    let is_flood = |error: &(dyn std::error::Error + 'static)| {
        let error = error.downcast_ref::<h2::Error>();
        error.is_some_and(|error| error.is_library() && error.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM))
    };
    let by_h2 = || std::iter::successors(error, |error| error.source()).any(is_flood).then_some(Reason::Flood);
    if let Some(reason) = account.closing().or_else(by_h2) {
        account.port().closures().count(reason);
    }
}

/// A place that is taken, and counted as long as it is.
struct Guest {
    wire: Wire,
    telemetry: Arc<Telemetry>,
    _place: OwnedSemaphorePermit,
    _registered: Registered,
}

impl Guest {
    fn new(wire: Wire, telemetry: &Arc<Telemetry>, place: OwnedSemaphorePermit, registered: Registered) -> Self {
        telemetry.connections.get_or_create(&wire.label()).inc();
        Self { wire, telemetry: Arc::clone(telemetry), _place: place, _registered: registered }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.telemetry.connections.get_or_create(&self.wire.label()).dec();
    }
}

const AFTER_TROUBLE: Duration = Duration::from_millis(50);
/// How long the queue of connections is looked at for the last ones, however many come.
const LAST_CALL: Duration = Duration::from_millis(20);
