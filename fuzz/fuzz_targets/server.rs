//! The engine of the wire targets: rules of both formats, in memory, on a manual clock.

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use ratekeeper_core::Timestamp;
use ratekeeper_memory::{ManualClock, MemoryStore};
use ratekeeper_rules::{Format, read_str};
use ratekeeper_server::{engine::Engine, wiring::AnyStore};

const NATIVE: &str = "domain: api\npolicies: [{ name: p, match: { user: '*' }, rules: [{ name: b, algorithm: gcra, limit: 9, per: 1s }] }]";
const ENVOY: &str = "domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 5 } }, { key: plan, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 2 } }]";

pub fn start() -> (Runtime, Engine) {
    let clock = ManualClock::at(Timestamp::from_micros(1_900_000_000_000_000));
    let engine = Engine::new(AnyStore::Manual(MemoryStore::with_clock(clock)), Arc::default());
    let files = [NATIVE, ENVOY].map(|text| read_str("rules.yaml", text, Format::Yaml).unwrap());
    engine.load(Ok(files.into())).unwrap();
    (Builder::new_current_thread().enable_time().build().unwrap(), engine)
}
