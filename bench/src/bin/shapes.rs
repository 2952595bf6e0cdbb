//! In-process checks by shape of policy and by state of the keys, next to governor where it has the shape.
//!
//!     cargo run --release -p ratekeeper-bench --bin shapes [-- --rounds N --checks N]
//!
//! Nanoseconds per check in one thread, median of the rounds with the fastest and the slowest; 1 000 keys of 12 bytes, whole
//! decisions, default clocks. The shapes take turns in every round. "At rest": every key has refilled completely between two
//! checks. "await": `check(..).await`, polled by a current-thread runtime.

#![allow(clippy::print_stdout, reason = "the report is the output")]
#![allow(clippy::expect_used, reason = "a benchmark that cannot run should stop")]

use std::{
    hint::black_box,
    num::NonZeroU32,
    time::{Duration, Instant},
};

use ratekeeper::{Limiter, Quota, Rule};

/// A shape: checks this many keys, one after the other.
type Run = Box<dyn Fn(&[String], usize)>;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: usize| {
        let index = args.iter().position(|arg| arg == name);
        index.and_then(|index| args.get(index + 1)?.parse().ok()).unwrap_or(default)
    };
    let (rounds, checks) = (number("--rounds", 7).max(1), number("--checks", 300_000));
    let keys: Vec<String> = (0..1_000).map(|id| format!("user:{:07}", id * 7_919 % 1_000)).collect();
    let shapes = shapes();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); shapes.len()];
    for _ in 0..=rounds {
        for ((_, run), times) in shapes.iter().zip(&mut times) {
            let began = Instant::now();
            run(&keys, checks);
            #[allow(clippy::cast_precision_loss, reason = "a report")]
            times.push(began.elapsed().as_nanos() as f64 / checks as f64);
        }
    }
    println!("| shape | ns per check | fastest to slowest |\n|---|---|---|");
    for ((name, _), times) in shapes.iter().zip(&mut times) {
        times.remove(0); // the first round stores the keys
        times.sort_by(f64::total_cmp);
        println!("| {name} | {:.1} | {:.1} to {:.1} |", times[times.len() / 2], times[0], times[times.len() - 1]);
    }
}

/// A rate so low that no key refills during the measurement, and room for all checks.
fn busy() -> Quota {
    Quota::per_hour(3_600).burst(1_000_000_000)
}

fn shapes() -> Vec<(String, Run)> {
    let mut shapes: Vec<(String, Run)> = Vec::new();
    let rest = Quota::per_second(1_000_000).burst(10);
    shapes.push(("one bucket".into(), check(vec![Rule::token_bucket("bucket", busy())])));
    shapes.push(("one bucket, at rest".into(), check(vec![Rule::token_bucket("bucket", rest)])));
    shapes.push(("one bucket, await".into(), awaited(vec![Rule::token_bucket("bucket", busy())])));
    shapes.push(("governor".into(), governor(3_600, 1_000_000_000, Duration::from_secs(3_600))));
    shapes.push(("governor, at rest".into(), governor(1_000_000, 10, Duration::from_secs(1))));
    for number in [2, 3, 8, 16] {
        let rules = (0..number).map(|index| Rule::token_bucket(format!("bucket {index}"), busy()));
        shapes.push((format!("{number} buckets"), check(rules.collect())));
    }
    let rules = (0..3).map(|index| Rule::token_bucket(format!("bucket {index}"), rest));
    shapes.push(("3 buckets, at rest".into(), check(rules.collect())));
    shapes.push(("fixed window".into(), check(vec![Rule::fixed_window("window", Quota::per_day(1_000_000_000))])));
    for slices in [10, 100, 1_000] {
        let rule = Rule::sliding_counter_with("counter", Quota::per_second(1_000_000_000), slices);
        shapes.push((format!("sliding counter, {slices} slices"), check(vec![rule])));
    }
    shapes.push(("sliding log".into(), check(vec![Rule::sliding_log("log", Quota::per_second(100))])));
    shapes.push(("concurrency, check and release".into(), held()));
    shapes
}

fn check(rules: Vec<Rule>) -> Run {
    let limiter = Limiter::builder().rules(rules).build().expect("sound rules");
    Box::new(move |keys, checks| {
        for key in keys.iter().cycle().take(checks) {
            let _ = black_box(limiter.check_now(key));
        }
    })
}

fn awaited(rules: Vec<Rule>) -> Run {
    let limiter = Limiter::builder().rules(rules).build().expect("sound rules");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    Box::new(move |keys, checks| {
        runtime.block_on(async {
            for key in keys.iter().cycle().take(checks) {
                let _ = black_box(limiter.check(key).await);
            }
        });
    })
}

fn held() -> Run {
    let rule = Rule::concurrency("holders", 10, Duration::from_secs(60));
    let limiter = Limiter::builder().rule(rule).build().expect("a sound rule");
    Box::new(move |keys, checks| {
        for key in keys.iter().cycle().take(checks) {
            let decision = limiter.check_now(key).expect("a decision");
            let lease = decision.lease.expect("a lease");
            let released = futures_util::FutureExt::now_or_never(limiter.release(key, lease));
            let _ = black_box(released);
        }
    })
}

fn governor(permits: u32, burst: u32, per: Duration) -> Run {
    let number = |number| NonZeroU32::new(number).expect("not zero");
    let quota = governor::Quota::with_period(per / permits).expect("a period").allow_burst(number(burst));
    let limiter = governor::DefaultKeyedRateLimiter::<String>::keyed(quota);
    Box::new(move |keys, checks| {
        for key in keys.iter().cycle().take(checks) {
            black_box(limiter.check_key(key).is_ok());
        }
    })
}
