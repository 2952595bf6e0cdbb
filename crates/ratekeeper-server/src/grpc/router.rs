//! Dispatch of gRPC calls to services, with authentication, a limit on calls in flight and a deadline per call.
//!
//! The health service needs no token, so that health checks work without credentials. Rate limits and reflection do if
//! tokens are configured.

use std::{convert::Infallible, fmt, pin::Pin, sync::Arc, time::Instant};

use http::{Request, Response};
use prometheus_client::metrics::{counter::Counter, histogram::Histogram};
use tokio::{sync::Semaphore, time::timeout};
use tonic::{Code, Status, body::Body, codegen::Service, server::NamedService};
use tonic_health::{
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use tonic_reflection::server::Builder as Reflection;

use super::{
    Grpc,
    memory_limit::{CallMemory, MAX_MESSAGE_BYTES, MeteredBody, too_many_calls},
    service::{self, RateLimitHandler},
    wire::{self, RateLimitServiceServer},
};
use crate::{
    config::Bounds,
    http::bearer,
    listen::ChargedRequestBody,
    security::Access,
    telemetry::{Trace, Traces, Wire},
};

/// The services of this port. Clones share them.
#[derive(Clone)]
pub(super) struct Router {
    limits: RateLimitServiceServer<RateLimitHandler>,
    cold: Arc<ColdState>,
    latency: Histogram,
    bad_requests: Counter,
    calls: Arc<Semaphore>,
    bounds: Bounds,
    traces: Traces,
}

/// State that the hot path rarely touches.
struct ColdState {
    access: Access,
    refused_tokens: Counter,
    health: Handler,
    /// Reflection handlers by service name.
    reflection: Vec<(&'static str, Handler)>,
}

type BoxedResponse = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;
type Handler = Box<dyn Fn(Request<ChargedRequestBody>) -> BoxedResponse + Send + Sync>;

impl Router {
    pub(super) fn new(grpc: Grpc, bounds: Bounds) -> (Self, ReadinessReporter) {
        let most = bounds.body_bytes;
        let latency = grpc.engine.telemetry().latency(Wire::Grpc);
        let bad_requests = grpc.engine.telemetry().bad_requests.get_or_create(&Wire::Grpc.label()).clone();
        let refused_tokens = grpc.engine.telemetry().refused_tokens.get_or_create(&Wire::Grpc.label()).clone();
        let traces = grpc.engine.telemetry().traces().clone();
        let limits = RateLimitHandler { engine: grpc.engine, fields: grpc.fields };
        let reporter = ReadinessReporter(HealthReporter::new());
        let health = HealthServer::new(HealthService::from_health_reporter(reporter.0.clone()));
        let (_, health) = handler(health.max_decoding_message_size(most));
        // Built from descriptors that a test validates. If one cannot be parsed, the server runs without that version
        // of reflection.
        let v1 = reflection().build_v1().map(|service| handler(service.max_decoding_message_size(most)));
        let v1alpha = reflection().build_v1alpha().map(|service| handler(service.max_decoding_message_size(most)));
        let reflection = v1.into_iter().chain(v1alpha).collect();
        let router = Self {
            limits: RateLimitServiceServer::new(limits).max_decoding_message_size(MAX_MESSAGE_BYTES),
            cold: Arc::new(ColdState { access: grpc.access, refused_tokens, health, reflection }),
            latency,
            bad_requests,
            calls: Arc::new(Semaphore::new(grpc.calls)),
            bounds,
            traces,
        };
        (router, reporter)
    }

    fn answer(
        &self,
        mut request: Request<ChargedRequestBody>,
        memory: &Arc<CallMemory>,
    ) -> Result<BoxedResponse, Status> {
        let path = request.uri().path();
        let service = path.strip_prefix('/').and_then(|path| path.split('/').next()).unwrap_or_default();
        // Health is not confidential, and health checkers seldom send tokens.
        if service == HEALTH {
            return Ok((self.cold.health)(request));
        }
        let reflection = self.cold.reflection.iter().find(|(name, _)| *name == service);
        if service != LIMITS && reflection.is_none() {
            let path: String = path.escape_debug().take(SHOWN).collect();
            return Err(Status::unimplemented(format!("there is no method \"{path}\"; reflection lists the services")));
        }
        if !self.cold.access.is_open() {
            let pass = self.cold.access.pass(bearer(request.headers())).ok_or_else(|| {
                self.cold.refused_tokens.inc();
                Status::unauthenticated("send a known token as \"authorization: Bearer …\"; this server requires one")
            })?;
            request.extensions_mut().insert(pass);
        }
        Ok(match reflection {
            Some((_, handler)) => handler(request),
            None => {
                let request = request.map(|body| MeteredBody::new(body, Arc::clone(memory)));
                Service::call(&mut self.limits.clone(), request)
            }
        })
    }
}

impl hyper::service::Service<Request<ChargedRequestBody>> for Router {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxedResponse;

    fn call(&self, request: Request<ChargedRequestBody>) -> BoxedResponse {
        let began = Instant::now();
        let Some(memory) = CallMemory::take(&self.calls) else { return refuse(too_many_calls()) };
        // Calls to health and reflection are not traced and not counted as bad requests.
        let is_rate_limit = request.uri().path().strip_prefix('/') == Some(SHOULD_RATE_LIMIT);
        let trace = match self.traces.is_on() && is_rate_limit {
            true => self.traces.request(Wire::Grpc, || SHOULD_RATE_LIMIT, Some(request.headers())),
            false => Trace::none(),
        };
        let response = match self.answer(request, &memory) {
            Ok(response) => response,
            Err(status) => return refuse(status),
        };
        let (within, latency) = (self.bounds.request, self.latency.clone());
        let bad_requests = self.bad_requests.clone();
        Box::pin(async move {
            let answer = timeout(within, trace.around(response)).await;
            drop(memory);
            latency.observe(began.elapsed().as_secs_f64());
            let Ok(answer) = answer.unwrap_or_else(|_| {
                let message = format!("the call was not completed within {within:?}");
                Ok(Status::deadline_exceeded(message).into_http())
            });
            // tonic stores the status of a failed call in the extensions. Messages that fail to decode never reach the
            // handler, so they are counted here.
            if is_rate_limit && answer.extensions().get::<Status>().is_some_and(service::is_client_error) {
                bad_requests.inc();
            }
            trace.ended(|| {
                let code = Status::from_header_map(answer.headers()).map_or(Code::Ok, |status| status.code());
                let is_server_error = matches!(code, Code::Internal | Code::Unavailable | Code::DeadlineExceeded);
                ("rpc.grpc.status_code", code as i64, is_server_error)
            });
            Ok(answer)
        })
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").finish_non_exhaustive()
    }
}

/// Publishes readiness through the health service.
#[derive(Clone, Debug)]
pub(super) struct ReadinessReporter(HealthReporter);

impl ReadinessReporter {
    /// Sets the status of the server and of the rate limit service.
    pub(super) async fn publish(&self, is_ready: bool) {
        use tonic_health::ServingStatus::{NotServing, Serving};
        let status = if is_ready { Serving } else { NotServing };
        for name in ["", LIMITS] {
            self.0.set_service_status(name, status).await;
        }
    }
}

fn reflection() -> Reflection<'static> {
    Reflection::configure()
        .register_encoded_file_descriptor_set(wire::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

fn handler<S>(service: S) -> (&'static str, Handler)
where
    S: Service<Request<ChargedRequestBody>, Response = Response<Body>, Error = Infallible> + NamedService,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    (S::NAME, Box::new(move |request| Box::pin(service.clone().call(request))))
}

fn refuse(status: Status) -> BoxedResponse {
    Box::pin(std::future::ready(Ok(status.into_http())))
}

const LIMITS: &str = <RateLimitServiceServer<RateLimitHandler> as NamedService>::NAME;
const SHOULD_RATE_LIMIT: &str = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const HEALTH: &str = <HealthServer<HealthService> as NamedService>::NAME;

/// Characters of an unknown path that the error message repeats.
const SHOWN: usize = 100;
