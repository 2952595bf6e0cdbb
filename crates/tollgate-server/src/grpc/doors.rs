//! Sends each call to its service, within bounds on how many there are and how long they take.

use std::{convert::Infallible, fmt, pin::Pin, sync::Arc};

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::{sync::Semaphore, time::timeout};
use tonic::{Status, body::Body, codegen::Service, server::NamedService};
use tonic_health::server::{HealthReporter, HealthService};
use tonic_reflection::server::Builder as Reflection;

use super::{
    GrpcSettings,
    service::Limits,
    wire::{self, RateLimitServiceServer},
};
use crate::engine::Engine;

/// The services of this port. Clones share them.
#[derive(Clone)]
pub(super) struct Doors {
    limits: RateLimitServiceServer<Limits>,
    /// Health and reflection, by the names of their services.
    others: Arc<[(&'static str, Door)]>,
    calls: Arc<Semaphore>,
    settings: Arc<GrpcSettings>,
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;
type Door = Box<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>;

impl Doors {
    pub(super) async fn new(engine: Engine, settings: Arc<GrpcSettings>) -> (Self, Reporter) {
        let limits = Limits { engine, headers: settings.headers };
        let limits = RateLimitServiceServer::new(limits).max_decoding_message_size(settings.max_message_bytes);
        let reporter = Reporter(HealthReporter::new());
        reporter.tell(true).await;

        let health = HealthService::from_health_reporter(reporter.0.clone());
        let health = tonic_health::pb::health_server::HealthServer::new(health)
            .max_decoding_message_size(settings.max_message_bytes);
        let mut others = vec![door(health)];
        // They are made from descriptors that a test has looked through; should one not be understood after all, the
        // server does without reflection.
        if let Ok(service) = reflection().build_v1() {
            others.push(door(service.max_decoding_message_size(settings.max_message_bytes)));
        }
        if let Ok(service) = reflection().build_v1alpha() {
            others.push(door(service.max_decoding_message_size(settings.max_message_bytes)));
        }
        let calls = Arc::new(Semaphore::new(settings.max_calls));
        (Self { limits, others: others.into(), calls, settings }, reporter)
    }

    fn answer(&self, request: Request<Incoming>) -> Option<Answering> {
        let service = request.uri().path().strip_prefix('/')?.split('/').next()?;
        if service == LIMITS {
            return Some(Service::call(&mut self.limits.clone(), request));
        }
        let (_, door) = self.others.iter().find(|(name, _)| *name == service)?;
        Some(door(request))
    }
}

impl hyper::service::Service<Request<Incoming>> for Doors {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let Ok(permit) = Arc::clone(&self.calls).try_acquire_owned() else {
            let most = self.settings.max_calls;
            return refuse(Status::unavailable(format!("{most} calls are being answered; come back in a moment")));
        };
        let path = request.uri().path().to_owned();
        let Some(answering) = self.answer(request) else {
            let path: String = path.escape_debug().take(SHOWN).collect();
            return refuse(Status::unimplemented(format!(
                "there is no \"{path}\" here; reflection tells what there is"
            )));
        };
        let within = self.settings.call_timeout;
        Box::pin(async move {
            let answer = timeout(within, answering).await;
            drop(permit);
            answer.unwrap_or_else(|_| {
                let message = format!("the call was not complete and answered within {within:?}");
                Ok(Status::deadline_exceeded(message).into_http())
            })
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
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + NamedService,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    (S::NAME, Box::new(move |request| Box::pin(service.clone().call(request))))
}

fn refuse(status: Status) -> Answering {
    Box::pin(std::future::ready(Ok(status.into_http())))
}

const LIMITS: &str = <RateLimitServiceServer<Limits> as NamedService>::NAME;

/// Characters of a stranger's path that an answer repeats.
const SHOWN: usize = 100;
