//! Routing of HTTP requests: access checks, request body, decision.

use std::{error::Error, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Method, Request, Response,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use ratekeeper_core::Store;
use tokio::time::timeout;

use super::{
    Http, HttpResponse, Problem, auth,
    body::{Body, Endpoint},
    content_type,
    openapi::{OPENAPI, OPENAPI_3_0},
    problem, render,
};
use crate::{
    config::Bounds, engine::INLINE_DOMAIN, listen::OutOfBudget, request, security::Pass, telemetry::Wire, wiring::small,
};

impl Http {
    /// Answers a request; every failure becomes a problem response. Listeners call this for each request. Tests and
    /// fuzzers call it without a network.
    pub async fn answer<B: RequestBody>(
        &self,
        request: Request<B>,
        peer: SocketAddr,
        bounds: Bounds,
    ) -> Response<Full<Bytes>> {
        match self.route(request, peer, bounds).await {
            Ok(reply) => reply,
            Err(problem) => {
                if !problem.status().is_server_error() {
                    self.0.engine.telemetry().bad_requests.get_or_create(&Wire::Http.label()).inc();
                }
                problem::reply(problem)
            }
        }
    }

    async fn route<B: RequestBody>(
        &self,
        request: Request<B>,
        peer: SocketAddr,
        bounds: Bounds,
    ) -> Result<HttpResponse, Problem> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        // A proxy forwards the header fields of its client's browser to /v1/auth, so they do not show where the
        // request comes from.
        if path != "/v1/auth" {
            self.0.guard.check_host(&head)?;
        }
        match path {
            "/v1/auth" if auth::accepts_method(&head.method) => {
                let pass = self.admit(&head.headers)?;
                self.admit_proxy(&head.headers)?;
                small(self.0.engine.store(), || self.auth(&head, peer, &pass)).await
            }
            "/v1/auth" => Err(problem::method_not_allowed("GET")),
            "/v1/openapi.json" if is_reading(&head.method) => Ok(description(OPENAPI)),
            "/v1/openapi-3.0.json" if is_reading(&head.method) => Ok(description(&OPENAPI_3_0)),
            "/v1/openapi.json" | "/v1/openapi-3.0.json" => Err(problem::method_not_allowed(READING)),
            path => match Endpoint::of_path(path) {
                Some(endpoint) if head.method == Method::POST => {
                    self.0.guard.check_site(&head)?;
                    content_type::refuse_forms(&head.headers)?;
                    let pass = self.admit(&head.headers)?;
                    let bytes = collect(body, bounds).await?;
                    let id = idempotency_key(&head.headers);
                    small(self.0.engine.store(), || self.decide(endpoint, &bytes, id, &pass)).await
                }
                Some(_) => Err(problem::method_not_allowed("POST")),
                None => Err(problem::not_found(path)),
            },
        }
    }

    async fn decide(
        &self,
        endpoint: &Endpoint,
        bytes: &[u8],
        id: Option<&[u8]>,
        pass: &Pass,
    ) -> Result<HttpResponse, Problem> {
        let body = Body::read(bytes)?;
        let domain = body.domain();
        // Limits without a domain need a token for all of them.
        if !pass.covers(domain) || (domain == INLINE_DOMAIN && !pass.covers_all()) {
            return Err(problem::forbidden("the token is not for this domain"));
        }
        let (mut entries, verb, terms) = (body.entries(), body.verb(endpoint)?, body.terms(endpoint, id)?);
        let engine = &self.0.engine;
        if entries.iter().any(|entries| entries.len() > 1) {
            let rulebook = engine.rulebook();
            entries.iter_mut().for_each(|entries| rulebook.arrange(domain, entries));
        }
        let subjects = body.subjects(&entries)?;
        let request = request::Request { domain, subjects: &subjects, verb };
        let mut answer = engine.decide_with(&request, &terms).await?;
        render::name_undecided(&mut answer, &subjects);
        let line = render::answer_line(&answer, &subjects, verb, engine.store().now());
        Ok(render::decided(line, &answer, &self.0.fields))
    }

    /// What the bearer token gives access to. A missing or unknown token is counted and refused; if no tokens are
    /// configured, every request passes.
    fn admit(&self, headers: &HeaderMap) -> Result<Arc<Pass>, Problem> {
        self.0.access.pass(bearer(headers)).ok_or_else(|| {
            self.0.engine.telemetry().refused_tokens.get_or_create(&Wire::Http.label()).inc();
            problem::unauthorized()
        })
    }
}

/// The name of a request in traces: one of `NAMES`, else `HTTP`, so that clients cannot create names.
pub(super) fn name<B>(request: &Request<B>) -> &'static str {
    let known = |name: &&'static str| {
        let (method, path) = name.split_once(' ').unwrap_or_default();
        request.method().as_str() == method && request.uri().path() == path
    };
    NAMES.iter().copied().find(|name| known(name)).unwrap_or("HTTP")
}

/// A request body, from a connection or another source.
pub trait RequestBody: hyper::body::Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send {}

impl<B: hyper::body::Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send> RequestBody for B {}

/// Whether a method is `GET` or `HEAD`: each path that answers `GET` answers `HEAD`.
pub(crate) fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The token of `Authorization: Bearer …`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// The id of a request in the header `Idempotency-Key`, with or without quotes.
fn idempotency_key(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get("idempotency-key")?.as_bytes().trim_ascii();
    Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}

/// Reads the whole body, within the bounds of size and time.
pub(crate) async fn collect(body: impl RequestBody, bounds: Bounds) -> Result<Bytes, Problem> {
    // A body that is announced as too large is refused before it is read.
    if body.size_hint().lower() > bounds.body_bytes as u64 {
        return Err(problem::too_large(bounds.body_bytes));
    }
    match timeout(bounds.request, Limited::new(body, bounds.body_bytes).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(problem::too_large(bounds.body_bytes)),
        Ok(Err(error)) if error.is::<OutOfBudget>() => Err(problem::no_room(&OutOfBudget)),
        Ok(Err(_)) => Err(Problem::bad_request("the body is incomplete")),
        Err(_) => Err(Problem::new(
            http::StatusCode::REQUEST_TIMEOUT,
            "The request took too long",
            "send the whole body without pauses",
        )),
    }
}

fn description(document: &'static str) -> HttpResponse {
    let mut reply = Response::new(Full::new(Bytes::from_static(document.as_bytes())));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// The methods of [`is_reading`], as a value of `Allow`.
pub(crate) const READING: &str = "GET, HEAD";

/// Names of requests in traces, the most used first.
const NAMES: &[&str] = &[
    "POST /v1/check",
    "GET /v1/auth",
    "HEAD /v1/auth",
    "POST /v1/peek",
    "POST /v1/refund",
    "POST /v1/settle",
    "POST /v1/reserve",
    "POST /v1/commit",
    "POST /v1/cancel",
    "POST /v1/release",
    "POST /v1/heartbeat",
    "POST /v1/penalize",
    "POST /v1/block",
    "POST /v1/reset",
    "GET /v1/openapi.json",
    "HEAD /v1/openapi.json",
    "GET /v1/openapi-3.0.json",
    "HEAD /v1/openapi-3.0.json",
];
