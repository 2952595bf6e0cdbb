//! Bytes per key in Redis (`MEMORY USAGE`), its name included.

use std::time::Duration;

use ratekeeper::{Quota, Rule};

use crate::server::Server;

pub(crate) async fn report(server: &Server) {
    println!("bytes per key (MEMORY USAGE; the names are `ratekeeper:1:/bytes N:{{user:42}}`)\n");
    println!("| rules | bytes |");
    println!("|---|---|");
    let bucket = |name: &str| Rule::token_bucket(name, Quota::per_minute(100));
    let cases: [(&str, Vec<Rule>); 6] = [
        ("one token bucket", vec![bucket("a")]),
        ("three token buckets", vec![bucket("a"), bucket("b"), bucket("c")]),
        ("one fixed window", vec![Rule::fixed_window("a", Quota::per_minute(100))]),
        ("sliding counter, 1 slice in use", vec![Rule::sliding_counter("a", Quota::per_minute(100))]),
        ("sliding log, 1 entry", vec![Rule::sliding_log("a", Quota::per_minute(100))]),
        ("concurrency, 1 lease", vec![Rule::concurrency("a", 10, Duration::from_secs(60))]),
    ];
    for (number, (name, rules)) in cases.into_iter().enumerate() {
        let limiter = server.limiter(&format!("bytes {number}"), rules).await;
        let _ = limiter.check("user:42").await.expect("an answer");
        println!("| {name} | {} |", server.memory_of(&format!("ratekeeper:1:/bytes%20{number}:{{user:42}}")));
    }
    println!();
}
