//! One connection: watched while it lives, ended in order.
//!
//! A connection on which no call is made for long is closed, politely, and so is one whose other end has gone silent.
//! After the word to stop no call is accepted any more; those in flight may finish.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::Request;
use hyper::{body::Incoming, server::conn::http2, service::Service};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until},
};

use super::doors::Doors;
use crate::{config::Bounds, shutdown::Shutdown};

/// Serves a connection to its end.
pub(super) async fn serve<S>(stream: S, doors: Doors, bounds: Bounds, mut shutdown: Shutdown)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Counted { doors, calls: Arc::clone(&calls) };
    let mut connection = pin!(http(&bounds).serve_connection(TokioIo::new(stream), counted));

    let mut seen = 0;
    let mut leaving = false;
    let mut deadline = Instant::now() + bounds.idle;
    loop {
        tokio::select! {
            // How it ended is between the client and its network.
            _ = connection.as_mut() => return,
            () = shutdown.begun(), if !leaving => {}
            () = sleep_until(deadline) => {
                if leaving {
                    return;
                }
                let made = calls.load(Ordering::Relaxed);
                if made > seen {
                    seen = made;
                    deadline = Instant::now() + bounds.idle;
                    continue;
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        leaving = true;
        // Whoever has never called has no call to wait for, only the news that we part.
        let called = calls.load(Ordering::Relaxed) > 0;
        deadline = Instant::now() + if called { bounds.drain } else { bounds.drain.min(GOODBYE) };
    }
}

fn http(bounds: &Bounds) -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(bounds.streams)
        .max_header_list_size(u32::try_from(bounds.header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(bounds.request)
        // A client that opens calls and takes them back at once, or makes us reset them, is shown the door.
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_RESETS);
    http
}

/// The doors, and how many calls came to them on this connection.
#[derive(Clone, Debug)]
struct Counted {
    doors: Doors,
    calls: Arc<AtomicU64>,
}

impl Service<Request<Incoming>> for Counted {
    type Response = <Doors as Service<Request<Incoming>>>::Response;
    type Error = <Doors as Service<Request<Incoming>>>::Error;
    type Future = <Doors as Service<Request<Incoming>>>::Future;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.doors.call(request)
    }
}

/// How often a silent peer is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const GOODBYE: Duration = Duration::from_millis(200);
/// Calls taken back before we got to them, or reset for a peer's mistakes, before the connection is given up.
const MAX_RESETS: usize = 100;
