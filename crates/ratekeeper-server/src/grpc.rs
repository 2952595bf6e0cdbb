//! gRPC wire: Envoy's rate limit service (`RateLimitService`, v3), with health checking and reflection.
//!
//! ```text
//! HTTP/2 ─connection─▶ router ─▶ service ─decode─▶ Request ─engine─▶ Answer ─encode─▶ RateLimitResponse
//! ```
//!
//! - [`wire`]: the messages, generated from `proto/`.
//! - `codec`: bounds the repeated fields of a message before it is decoded.
//! - `decode`, `encode`, `metadata`: translation only; nothing is decided there.
//! - `service`: takes all or none in one atomic step, then refunds.
//! - `router`: dispatches calls to services, checks tokens, limits calls in flight and their duration.
//! - `memory_limit`: bounds the memory of all calls together.
//! - `connection`: bounds each connection.

mod codec;
mod connection;
mod decode;
mod encode;
mod memory_limit;
mod metadata;
mod router;
mod service;
pub mod wire;

use std::{sync::Arc, time::Duration};

use prost::Message;
use ratekeeper_http::HeaderStyle;
use tokio::time::sleep;

use self::{
    router::{ReadinessReporter, Router},
    service::RateLimitHandler,
    wire::{RateLimitRequest, RateLimitResponse},
};
use crate::{
    engine::Engine,
    header_cache::HeaderCache,
    health::Health,
    listen::{Connection, Listener},
    security::Access,
    shutdown::Shutdown,
};

/// The gRPC wire.
#[derive(Clone, Debug)]
pub struct Grpc {
    engine: Engine,
    access: Access,
    fields: Arc<HeaderCache>,
    health: Health,
    calls: usize,
}

impl Grpc {
    /// Creates a wire in front of this engine.
    pub fn new(engine: Engine, access: Access, headers: HeaderStyle, health: Health) -> Self {
        Self { engine, access, fields: Arc::new(HeaderCache::new(headers)), health, calls: CALLS_AT_ONCE }
    }

    /// Sets the number of calls in flight over all connections; further calls fail with `UNAVAILABLE`. A call with a
    /// message above 64 KiB counts as several.
    #[must_use]
    pub fn calls_at_once(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }

    /// Answers one encoded request without a network or a token check, for tests and fuzzing.
    pub async fn answer(&self, message: &[u8]) -> Result<RateLimitResponse, tonic::Status> {
        let request = RateLimitRequest::decode(message)
            .map_err(|error| tonic::Status::internal(format!("the message cannot be read: {error}")))?;
        RateLimitHandler { engine: self.engine.clone(), fields: Arc::clone(&self.fields) }.answer(&request).await
    }

    /// Serves the connections of the listener until shutdown.
    pub async fn serve(self, listener: Listener, shutdown: Shutdown) {
        let bounds = listener.bounds();
        let health = self.health.clone();
        let (router, reporter) = Router::new(self, bounds);
        let reporting = tokio::spawn(report(reporter, health, shutdown.clone()));
        let serve = move |connection: Connection, shutdown: Shutdown| {
            connection::serve(connection, router.clone(), bounds, shutdown)
        };
        listener.run(shutdown, serve).await;
        reporting.abort();
    }
}

/// Publishes readiness to the health service until shutdown, then reports `NOT_SERVING`.
async fn report(reporter: ReadinessReporter, health: Health, mut shutdown: Shutdown) {
    loop {
        reporter.publish(health.readiness().ready).await;
        tokio::select! {
            () = shutdown.begun() => break,
            () = sleep(READINESS_INTERVAL) => {}
        }
    }
    reporter.publish(false).await;
}

/// Default number of calls in flight. Each reserves 64 KiB and longer messages reserve several, so memory is bounded
/// to 512 MiB.
const CALLS_AT_ONCE: usize = 8_192;

/// Interval at which readiness is polled.
const READINESS_INTERVAL: Duration = Duration::from_millis(500);
