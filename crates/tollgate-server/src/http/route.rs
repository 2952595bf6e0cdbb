//! From a request to an answer: which question it is, whether its sender may ask, and what the body says.

use std::{error::Error, net::SocketAddr};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Method, Request, Response,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use tokio::time::timeout;
use tollgate_core::Store;

use super::{
    Http, Problem, Reply, auth,
    body::{Body, Op},
    guard, render,
};
use crate::{config::Bounds, engine::Question, listen::NoRoom, telemetry::Wire, wiring::small};

impl Http {
    /// Whatever is asked, there is an answer. Listeners call it for everything that arrives; so do tests and fuzzers, for
    /// which there need be no network.
    pub async fn answer<B: Carried>(
        &self,
        request: Request<B>,
        peer: SocketAddr,
        bounds: Bounds,
    ) -> Response<Full<Bytes>> {
        match self.route(request, peer, bounds).await {
            Ok(reply) => reply,
            Err(problem) => {
                if problem.status() < 500 {
                    self.0.engine.telemetry().bad_requests.get_or_create(&Wire::Http.label()).inc();
                }
                problem.reply()
            }
        }
    }

    async fn route<B: Carried>(&self, request: Request<B>, peer: SocketAddr, bounds: Bounds) -> Result<Reply, Problem> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        // A proxy asks at /v1/auth with the header fields of its client's browser, so none of them says where the request comes from.
        if path != "/v1/auth" {
            self.0.guard.check_host(&head)?;
        }
        match path {
            "/v1/auth" if auth::is_asking(&head.method) => {
                let pass = self.admit(&head.headers)?;
                self.admit_proxy(&head.headers)?;
                small(self.0.engine.store(), || self.auth(&head, peer, &pass)).await
            }
            "/v1/auth" => Err(Problem::method("GET")),
            "/v1/openapi.json" if is_reading(&head.method) => Ok(openapi()),
            "/v1/openapi.json" => Err(Problem::method(READING)),
            path => match Op::of_path(path) {
                Some(op) if head.method == Method::POST => {
                    self.0.guard.check_site(&head)?;
                    guard::refuse_forms(&head.headers)?;
                    let pass = self.admit(&head.headers)?;
                    let bytes = collect(body, bounds).await?;
                    small(self.0.engine.store(), || self.decide(op, &bytes, &pass)).await
                }
                Some(_) => Err(Problem::method("POST")),
                None => Err(Problem::not_found(path)),
            },
        }
    }

    async fn decide(&self, op: Op, bytes: &[u8], pass: &crate::security::Pass) -> Result<Reply, Problem> {
        let body = Body::read(bytes)?;
        if !pass.covers(&body.domain) {
            return Err(Problem::forbidden("the token is not for this domain"));
        }
        let (mut entries, verb) = (body.entries(), body.asked(op)?);
        let engine = &self.0.engine;
        if entries.len() > 1 {
            engine.rulebook().arrange(&body.domain, &mut entries);
        }
        let subjects = [body.subject(&entries)?];
        let mut answer = engine.ask(&Question { domain: &body.domain, subjects: &subjects, verb }).await?;
        render::name_undecided(&mut answer, &subjects);
        let line = render::answer_line(&answer, &subjects[0], verb, engine.store().now());
        Ok(render::decided(line, &answer, &self.0.fields))
    }

    /// Whoever bears a token that is known; anybody, where none is asked for.
    fn admit(&self, headers: &HeaderMap) -> Result<std::sync::Arc<crate::security::Pass>, Problem> {
        self.0.access.pass(bearer(headers)).ok_or_else(|| {
            self.0.engine.telemetry().refused_tokens.get_or_create(&Wire::Http.label()).inc();
            Problem::unauthorized()
        })
    }
}

/// What traces call a request: one of a few names, whatever the client writes.
pub(super) fn name<B>(request: &Request<B>) -> &'static str {
    let known = |name: &&'static str| {
        let (method, path) = name.split_once(' ').unwrap_or_default();
        request.method().as_str() == method && request.uri().path() == path
    };
    NAMES.iter().copied().find(|name| known(name)).unwrap_or("HTTP")
}

/// A body, from the network or from anywhere else.
pub trait Carried: hyper::body::Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send {}

impl<B: hyper::body::Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send> Carried for B {}

/// Whether a method wants to be told, with the content or without it: whatever answers `GET` answers `HEAD`.
pub(crate) fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The token of `Authorization: Bearer …`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// The whole body, within its bounds of size and time.
pub(crate) async fn collect(body: impl Carried, bounds: Bounds) -> Result<Bytes, Problem> {
    // Who says beforehand that it is too much need not send it.
    if body.size_hint().lower() > bounds.body_bytes as u64 {
        return Err(Problem::too_large(bounds.body_bytes));
    }
    match timeout(bounds.request, Limited::new(body, bounds.body_bytes).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::too_large(bounds.body_bytes)),
        Ok(Err(error)) if error.is::<NoRoom>() => Err(Problem::no_room(&NoRoom)),
        Ok(Err(_)) => Err(Problem::bad_request("the body ended too early")),
        Err(_) => {
            Err(Problem::new(http::StatusCode::REQUEST_TIMEOUT, "The request took too long", "send it in one go"))
        }
    }
}

fn openapi() -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from_static(OPENAPI.as_bytes())));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// The methods of [`is_reading`].
pub(crate) const READING: &str = "GET, HEAD";

/// What is asked here, the usual first.
const NAMES: [&str; 12] = [
    "POST /v1/check",
    "GET /v1/auth",
    "HEAD /v1/auth",
    "POST /v1/peek",
    "POST /v1/refund",
    "POST /v1/settle",
    "POST /v1/release",
    "POST /v1/heartbeat",
    "POST /v1/penalize",
    "POST /v1/reset",
    "GET /v1/openapi.json",
    "HEAD /v1/openapi.json",
];

/// What can be asked here, for programs.
pub(super) const OPENAPI: &str = include_str!("openapi.json");
