//! Conformance suite of stores, on the embedded store.

use ratekeeper_memory::{ManualClock, MemoryConfig, MemoryStore};
use ratekeeper_testkit::{block_on, conformance, store_conformance};

mod each_check {
    use super::*;

    store_conformance!({
        let clock = ManualClock::default();
        let store = MemoryStore::with_clock(clock.clone());
        (store, move |now| clock.set(now))
    });
}

/// One shard with one lock and one table: the state that one check leaves must not affect another.
#[test]
fn all_checks_can_share_one_small_store() {
    let clock = ManualClock::default();
    let store = MemoryStore::with(MemoryConfig::default().shards(1), clock.clone());
    block_on(conformance::run(&store, |now| clock.set(now)));
    block_on(conformance::run_inline_limits(&store, |now| clock.set(now)));
}
