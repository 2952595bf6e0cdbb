//! Sends each call to its service: whoever may ask, within bounds on how many calls there are and how long they take.

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
    room::{MAX_MESSAGE_BYTES, Measured, Room, full},
    service::{self, Limits},
    wire::{self, RateLimitServiceServer},
};
use crate::{
    config::Bounds,
    http::bearer,
    listen::Received,
    security::Access,
    telemetry::{Trace, Traces, Wire},
};

/// The services of this port. Clones share them.
#[derive(Clone)]
pub(super) struct Doors {
    limits: RateLimitServiceServer<Limits>,
    rare: Arc<Rare>,
    latency: Histogram,
    bad_requests: Counter,
    calls: Arc<Semaphore>,
    bounds: Bounds,
    traces: Traces,
}

/// What a call seldom needs.
struct Rare {
    access: Access,
    refused_tokens: Counter,
    health: Door,
    /// Reflection, by the names of its services.
    reflection: Vec<(&'static str, Door)>,
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;
type Door = Box<dyn Fn(Request<Received>) -> Answering + Send + Sync>;

impl Doors {
    pub(super) fn new(grpc: Grpc, bounds: Bounds) -> (Self, Reporter) {
        let most = bounds.body_bytes;
        let latency = grpc.engine.telemetry().latency(Wire::Grpc);
        let bad_requests = grpc.engine.telemetry().bad_requests.get_or_create(&Wire::Grpc.label()).clone();
        let refused_tokens = grpc.engine.telemetry().refused_tokens.get_or_create(&Wire::Grpc.label()).clone();
        let traces = grpc.engine.telemetry().traces().clone();
        let limits = Limits { engine: grpc.engine, fields: grpc.fields };
        let reporter = Reporter(HealthReporter::new());
        let health = HealthServer::new(HealthService::from_health_reporter(reporter.0.clone()));
        let (_, health) = door(health.max_decoding_message_size(most));
        // They are made from descriptors that a test has looked through; should one not be understood after all, the
        // server does without reflection.
        let v1 = reflection().build_v1().map(|service| door(service.max_decoding_message_size(most)));
        let v1alpha = reflection().build_v1alpha().map(|service| door(service.max_decoding_message_size(most)));
        let reflection = v1.into_iter().chain(v1alpha).collect();
        let doors = Self {
            limits: RateLimitServiceServer::new(limits).max_decoding_message_size(MAX_MESSAGE_BYTES),
            rare: Arc::new(Rare { access: grpc.access, refused_tokens, health, reflection }),
            latency,
            bad_requests,
            calls: Arc::new(Semaphore::new(grpc.calls)),
            bounds,
            traces,
        };
        (doors, reporter)
    }

    fn answer(&self, mut request: Request<Received>, room: &Arc<Room>) -> Result<Answering, Status> {
        let path = request.uri().path();
        let service = path.strip_prefix('/').and_then(|path| path.split('/').next()).unwrap_or_default();
        // Health is nobody's secret, and those who look after it seldom carry tokens.
        if service == HEALTH {
            return Ok((self.rare.health)(request));
        }
        let reflection = self.rare.reflection.iter().find(|(name, _)| *name == service);
        if service != LIMITS && reflection.is_none() {
            let path: String = path.escape_debug().take(SHOWN).collect();
            return Err(Status::unimplemented(format!("there is no \"{path}\" here; reflection tells what there is")));
        }
        if !self.rare.access.is_open() {
            let pass = self.rare.access.pass(bearer(request.headers())).ok_or_else(|| {
                self.rare.refused_tokens.inc();
                Status::unauthenticated("send a known token as \"authorization: Bearer …\"; this server asks for one")
            })?;
            request.extensions_mut().insert(pass);
        }
        Ok(match reflection {
            Some((_, door)) => door(request),
            None => {
                let request = request.map(|body| Measured::new(body, Arc::clone(room)));
                Service::call(&mut self.limits.clone(), request)
            }
        })
    }
}

impl hyper::service::Service<Request<Received>> for Doors {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Received>) -> Answering {
        let began = Instant::now();
        let Some(room) = Room::take(&self.calls) else { return refuse(full()) };
        // Health and reflection are no decisions.
        let is_question = request.uri().path().strip_prefix('/') == Some(SHOULD_RATE_LIMIT);
        let trace = match self.traces.is_on() && is_question {
            true => self.traces.request(Wire::Grpc, || SHOULD_RATE_LIMIT, Some(request.headers())),
            false => Trace::none(),
        };
        let answering = match self.answer(request, &room) {
            Ok(answering) => answering,
            Err(status) => return refuse(status),
        };
        let (within, latency) = (self.bounds.request, self.latency.clone());
        let bad_requests = self.bad_requests.clone();
        Box::pin(async move {
            let answer = timeout(within, trace.around(answering)).await;
            drop(room);
            latency.observe(began.elapsed().as_secs_f64());
            let Ok(answer) = answer.unwrap_or_else(|_| {
                let message = format!("the call was not complete and answered within {within:?}");
                Ok(Status::deadline_exceeded(message).into_http())
            });
            // tonic leaves the status of a call that failed with its answer; what it could not read never came to us.
            if is_question && answer.extensions().get::<Status>().is_some_and(service::is_callers_fault) {
                bad_requests.inc();
            }
            trace.ended(|| {
                let code = Status::from_header_map(answer.headers()).map_or(Code::Ok, |status| status.code());
                let is_our_fault = matches!(code, Code::Internal | Code::Unavailable | Code::DeadlineExceeded);
                ("rpc.grpc.status_code", code as i64, is_our_fault)
            });
            Ok(answer)
        })
    }
}

impl fmt::Debug for Doors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doors").finish_non_exhaustive()
    }
}

/// Tells whoever asks for health whether new calls are welcome.
#[derive(Clone, Debug)]
pub(super) struct Reporter(HealthReporter);

impl Reporter {
    pub(super) async fn tell(&self, welcome: bool) {
        use tonic_health::ServingStatus::{NotServing, Serving};
        let status = if welcome { Serving } else { NotServing };
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

fn door<S>(service: S) -> (&'static str, Door)
where
    S: Service<Request<Received>, Response = Response<Body>, Error = Infallible> + NamedService,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    (S::NAME, Box::new(move |request| Box::pin(service.clone().call(request))))
}

fn refuse(status: Status) -> Answering {
    Box::pin(std::future::ready(Ok(status.into_http())))
}

const LIMITS: &str = <RateLimitServiceServer<Limits> as NamedService>::NAME;
const SHOULD_RATE_LIMIT: &str = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const HEALTH: &str = <HealthServer<HealthService> as NamedService>::NAME;

/// Characters of a stranger's path that an answer repeats.
const SHOWN: usize = 100;
