//! The RESP path from bytes to bytes: whatever comes in, no panic, and only answers that a client can take apart.
#![no_main]

use std::{cell::RefCell, sync::Arc};

use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};
use tollgate_core::Micros;
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_rules::{Format, read_str};
use tollgate_server::{engine::Engine, resp::Resp, security::Access, wiring::Storage};

const RULES: &str = "domain: api\npolicies: [{ name: p, match: { user: '*' }, rules: [{ name: b, algorithm: gcra, limit: 9, per: 1s }] }]";

thread_local! {
    static SERVER: RefCell<(Runtime, Resp)> = RefCell::new(server());
}

fn server() -> (Runtime, Resp) {
    let clock = ManualClock::at(Micros(1_900_000_000_000_000));
    let engine = Engine::new(Storage::ByHand(MemoryStore::with_clock(clock)), Arc::default());
    engine.load(read_str("rules.yaml", RULES, Format::Yaml).map(|file| vec![file])).unwrap();
    (Builder::new_current_thread().enable_time().build().unwrap(), Resp::new(engine, Access::open()))
}

fuzz_target!(|input: &[u8]| {
    // Cut into packets of all sizes, and the same way when it is run again.
    let at_once = input.len() % 61 + 1;
    SERVER.with_borrow(|(runtime, resp)| {
        let (heard, _) = runtime.block_on(resp.converse(input, at_once));
        assert!(heard.is_empty() || heard.ends_with(b"\r\n"));
    });
});
