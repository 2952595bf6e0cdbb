//! HTTP/1.1 and HTTP/2 on one connection, with the bounds that the usual servers leave open.

use std::{error::Error, pin::pin, time::Duration};

use hyper::{
    Request, Response,
    body::{Body, Incoming},
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::time::sleep;

use super::{
    Connection,
    heads::{Heads, Watched},
};
use crate::{config::Bounds, shutdown::Shutdown};

/// Serves one connection until the peer leaves or, after the word to stop, until what is under way is answered.
///
/// Stopping has two steps. For a moment requests that are already on their way are still taken; services should say
/// `Connection: close` then, so that clients leave by themselves. After that, the connection is closed as soon as it
/// is idle.
pub async fn serve_http<S, B>(connection: Connection, service: S, bounds: Bounds, mut shutdown: Shutdown)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // hyper's clock for a head begins when the last answer ends, so it must bear an idle connection as well; heads that
        // were begun have a watch of their own.
        .header_read_timeout(bounds.idle.max(bounds.request))
        .max_buf_size(bounds.header_bytes.max(MIN_BUFFER))
        .max_headers(MAX_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(bounds.streams)
        .max_header_list_size(u32::try_from(bounds.header_bytes).unwrap_or(u32::MAX))
        .max_local_error_reset_streams(MAX_RESETS)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(bounds.request);
    let heads = Heads::default();
    let stream = Watched::new(connection.stream, heads.clone(), bounds.request);
    let service = service_fn(move |request: Request<Incoming>| {
        heads.ended(request.version());
        let (answer, heads) = (service.call(request), heads.clone());
        async move {
            let answer = answer.await;
            heads.answered();
            answer
        }
    });
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // What is wrong with a connection is its peer's business; the service has told it what could be told.
        _ = served.as_mut() => return,
        () = shutdown.begun() => {}
    }
    tokio::select! {
        _ = served.as_mut() => return,
        () = sleep(LAST_REQUESTS) => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}

/// hyper asks for at least this.
const MIN_BUFFER: usize = 8 << 10;
/// Header fields of one request.
const MAX_HEADERS: usize = 100;
/// Streams that we reset for a peer's mistakes before the connection is given up.
const MAX_RESETS: usize = 100;
/// How often a silent HTTP/2 peer is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// How long requests are still taken after the word to stop: they were sent before anybody could know.
const LAST_REQUESTS: Duration = Duration::from_millis(100);
