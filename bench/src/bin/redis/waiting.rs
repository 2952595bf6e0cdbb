//! `acquire` on Redis: lateness of the wake-up and store calls per grant.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ratekeeper::{Quota, Rule};

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
                let granted = limiter.acquire("key").await.expect("a grant");
                // Server and waiter read the same clock: they run on one machine.
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let due = granted.decision.proceed_at();
                now.saturating_sub(Duration::from_micros(due.as_micros()))
            })
        })
        .collect();
    let mut late = Vec::new();
    for task in tasks {
        late.push(task.await.expect("a grant"));
    }
    late.sort_unstable();
    let at = |share: usize| late[(late.len() * share / 100).min(late.len() - 1)];
    let (_, calls) = server.script_time();
    println!("acquire: {GRANTS} waiters at once, 200 a second\n");
    println!("| calls per grant | late, median | p99 |");
    println!("|---|---|---|");
    println!("| {:.2} | {:?} | {:?} |", calls as f64 / f64::from(GRANTS), at(50), at(99));
}
