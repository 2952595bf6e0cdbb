//! HTTP/1.1 and HTTP/2 on one connection, with the bounds that the usual servers leave open.

use std::{convert::Infallible, error::Error, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::Incoming,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::time::{sleep, timeout};

use super::{
    Connection, Received,
    admission::refusal,
    count_closure,
    guard::Guarded,
    heads::{Heads, Watched},
    malformed,
};
use crate::{config::Bounds, shutdown::Shutdown};

/// Serves one connection until the peer leaves or, after the word to stop, until what is under way is answered.
///
/// Stopping has two steps on HTTP/1. For `LAST_REQUESTS` the next request is still taken, and services should say `Connection: close`
/// then, so that clients leave by themselves. After that, the connection is closed as soon as it is idle. HTTP/2 has GOAWAY for both.
pub async fn serve_http<S>(connection: Connection, service: S, bounds: Bounds, shutdown: Shutdown)
where
    S: Service<Request<Received>, Response = Response<Full<Bytes>>, Error = Infallible> + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    let account = connection.account.clone();
    let ended = serve(connection, service, bounds, shutdown).await;
    count_closure(&account, ended.as_ref().err().map(|error| &**error as &(dyn Error + 'static)));
}

async fn serve<S>(connection: Connection, service: S, bounds: Bounds, mut shutdown: Shutdown) -> Result<(), BoxError>
where
    S: Service<Request<Received>, Response = Response<Full<Bytes>>, Error = Infallible> + Send + Sync + 'static,
    S::Future: Send + 'static,
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
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_local_error_reset_streams(MAX_RESETS)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(bounds.request);
    let heads = Heads::default();
    let account = connection.account;
    let stream = Guarded::new(connection.stream, account.clone(), heads.clone());
    let stream = Watched::new(stream, heads.clone(), bounds.request);
    let watched = heads.clone();
    let (charged, service) = (account.clone(), Arc::new(service));
    let service = service_fn(move |request: Request<Incoming>| {
        let has_bare_lf = heads.ended(request.version());
        let (fault, version) = (malformed::fault(&request, has_bare_lf), request.version());
        let admitted = charged.admit(request);
        let (heads, account, service) = (heads.clone(), charged.clone(), Arc::clone(&service));
        async move {
            let answer = match admitted {
                Ok((request, charge)) => {
                    if let Some(fault) = fault {
                        account.port().bad_requests().inc();
                        heads.answered();
                        return Ok::<_, Infallible>(charge.answer_anyway(malformed::answer(version, fault)));
                    }
                    // In a box, from when it runs until the answer is there: a stream keeps the rest until the answer is
                    // sent. On HTTP the box is about 12 KiB.
                    let Ok(answer) = Box::pin(service.call(request)).await;
                    charge.answer(answer)
                }
                Err(no_room) => Err(no_room),
            };
            heads.answered();
            Ok(answer.unwrap_or_else(|_| account.refuse(refusal())))
        }
    });
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut seen = 0;
    loop {
        tokio::select! {
            // What is wrong with a connection is its peer's business; the service has told it what could be told.
            ended = served.as_mut() => return ended,
            () = account.closed() => return timeout(GOODBYE, served).await.unwrap_or(Ok(())),
            () = shutdown.begun() => {
                // An HTTP/2 client is sent GOAWAY, which says what is still answered.
                if watched.are_shared() {
                    break;
                }
                tokio::select! {
                    ended = served.as_mut() => return ended,
                    () = account.closed() => return timeout(GOODBYE, served).await.unwrap_or(Ok(())),
                    () = sleep(LAST_REQUESTS.min(bounds.drain / 2)) => break,
                }
            }
            // On HTTP/2 pings keep a connection alive on which nothing is asked; on HTTP/1 its reads run out of time.
            () = sleep(bounds.idle) => {
                let asked = watched.count();
                if watched.are_shared() && asked == seen {
                    served.as_mut().graceful_shutdown();
                    return timeout(bounds.drain, served).await.unwrap_or(Ok(()));
                }
                seen = asked;
            }
        }
    }
    served.as_mut().graceful_shutdown();
    tokio::select! {
        ended = served.as_mut() => return ended,
        () = account.closed() => {}
    }
    timeout(GOODBYE, served).await.unwrap_or(Ok(()))
}

type BoxError = Box<dyn Error + Send + Sync>;

/// hyper asks for at least this.
const MIN_BUFFER: usize = 8 << 10;
/// Header fields of one request.
const MAX_HEADERS: usize = 100;
/// Streams that we reset for a peer's mistakes before the connection is given up.
const MAX_RESETS: usize = 100;
/// What an HTTP/2 peer may send ahead of what is read. Bodies are read at once, and have at most 64 KiB.
pub(crate) const WINDOW_BYTES: u32 = 65_535;
/// How long a connection that is closed for abuse has to take the news, lingering close included.
pub(crate) const GOODBYE: Duration = Duration::from_millis(1_200);
/// How often a silent HTTP/2 peer is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// How long requests on an HTTP/1 connection are still taken after the word to stop, each answered with `Connection: close`. A client that
/// was about to send one cannot know, and closing before it is heard would lose it.
const LAST_REQUESTS: Duration = Duration::from_secs(1);
