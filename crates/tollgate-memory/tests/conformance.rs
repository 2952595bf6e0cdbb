//! What any store must answer, asked of the embedded one.

use tollgate_memory::{ManualClock, MemoryConfig, MemoryStore};
use tollgate_testkit::{block_on, conformance, store_conformance};

mod each_check {
    use super::*;

    store_conformance!({
        let clock = ManualClock::default();
        let store = MemoryStore::with_clock(clock.clone());
        (store, move |now| clock.set(now))
    });
}

/// One shard, one lock, one table: what the checks leave behind must not get into each other's way.
#[test]
fn all_checks_can_share_one_small_store() {
    let clock = ManualClock::default();
    let store = MemoryStore::with(MemoryConfig::default().shards(1), clock.clone());
    block_on(conformance::run(&store, |now| clock.set(now)));
}
