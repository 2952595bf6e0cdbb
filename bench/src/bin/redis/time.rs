//! Server time per decision, by algorithm, compared with a script that does only `TIME`, `GET` and `SET … PX`.

use std::time::Duration;

use ratekeeper::{Limiter, Quota, Rule};
use ratekeeper_redis::RedisStore;

use crate::{Options, server::Server};

const KEYS: usize = 1_000;
/// Calls in flight.
const IN_FLIGHT: usize = 50;

/// The minimum of a limiter: reads the time and the state, and writes a state of the same size.
pub(crate) const FLOOR: &str = "#!lua
redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)
return 1";
/// The same with the TTL as text, which saves a conversion.
const FLOOR_WITH_TEXT: &str = "#!lua
redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', '60000')
return 1";

struct Case {
    name: &'static str,
    limiter: Limiter<RedisStore>,
    best: f64,
}

/// A rule that admits all requests of the benchmark, or only the first.
fn rule(algorithm: &str, name: &str, admits: bool) -> Rule {
    let many = if admits { 1_000_000 } else { 1 };
    let quota = if admits { Quota::per_second(many) } else { Quota::per_hour(many) };
    match algorithm {
        "token bucket" => Rule::token_bucket(name, quota),
        "stepwise bucket" => Rule::token_bucket_stepwise(name, quota),
        "shaped bucket" => Rule::leaky_bucket_shaped(name, quota),
        "fixed window" => Rule::fixed_window(name, quota),
        "sliding log" => Rule::sliding_log(name, if admits { Quota::per_second(1_000_000) } else { quota }),
        "sliding counter" => Rule::sliding_counter(name, quota),
        _ => Rule::concurrency(
            name,
            if admits { 50 } else { 1 },
            Duration::from_millis(if admits { 20 } else { 60_000 }),
        ),
    }
}

const ALGORITHMS: [&str; 7] = [
    "token bucket",
    "stepwise bucket",
    "shaped bucket",
    "fixed window",
    "sliding log",
    "sliding counter",
    "concurrency",
];

pub(crate) async fn report(server: &Server, options: &Options) {
    println!("server time per decision, µs, best of {} rounds of {} calls\n", options.rounds, options.calls);
    let mut cases: Vec<Case> = Vec::new();
    for algorithm in ALGORITHMS {
        for rules in [1, 3] {
            for admits in [true, false] {
                let named = (0..rules).map(|index| rule(algorithm, &format!("rule {index}"), admits)).collect();
                // Names of the same length as in the minimal script, because the server hashes every byte.
                let limiter = server.limiter(&format!("case-{:02}", cases.len()), named).await;
                cases.push(Case { name: algorithm, limiter, best: f64::MAX });
            }
        }
    }
    let (mut floor, mut floor_with_text) = (f64::MAX, f64::MAX);
    for _ in 0..options.rounds {
        floor = floor.min(floor_time(server, FLOOR, options.calls).await);
        floor_with_text = floor_with_text.min(floor_time(server, FLOOR_WITH_TEXT, options.calls).await);
        for case in &mut cases {
            case.best = case.best.min(case_time(server, &case.limiter, options.calls).await);
        }
    }
    println!("TIME + GET + SET PX: {floor:.2}; with the TTL as text: {floor_with_text:.2}\n");
    println!("| algorithm | 1 rule, admitted | denied | 3 rules, admitted | denied |");
    println!("|---|---|---|---|---|");
    for case in cases.chunks(4) {
        let cell = |index: usize| format!("{:.2} ({:.2} ×)", case[index].best, case[index].best / floor);
        println!("| {} | {} | {} | {} | {} |", case[0].name, cell(0), cell(1), cell(2), cell(3));
    }
    println!();
}

async fn floor_time(server: &Server, script: &'static str, calls: usize) -> f64 {
    let script = redis::Script::new(script);
    let connection = server.connection().await;
    let value = [7_u8; 27];
    let hash = script.get_hash().to_owned();
    let _: String =
        redis::cmd("SCRIPT").arg("LOAD").arg(FLOOR).query_async(&mut connection.clone()).await.expect("a script");
    let _: String = redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(FLOOR_WITH_TEXT)
        .query_async(&mut connection.clone())
        .await
        .expect("a script");
    server.reset_statistics();
    in_flight(calls, move |call| {
        let (mut connection, hash) = (connection.clone(), hash.clone());
        async move {
            let key = format!("ratekeeper:1:/floor-0:{{user:{}}}", call % KEYS);
            let mut command = redis::cmd("EVALSHA");
            command.arg(hash).arg(1).arg(key).arg(&value);
            let _: i64 = command.query_async(&mut connection).await.expect("a reply");
        }
    })
    .await;
    server.script_time().0
}

async fn case_time(server: &Server, limiter: &Limiter<RedisStore>, calls: usize) -> f64 {
    // The script is loaded and every key exists before the measurement.
    let warm = limiter.clone();
    in_flight(KEYS, move |key| {
        let limiter = warm.clone();
        async move {
            let _ = limiter.check(&format!("user:{key}")).await.expect("a reply");
        }
    })
    .await;
    server.reset_statistics();
    let limiter = limiter.clone();
    in_flight(calls, move |call| {
        let limiter = limiter.clone();
        async move {
            let _ = limiter.check(&format!("user:{}", call % KEYS)).await.expect("a reply");
        }
    })
    .await;
    server.script_time().0
}

/// Makes this many calls, with `IN_FLIGHT` of them at a time.
pub(crate) async fn in_flight<F: Future<Output = ()> + Send + 'static>(
    calls: usize,
    make: impl Fn(usize) -> F + Clone + Send + 'static,
) {
    let tasks: Vec<_> = (0..IN_FLIGHT)
        .map(|first| {
            let make = make.clone();
            tokio::spawn(async move {
                for call in (first..calls).step_by(IN_FLIGHT) {
                    make(call).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a call");
    }
}
