//! HTTP/1.1 and HTTP/2 on one connection, with the bounds that hyper leaves open.
//!
//! Shutdown has two steps on HTTP/1. For `LAST_REQUESTS` the next request is still accepted, and services should answer
//! it with `Connection: close`, so that clients close first. After that, the connection is closed as soon as it is idle.
//! HTTP/2 has GOAWAY for both.

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
    Account, ChargedRequestBody, ChargedResponseBody, Connection, RequestCounts, admission::refusal_response,
    charged_body::BoxError, count_closed_for_abuse, malformed,
};
use crate::{config::Bounds, shutdown::Shutdown};

/// Serves one connection until the peer closes it or, after shutdown has begun, until in-flight requests are answered.
pub async fn serve_http<S>(connection: Connection, service: S, bounds: Bounds, shutdown: Shutdown)
where
    S: Service<Request<ChargedRequestBody>, Response = Response<Full<Bytes>>, Error = Infallible>
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let account = connection.account.clone();
    let result = serve(connection, service, bounds, shutdown).await;
    count_closed_for_abuse(&account, result.as_ref().err().map(|error| &**error as &(dyn Error + 'static)));
}

async fn serve<S>(connection: Connection, service: S, bounds: Bounds, mut shutdown: Shutdown) -> Result<(), BoxError>
where
    S: Service<Request<ChargedRequestBody>, Response = Response<Full<Bytes>>, Error = Infallible>
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let builder = builder(&bounds);
    let (account, requests) = (connection.account, RequestCounts::default());
    let stream = connection.stream.inspect_http(account.clone(), requests.clone(), Some(bounds.request));
    let service = Arc::new(service);
    let service = service_fn({
        let (account, requests) = (account.clone(), requests.clone());
        move |request| respond(request, &account, &requests, Arc::clone(&service))
    });
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut counted = 0;
    loop {
        tokio::select! {
            result = served.as_mut() => return result,
            () = account.close_requested() => return timeout(ABUSE_CLOSE, served).await.unwrap_or(Ok(())),
            () = shutdown.begun() => {
                if requests.is_http2() {
                    break;
                }
                tokio::select! {
                    result = served.as_mut() => return result,
                    () = account.close_requested() => return timeout(ABUSE_CLOSE, served).await.unwrap_or(Ok(())),
                    () = sleep(LAST_REQUESTS.min(bounds.drain / 2)) => break,
                }
            }
            // PINGs keep an HTTP/2 connection alive without requests; on HTTP/1 the idle timeout fails the read.
            () = sleep(bounds.idle) => {
                let received = requests.received();
                if requests.is_http2() && received == counted {
                    served.as_mut().graceful_shutdown();
                    return timeout(bounds.drain, served).await.unwrap_or(Ok(()));
                }
                counted = received;
            }
        }
    }
    served.as_mut().graceful_shutdown();
    tokio::select! {
        result = served.as_mut() => return result,
        () = account.close_requested() => {}
    }
    timeout(ABUSE_CLOSE, served).await.unwrap_or(Ok(()))
}

/// Admits a request and calls the service; refuses what is malformed or exceeds the memory budget.
fn respond<S>(
    request: Request<Incoming>,
    account: &Account,
    requests: &RequestCounts,
    service: Arc<S>,
) -> impl Future<Output = Result<Response<ChargedResponseBody<Full<Bytes>>>, Infallible>> + use<S>
where
    S: Service<Request<ChargedRequestBody>, Response = Response<Full<Bytes>>, Error = Infallible>,
{
    let has_bare_lf = requests.count_received(request.version());
    let (fault, version) = (malformed::fault(&request, has_bare_lf), request.version());
    let admitted = account.admit(request);
    let (requests, account) = (requests.clone(), account.clone());
    async move {
        let response = match admitted {
            Ok((request, charge)) => match fault {
                Some(fault) => {
                    account.port().bad_requests.inc();
                    Ok(charge.attach(malformed::response(version, fault)))
                }
                None => {
                    // Boxed only while it runs, since a stream keeps this future until the response is sent; the
                    // service's future has about 12 KiB.
                    let Ok(response) = Box::pin(service.call(request)).await;
                    charge.attach_checked(response)
                }
            },
            Err(refusal) => {
                let response = account.refuse(refusal_response());
                drop(refusal);
                Ok(response)
            }
        };
        requests.count_answered();
        Ok(response.unwrap_or_else(|_| account.refuse(refusal_response())))
    }
}

fn builder(bounds: &Bounds) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // hyper's timer for a header block starts when the last response ends, so it has to allow for idle time too.
        // `HeaderTimeout` bounds header blocks that have started.
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
    builder
}

/// hyper's minimum.
const MIN_BUFFER: usize = 8 << 10;
/// Header fields of one request.
const MAX_HEADERS: usize = 100;
/// Streams reset for protocol errors before h2 closes the connection.
const MAX_RESETS: usize = 100;
/// Flow-control window. Bodies are read at once and have at most 64 KiB.
pub(crate) const WINDOW_BYTES: u32 = 65_535;
/// Time limit for sending GOAWAY to a connection that is closed for abuse, lingering close included.
pub(crate) const ABUSE_CLOSE: Duration = Duration::from_millis(1_200);
/// Interval of PINGs on an idle HTTP/2 connection.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// How long an HTTP/1 connection still accepts requests after shutdown has begun. A client may have sent one before it
/// could learn of the shutdown, and closing earlier would lose that request.
const LAST_REQUESTS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
