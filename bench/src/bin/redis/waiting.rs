//! How late a waiter wakes, and how many calls a grant costs.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate::{Quota, Rule};

use crate::server::Server;

const GRANTS: u32 = 500;

pub(crate) async fn report(server: &Server) {
    let limiter = server.limiter("waiting", vec![Rule::token_bucket("a", Quota::per_second(200).burst(1))]).await;
    let _ = limiter.check("warm").await.expect("an answer");
    server.reset_statistics();
    let tasks: Vec<_> = (0..GRANTS)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let granted = limiter.acquire("key", 1).await.expect("a turn");
                // Server and waiter read the same clock: they run on one machine.
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let told = granted.decision.decided_at + granted.decision.wait();
                now.saturating_sub(told.into())
            })
        })
        .collect();
    let mut late = Vec::new();
    for task in tasks {
        late.push(task.await.expect("a turn"));
    }
    late.sort_unstable();
    let at = |share: usize| late[(late.len() * share / 100).min(late.len() - 1)];
    let (_, calls) = server.script_time();
    println!("acquire: {GRANTS} waiters at once, 200 a second\n");
    println!("| calls per grant | late, median | p99 |");
    println!("|---|---|---|");
    println!("| {:.2} | {:?} | {:?} |", calls as f64 / f64::from(GRANTS), at(50), at(99));
}
