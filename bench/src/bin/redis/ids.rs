//! Server time of a request with an id, compared with the same request without one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ratekeeper::{Limiter, Quota, Request, Rule};
use ratekeeper_redis::RedisStore;

use crate::{Options, server::Server, time::in_flight};

const KEYS: usize = 1_000;

#[derive(Clone, Copy)]
enum Ids {
    None,
    New,
    Repeated,
}

pub(crate) async fn report(server: &Server, options: &Options) {
    let quota = || Quota::per_second(1_000_000);
    let policies: [(&str, Vec<Rule>); 3] = [
        ("token bucket", vec![Rule::token_bucket("rule 0", quota())]),
        ("three token buckets", (0..3).map(|index| Rule::token_bucket(format!("rule {index}"), quota())).collect()),
        ("sliding log", vec![Rule::sliding_log("rule 0", quota())]),
    ];
    println!("server time of a request with an id, µs, best of {} rounds of {} calls\n", options.rounds, options.calls);
    println!("| policy | without | with a new id | with a repeated id |");
    println!("|---|---|---|---|");
    for (index, (name, rules)) in policies.into_iter().enumerate() {
        let limiter = server.limiter(&format!("ids-{index:03}"), rules).await;
        let mut best = [f64::MAX; 3];
        for _ in 0..options.rounds {
            for (best, ids) in best.iter_mut().zip([Ids::None, Ids::New, Ids::Repeated]) {
                *best = best.min(time(server, &limiter, ids, options.calls).await);
            }
        }
        let ratio = |index: usize| format!("{:.2} ({:.2} ×)", best[index], best[index] / best[0]);
        println!("| {name} | {:.2} | {} | {} |", best[0], ratio(1), ratio(2));
    }
    println!();
}

async fn time(server: &Server, limiter: &Limiter<RedisStore>, ids: Ids, calls: usize) -> f64 {
    // The script is loaded and every key exists before the measurement.
    ask(limiter, ids, KEYS).await;
    server.reset_statistics();
    ask(limiter, ids, calls).await;
    server.script_time().0
}

async fn ask(limiter: &Limiter<RedisStore>, ids: Ids, calls: usize) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let limiter = limiter.clone();
    in_flight(calls, move |call| {
        let limiter = limiter.clone();
        async move {
            let key = format!("user:{}", call % KEYS);
            let id = match ids {
                Ids::None => None,
                Ids::New => Some(format!("{:036}", NEXT.fetch_add(1, Relaxed))),
                Ids::Repeated => Some("b2e9a7a4-0c67-4f0e-9d53-5a4c1d6f0a11".to_owned()),
            };
            let request = Request::new(&key);
            let request = id.as_deref().map_or(request, |id| request.id(id));
            let _ = limiter.check(request).await.expect("a reply");
        }
    })
    .await;
}
