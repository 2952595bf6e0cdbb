//! Admin port: metrics, health checks, switches, overrides, reload and the dashboard. None of it is on the data ports.
//!
//! ```text
//! GET  /metrics  /healthz  /readyz  /            the last is the dashboard; its files are below /page/
//! GET  /api/state                                the data of the dashboard and of `ratekeeper top`
//! GET  /api/recent                               the latest refusals, and the latest keys of each policy
//! GET  /api/switches    POST /api/switches       {"set":"off"|"on"|"shadow"|"enforce","domain","policy","rule"}
//! GET  /api/overrides   POST, DELETE             {"domain","policy","key","rules":[…],"expires_in":"1h"}
//! POST /api/explain     {"domain","key" or "descriptor","cost"}: what the next request of a key would be answered
//! POST /api/reload                               reloads the files; replies with the changes, or 422 and the errors
//! ```

mod explain;
mod overrides;
mod page;
mod recent;
mod reload;
mod state;
mod switch;

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY},
    service::service_fn,
};
use serde::Serialize;

use crate::{
    engine::Engine,
    health::Health,
    http::{
        Exchange, Guard, HttpResponse, Problem, READING, RequestBody, bearer, collect, content_type, is_reading,
        problem,
    },
    listen::{ChargedRequestBody, Connection, Listener, serve_http},
    security::RequiredSecret,
    shutdown::Shutdown,
    telemetry::{Wire, prometheus_text},
    watch::Reload,
};

/// The service of the admin port. Clones share it.
#[derive(Clone, Debug)]
pub struct Admin(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
    health: Health,
    reload: Reload,
    token: RequiredSecret,
    guard: Guard,
    began: std::time::Instant,
}

impl Admin {
    /// An admin service for this engine.
    pub fn new(engine: Engine, health: Health, reload: Reload, token: RequiredSecret, guard: Guard) -> Self {
        Self(Arc::new(Inner { engine, health, reload, token, guard, began: std::time::Instant::now() }))
    }

    /// Serves the listener's connections until shutdown.
    pub async fn serve(self, listener: Listener, shutdown: Shutdown) {
        let bounds = listener.bounds();
        let serve = move |connection: Connection, shutdown: Shutdown| {
            let (admin, stopping) = (self.clone(), shutdown.clone());
            let service = service_fn(move |request: Request<ChargedRequestBody>| {
                let (admin, stopping) = (admin.clone(), stopping.clone());
                async move {
                    let (mut exchange, head) = Exchange::begin(request, bounds);
                    let request = Request::from_parts(head, exchange.body());
                    let reply = match admin.answer(request, bounds).await {
                        Ok(reply) => reply,
                        Err(problem) => {
                            let bad = &admin.0.engine.telemetry().bad_requests;
                            bad.get_or_create(&Wire::Admin.label()).inc();
                            problem::reply(problem)
                        }
                    };
                    Ok::<_, Infallible>(exchange.end(reply, &stopping).await)
                }
            });
            serve_http(connection, service, bounds, shutdown)
        };
        listener.run(shutdown, serve).await;
    }

    async fn answer(
        &self,
        request: Request<impl RequestBody>,
        bounds: crate::config::Bounds,
    ) -> Result<HttpResponse, Problem> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        // Health checks need no token: orchestrators have none, and the replies hold nothing confidential.
        match path {
            "/healthz" => return Ok(text("alive\n")),
            "/readyz" => return Ok(self.ready()),
            _ => {}
        }
        self.0.guard.check_host(&head)?;
        if let Some(part) = page::part(path) {
            return if is_reading(&head.method) { Ok(part) } else { Err(problem::method_not_allowed(READING)) };
        }
        self.admit(&head.headers)?;
        match (&head.method, path) {
            (&Method::GET | &Method::HEAD, "/metrics") => self.metrics(&head.headers),
            (&Method::GET | &Method::HEAD, "/api/state") => Ok(json(&self.state())),
            (&Method::GET | &Method::HEAD, "/api/recent") => Ok(json(&recent::view(&self.0.engine))),
            (&Method::GET | &Method::HEAD, "/api/switches") => Ok(json(&switch::view(&self.0.engine))),
            (&Method::GET | &Method::HEAD, "/api/overrides") => Ok(json(&overrides::list(&self.0.engine))),
            (&Method::POST | &Method::DELETE, "/api/switches" | "/api/overrides" | "/api/reload" | "/api/explain") => {
                self.0.guard.check_site(&head)?;
                // A reload has no body, so it needs no content type and `curl -X POST` is enough.
                match path {
                    "/api/reload" => content_type::refuse_forms(&head.headers)?,
                    _ => content_type::require_json(&head.headers)?,
                }
                let bytes = collect(body, bounds).await?;
                match (&head.method, path) {
                    (&Method::POST, "/api/switches") => switch::change(&self.0.engine, &bytes),
                    (&Method::POST, "/api/overrides") => overrides::put(&self.0.engine, &bytes),
                    (&Method::DELETE, "/api/overrides") => overrides::remove(&self.0.engine, &bytes),
                    (&Method::POST, "/api/explain") => explain::run(&self.0.engine, &bytes).await,
                    (&Method::POST, _) => reload::run(&self.0.engine, &self.0.reload).await,
                    _ => Err(allowed(path)),
                }
            }
            (
                _,
                "/metrics" | "/api/state" | "/api/recent" | "/api/switches" | "/api/overrides" | "/api/reload"
                | "/api/explain",
            ) => Err(allowed(path)),
            _ => Err(problem::not_found(path)),
        }
    }

    fn admit(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if self.0.token.admits(bearer(headers)) {
            return Ok(());
        }
        self.0.engine.telemetry().refused_tokens.get_or_create(&Wire::Admin.label()).inc();
        Err(problem::unauthorized())
    }

    fn ready(&self) -> HttpResponse {
        let readiness = self.0.health.readiness();
        let mut reply = json(&readiness);
        if !readiness.ready {
            *reply.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        reply
    }

    fn metrics(&self, headers: &HeaderMap) -> Result<HttpResponse, Problem> {
        let encoded = self.0.engine.telemetry().encode();
        let body = encoded.map_err(|_| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "No metrics", "the metrics could not be encoded")
        })?;
        let accepts = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
        let (kind, body) = match accepts.into_iter().any(prometheus_text::wants_openmetrics) {
            true => (prometheus_text::OPENMETRICS, body),
            false => (prometheus_text::CLASSIC, prometheus_text::classic(&body)),
        };
        let mut reply = Response::new(Full::new(Bytes::from(body)));
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        reply.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        Ok(reply)
    }
}

/// 405 with the methods that a known path allows.
fn allowed(path: &str) -> Problem {
    problem::method_not_allowed(match path {
        "/api/switches" => "GET, HEAD, POST",
        "/api/overrides" => "GET, HEAD, POST, DELETE",
        "/api/reload" | "/api/explain" => "POST",
        _ => READING,
    })
}

fn text(text: &'static str) -> HttpResponse {
    let mut reply = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    reply
}

fn json(value: &impl Serialize) -> HttpResponse {
    let mut body = serde_json::to_vec(value).unwrap_or_default();
    body.push(b'\n');
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
