//! Test server of the gRPC wire in this process, on a free port, with helpers for requests.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use ratekeeper_http::HeaderStyle;
use ratekeeper_rules::{Format, read_str};
use ratekeeper_server::{
    config::Bounds,
    engine::Engine,
    grpc::{
        Grpc,
        wire::{
            Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse,
            RateLimitServiceClient,
        },
    },
    health::Health,
    listen::Listener,
    security::Access,
    shutdown::{self, Stopper},
    telemetry::{Telemetry, Wire},
    wiring::{StorageSettings, open_store},
};
use tokio::task::JoinHandle;
use tonic::{Status, transport::Channel};

/// A server with given rules; it ends with the test's runtime.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    telemetry: Arc<Telemetry>,
    stopper: Stopper,
    done: JoinHandle<()>,
}

/// Settings of a test server.
pub(crate) struct Choices {
    pub(crate) store: String,
    pub(crate) bounds: Bounds,
    pub(crate) access: Access,
    pub(crate) headers: HeaderStyle,
    pub(crate) calls: usize,
    pub(crate) counts_refused: bool,
}

pub(crate) type Client = RateLimitServiceClient<Channel>;

impl Default for Choices {
    fn default() -> Self {
        Self {
            store: "memory".into(),
            bounds: Bounds::default(),
            access: Access::open(),
            headers: HeaderStyle::Ietf,
            calls: 1_000,
            counts_refused: true,
        }
    }
}

impl Server {
    pub(crate) async fn start(rules: &str) -> Self {
        Self::with(rules, Choices::default()).await
    }

    pub(crate) async fn with(rules: &str, choices: Choices) -> Self {
        let patient = StorageSettings { deadline: TIMEOUT, ..StorageSettings::default() };
        let store = open_store(&choices.store, &patient).await.unwrap();
        let telemetry = Arc::new(Telemetry::default());
        let engine = Engine::new(store, Arc::clone(&telemetry));
        engine.envoy_counts_refused(choices.counts_refused);
        engine.load(read_str("rules.yaml", rules, Format::Yaml).map(|file| vec![file])).unwrap();
        let loopback = ([127, 0, 0, 1], 0).into();
        let listener =
            Listener::bind(Wire::Grpc, loopback, None, choices.bounds, Arc::clone(&telemetry)).await.unwrap();
        let address = listener.address().unwrap();
        let (stopper, shutdown) = shutdown::channel();
        let health = Health::new(engine.clone());
        let grpc = Grpc::new(engine, choices.access, choices.headers, health).calls_at_once(choices.calls);
        let done = tokio::spawn(grpc.serve(listener, shutdown));
        Self { address, telemetry, stopper, done }
    }

    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).unwrap();
        endpoint.connect_timeout(TIMEOUT).timeout(TIMEOUT).connect().await.unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::new(self.channel().await)
    }

    /// The counter of bad requests.
    pub(crate) fn bad_requests(&self) -> u64 {
        self.telemetry.bad_requests.get_or_create(&Wire::Grpc.label()).get()
    }

    /// Begins shutdown.
    pub(crate) fn stop(&self) {
        self.stopper.stop();
    }

    /// Waits until the server has ended.
    pub(crate) async fn ended(self) {
        self.done.await.unwrap();
    }
}

pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
}

pub(crate) fn request(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: domain.into(), descriptors, hits_addend: 0 }
}

pub(crate) async fn ask(client: &mut Client, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
    Ok(client.should_rate_limit(request).await?.into_inner())
}

/// Makes a call with one descriptor of the domain `api`; panics on an error status.
pub(crate) async fn ask_one(client: &mut Client, entries: &[(&str, &str)]) -> RateLimitResponse {
    ask(client, request("api", vec![descriptor(entries)])).await.unwrap()
}

pub(crate) fn passes(response: &RateLimitResponse) -> bool {
    match Code::try_from(response.overall_code).unwrap() {
        Code::Ok => true,
        Code::OverLimit => false,
        Code::Unknown => panic!("neither yes nor no: {response:?}"),
    }
}

pub(crate) fn is_ok(status: &DescriptorStatus) -> bool {
    status.code == i32::from(Code::Ok)
}

pub(crate) fn remaining(response: &RateLimitResponse) -> Vec<u32> {
    response.statuses.iter().map(|status| status.limit_remaining).collect()
}

/// Timeout far above the duration of any call on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
