//! One gRPC connection: HTTP/2 with bounds, idle timeout and graceful shutdown.
//!
//! A connection without calls for the idle time, or whose peer does not acknowledge PINGs, is closed with GOAWAY. After
//! shutdown has begun no call is accepted; those in flight may finish within the drain time.

use std::{convert::Infallible, error::Error, pin::pin, time::Duration};

use http::Request;
use hyper::{
    body::Incoming,
    server::conn::http2,
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::{Instant, sleep_until, timeout};

use super::{memory_limit::too_many_calls, router::Router};
use crate::{
    config::Bounds,
    listen::{ABUSE_CLOSE, Connection, RequestCounts, WINDOW_BYTES, count_closed_for_abuse},
    shutdown::Shutdown,
};

/// Serves a connection until it is closed.
pub(super) async fn serve(connection: Connection, router: Router, bounds: Bounds, shutdown: Shutdown) {
    let account = connection.account.clone();
    let result = serve_calls(connection, router, bounds, shutdown).await;
    count_closed_for_abuse(&account, result.as_ref().err().map(|error| error as &(dyn Error + 'static)));
}

async fn serve_calls(
    Connection { stream, account, .. }: Connection,
    router: Router,
    bounds: Bounds,
    mut shutdown: Shutdown,
) -> hyper::Result<()> {
    let calls = RequestCounts::default();
    let service = service_fn({
        let (calls, account) = (calls.clone(), account.clone());
        move |call: Request<Incoming>| {
            calls.count_received(call.version());
            let admitted = account.admit(call).map(|(call, charge)| (router.call(call), charge));
            let account = account.clone();
            async move {
                Ok::<_, Infallible>(match admitted {
                    Ok((response, charge)) => {
                        let Ok(response) = response.await;
                        charge.attach(response)
                    }
                    Err(_refusal) => account.refuse(too_many_calls().into_http()),
                })
            }
        }
    });
    let stream = stream.inspect_http(account.clone(), calls.clone(), None);
    let mut connection = pin!(builder(&bounds).serve_connection(TokioIo::new(stream), service));

    let mut counted = 0;
    let mut is_draining = false;
    let mut deadline = Instant::now() + bounds.idle;
    loop {
        tokio::select! {
            result = connection.as_mut() => return result,
            () = account.close_requested() => return timeout(ABUSE_CLOSE, connection).await.unwrap_or(Ok(())),
            () = shutdown.begun(), if !is_draining => {}
            () = sleep_until(deadline) => {
                if is_draining {
                    return Ok(());
                }
                let received = calls.received();
                if received > counted {
                    counted = received;
                    deadline = Instant::now() + bounds.idle;
                    continue;
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        is_draining = true;
        // Without calls there is only GOAWAY to send.
        let limit = if calls.received() > 0 { bounds.drain } else { bounds.drain.min(GOAWAY_TIME) };
        deadline = Instant::now() + limit;
    }
}

fn builder(bounds: &Bounds) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(bounds.streams)
        .max_header_list_size(u32::try_from(bounds.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(bounds.request)
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_RESETS);
    builder
}

/// Interval of PINGs on an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Time limit for sending GOAWAY.
const GOAWAY_TIME: Duration = Duration::from_millis(200);
/// Calls cancelled before they were accepted, or reset for protocol errors, before h2 closes the connection.
const MAX_RESETS: usize = 100;
