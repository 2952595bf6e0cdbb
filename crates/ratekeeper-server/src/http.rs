//! HTTP wire (HTTP/1.1 and HTTP/2): decode → ask the engine → encode.
//!
//! ```text
//! POST /v1/check    {"domain","key" or "descriptor","cost","max_wait_ms"}  → 200 and the decision, allowed or not
//! GET  /v1/auth     for proxies: 200, or the status of a denial
//! POST /v1/peek, /v1/refund, /v1/settle, /v1/release, /v1/heartbeat, /v1/penalize, /v1/block,
//!      /v1/reset
//! GET  /v1/openapi.json, /v1/openapi-3.0.json
//! ```

pub mod auth;
mod body;
pub(crate) mod content_type;
mod guard;
mod keep_alive;
mod openapi;
pub(crate) mod problem;
mod render;
mod route;

use std::{convert::Infallible, sync::Arc, time::Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, service::service_fn};

pub(crate) use self::render::shown_key;
pub use self::{
    guard::Guard,
    problem::Problem,
    render::{answer_line, name_undecided},
    route::RequestBody,
};
pub(crate) use self::{
    keep_alive::Exchange,
    route::{READING, bearer, collect, is_reading},
};
use crate::{
    config::AuthConfig,
    engine::Engine,
    header_cache::HeaderCache,
    listen::{ChargedRequestBody, Connection, Listener, serve_http},
    security::Access,
    shutdown::Shutdown,
    telemetry::Wire,
};
use ratekeeper_http::HeaderStyle;

/// A response with its whole body in memory.
pub(crate) type HttpResponse = Response<Full<Bytes>>;

/// The HTTP wire.
#[derive(Clone, Debug)]
pub struct Http(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
    access: Access,
    fields: HeaderCache,
    auth: AuthConfig,
    guard: Guard,
}

impl Http {
    /// An HTTP wire in front of this engine.
    pub fn new(engine: Engine, access: Access, headers: HeaderStyle, auth: AuthConfig, guard: Guard) -> Self {
        Self(Arc::new(Inner { engine, access, fields: HeaderCache::new(headers), auth, guard }))
    }

    /// Serves the connections of the listener until shutdown.
    pub async fn serve(self, listener: Listener, shutdown: Shutdown) {
        let bounds = listener.bounds();
        let latency = self.0.engine.telemetry().latency(Wire::Http);
        let serve = move |connection: Connection, shutdown: Shutdown| {
            let (http, latency, stopping, peer) = (self.clone(), latency.clone(), shutdown.clone(), connection.peer);
            let service = service_fn(move |request: Request<ChargedRequestBody>| {
                let (http, latency, stopping) = (http.clone(), latency.clone(), stopping.clone());
                async move {
                    let began = Instant::now();
                    let traces = http.0.engine.telemetry().traces();
                    let trace = traces.request(Wire::Http, || route::name(&request), Some(request.headers()));
                    let (mut exchange, head) = Exchange::begin(request, bounds);
                    let request = Request::from_parts(head, exchange.body());
                    let reply = trace.around(http.answer(request, peer, bounds)).await;
                    latency.observe(began.elapsed().as_secs_f64());
                    let status = reply.status();
                    trace.ended(|| ("http.response.status_code", status.as_u16().into(), status.is_server_error()));
                    Ok::<_, Infallible>(exchange.end(reply, &stopping).await)
                }
            });
            serve_http(connection, service, bounds, shutdown)
        };
        listener.run(shutdown, serve).await;
    }
}
