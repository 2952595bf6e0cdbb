//! One connection: watched while it lives, ended in order.
//!
//! A connection on which no call is made for long is closed, politely, and so is one whose other end has gone silent.
//! After the word to stop no call is accepted any more; those in flight may finish.

use std::{
    convert::Infallible,
    error::Error,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::Request;
use hyper::{
    body::Incoming,
    server::conn::http2,
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::{Instant, sleep_until, timeout};

use super::{doors::Doors, room::full};
use crate::{
    config::Bounds,
    listen::{Connection, GOODBYE, Guarded, Heads, WINDOW_BYTES, count_closure},
    shutdown::Shutdown,
};

/// Serves a connection to its end.
pub(super) async fn serve(connection: Connection, doors: Doors, bounds: Bounds, shutdown: Shutdown) {
    let account = connection.account.clone();
    let ended = serve_calls(connection, doors, bounds, shutdown).await;
    count_closure(&account, ended.as_ref().err().map(|error| error as &(dyn Error + 'static)));
}

async fn serve_calls(
    Connection { stream, account, .. }: Connection,
    doors: Doors,
    bounds: Bounds,
    mut shutdown: Shutdown,
) -> hyper::Result<()> {
    let calls = Arc::new(AtomicU64::new(0));
    let (counted, charged) = (Arc::clone(&calls), account.clone());
    let service = service_fn(move |call: Request<Incoming>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let admitted = charged.admit(call).map(|(call, charge)| (doors.call(call), charge));
        let account = charged.clone();
        async move {
            Ok::<_, Infallible>(match admitted {
                Ok((answering, charge)) => {
                    let Ok(answer) = answering.await;
                    charge.answer_anyway(answer)
                }
                Err(_) => account.refuse(full().into_http()),
            })
        }
    });
    let stream = Guarded::new(stream, account.clone(), Heads::default());
    let mut connection = pin!(http(&bounds).serve_connection(TokioIo::new(stream), service));

    let mut seen = 0;
    let mut leaving = false;
    let mut deadline = Instant::now() + bounds.idle;
    loop {
        tokio::select! {
            // How it ended is between the client and its network.
            ended = connection.as_mut() => return ended,
            () = account.closed() => return timeout(GOODBYE, connection).await.unwrap_or(Ok(())),
            () = shutdown.begun(), if !leaving => {}
            () = sleep_until(deadline) => {
                if leaving {
                    return Ok(());
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
        deadline = Instant::now() + if called { bounds.drain } else { bounds.drain.min(NEWS) };
    }
}

fn http(bounds: &Bounds) -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(bounds.streams)
        .max_header_list_size(u32::try_from(bounds.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(bounds.request)
        // A client that opens calls and takes them back at once, or makes us reset them, is shown the door.
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_RESETS);
    http
}

/// How often a silent peer is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const NEWS: Duration = Duration::from_millis(200);
/// Calls taken back before we got to them, or reset for a peer's mistakes, before the connection is given up.
const MAX_RESETS: usize = 100;
