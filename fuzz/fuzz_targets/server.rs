//! What is asked by the wires' targets: a few rules of both forms, in memory, by a clock that stands still.

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tollgate_core::Micros;
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_rules::{Format, read_str};
use tollgate_server::{engine::Engine, wiring::Storage};

const NATIVE: &str = "domain: api\npolicies: [{ name: p, match: { user: '*' }, rules: [{ name: b, algorithm: gcra, limit: 9, per: 1s }] }]";
const ENVOY: &str = "domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 5 } }, { key: plan, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 2 } }]";

pub fn start() -> (Runtime, Engine) {
    let clock = ManualClock::at(Micros(1_900_000_000_000_000));
    let engine = Engine::new(Storage::ByHand(MemoryStore::with_clock(clock)), Arc::default());
    let files = [NATIVE, ENVOY].map(|text| read_str("rules.yaml", text, Format::Yaml).unwrap());
    engine.load(Ok(files.into())).unwrap();
    (Builder::new_current_thread().enable_time().build().unwrap(), engine)
}
