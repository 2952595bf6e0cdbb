//! Connections: accepted within a bound, watched while they live, ended in order.
//!
//! A connection that never makes a call, one that has not made any for a long time, and one whose other end has gone
//! silent are closed; calls in flight may finish. When the server is told to end, health says so first, then no call is
//! accepted any more, and those in flight have a stated time to end.

use std::{
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
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{GrpcSettings, doors::Doors};
use crate::engine::Engine;

/// Answers on this listener until `shutdown` ends, and returns when the last call has been answered or has had its time.
pub async fn serve(
    listener: TcpListener,
    engine: Engine,
    settings: GrpcSettings,
    shutdown: impl Future<Output = ()> + Send,
) {
    let settings = Arc::new(settings);
    let (doors, reporter) = Doors::new(engine, Arc::clone(&settings)).await;
    let (ending, told) = watch::channel(false);
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    let room = Arc::new(Semaphore::new(settings.max_connections));
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &room) => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Some((stream, permit)) = accepted else { continue };
        let (doors, settings, told) = (doors.clone(), Arc::clone(&settings), told.clone());
        connections.spawn(async move {
            converse(stream, doors, &settings, told).await;
            drop(permit);
        });
    }
    reporter.tell(false).await;
    drop(listener);
    // Nobody listens only when there is nobody left to tell.
    let _ = ending.send(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    if timeout(settings.drain, drained).await.is_err() {
        tracing::warn!(connections = connections.len(), after = ?settings.drain, "grpc: calls were still in flight at the end");
    }
}

/// The next connection, once there is room for one. Nothing, if it was gone before we got to it.
async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            // Answers are small; held back for company they would only be late.
            let _ = stream.set_nodelay(true);
            Some((stream, permit))
        }
        Err(error) => {
            // Too many open files, most likely. They become fewer by themselves, and looking again at once would spin.
            tracing::warn!(%error, "grpc: a connection could not be accepted");
            sleep(BETWEEN_FAILURES).await;
            None
        }
    }
}

/// One connection, to its end.
async fn converse<S>(stream: S, doors: Doors, settings: &GrpcSettings, mut ending: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Counted { doors, calls: Arc::clone(&calls) };
    let connection = http(settings).serve_connection(TokioIo::new(stream), counted);
    tokio::pin!(connection);

    let mut seen = 0;
    let mut leaving = false;
    let mut deadline = Instant::now() + settings.first_call_timeout;
    loop {
        tokio::select! {
            // How it ended is between the client and its network.
            _ = connection.as_mut() => return,
            _ = ending.wait_for(|ending| *ending), if !leaving => {}
            () = sleep_until(deadline) => {
                let made = calls.load(Ordering::Relaxed);
                if leaving {
                    return;
                }
                if made > seen {
                    seen = made;
                    deadline = Instant::now() + settings.idle_timeout;
                    continue;
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        leaving = true;
        // Whoever has never called has no call to wait for, only the news that we part.
        let called = calls.load(Ordering::Relaxed) > 0;
        deadline = Instant::now() + if called { settings.drain } else { settings.drain.min(GOODBYE) };
    }
}

fn http(settings: &GrpcSettings) -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(settings.max_streams)
        .max_header_list_size(settings.max_header_bytes)
        .keep_alive_interval(settings.ping_every)
        .keep_alive_timeout(settings.ping_timeout)
        // A client that opens calls and takes them back at once is shown the door.
        .max_pending_accept_reset_streams(MAX_RESETS);
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

const GOODBYE: Duration = Duration::from_millis(200);

const BETWEEN_FAILURES: Duration = Duration::from_millis(50);

/// Calls that a client may have taken back before we got to them.
const MAX_RESETS: usize = 64;
