//! gRPC: Envoy's rate limit service, with health and reflection beside it.
//!
//! ```text
//! HTTP/2 ─connection─▶ doors ─▶ service ─decode─▶ Question ─engine─▶ Answer ─encode─▶ RateLimitResponse
//! ```
//!
//! - [`wire`] has the messages, made from `proto/`.
//! - `codec` takes messages apart, unless there is too much in them;
//! - `decode` and `encode` translate; nothing is decided there.
//! - `service` asks: what is taken in one step, all or none; what is given back after it.
//! - `doors` sends each call to its service, within bounds; `room` is what all calls together may take, and `connection`
//!   keeps connections within theirs.

mod codec;
mod connection;
mod decode;
mod doors;
mod encode;
mod metadata;
mod room;
mod service;
pub mod wire;

use std::{sync::Arc, time::Duration};

use prost::Message;
use tokio::time::sleep;
use tollgate_tower::headers::HeaderStyle;

use self::{
    doors::{Doors, Reporter},
    service::Limits,
    wire::{RateLimitRequest, RateLimitResponse},
};
use crate::{
    engine::Engine,
    fields::Fields,
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
    fields: Arc<Fields>,
    health: Health,
    calls: usize,
}

impl Grpc {
    /// A wire to this engine.
    pub fn new(engine: Engine, access: Access, headers: HeaderStyle, health: Health) -> Self {
        Self { engine, access, fields: Arc::new(Fields::new(headers)), health, calls: CALLS_AT_ONCE }
    }

    /// How many calls may be under way at once, on all connections; further ones are told to come back. A call with a
    /// message above 64 KiB counts as several.
    #[must_use]
    pub fn calls_at_once(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }

    /// The answer to one message, by whoever may ask anything: for tests and fuzzing, which need no network.
    pub async fn answer(&self, message: &[u8]) -> Result<RateLimitResponse, tonic::Status> {
        let request = RateLimitRequest::decode(message)
            .map_err(|error| tonic::Status::internal(format!("the message cannot be read: {error}")))?;
        Limits { engine: self.engine.clone(), fields: Arc::clone(&self.fields) }.answer(&request).await
    }

    /// Serves everybody who comes to the listener, until the word to stop.
    pub async fn serve(self, listener: Listener, shutdown: Shutdown) {
        let bounds = listener.bounds();
        let health = self.health.clone();
        let (doors, reporter) = Doors::new(self, bounds);
        let reporting = tokio::spawn(report(reporter, health, shutdown.clone()));
        let serve = move |connection: Connection, shutdown: Shutdown| {
            connection::serve(connection, doors.clone(), bounds, shutdown)
        };
        listener.run(shutdown, serve).await;
        reporting.abort();
    }
}

/// Keeps whoever watches our health up to date.
async fn report(reporter: Reporter, health: Health, mut shutdown: Shutdown) {
    loop {
        reporter.tell(health.readiness().ready).await;
        tokio::select! {
            () = shutdown.begun() => break,
            () = sleep(BETWEEN_LOOKS) => {}
        }
    }
    reporter.tell(false).await;
}

/// Each has room for 64 KiB, and what is longer takes the room of others: so this bounds memory, to half a gigabyte.
const CALLS_AT_ONCE: usize = 8_192;

/// How often health is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
