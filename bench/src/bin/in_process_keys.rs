//! In-process checks of several keys: three keys of one rule each, compared with one key of three rules, in one run.
//!
//!     cargo run --release -p ratekeeper-bench --bin in_process_keys [-- --rounds N --checks N]
//!
//! Each figure is the best of several rounds; the cases take turns in every round. Keys are known and have 12 bytes.

#![allow(clippy::print_stdout, reason = "the report is the output")]
#![allow(clippy::expect_used, reason = "a benchmark that cannot run should stop")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use ratekeeper::{Limiter, Quota, Request, Rule};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: usize| {
        let index = args.iter().position(|arg| arg == name);
        index.and_then(|index| args.get(index + 1)?.parse().ok()).unwrap_or(default)
    };
    let (rounds, checks) = (number("--rounds", 15), number("--checks", 300_000));
    println!("nanoseconds per decision, best of {rounds} rounds of {checks}\n");
    println!("| keys in use | one key, three rules | three keys, one rule each | ratio |");
    println!("|---|---|---|---|");
    for count in [1, 1_000, 100_000] {
        let rule = |name: &str| Rule::token_bucket(name, Quota::per_hour(3_600).burst(1_000_000_000));
        let limiter = Limiter::builder()
            .policy("three", [rule("a"), rule("b"), rule("c")])
            .policy("x", [rule("r")])
            .policy("y", [rule("r")])
            .policy("z", [rule("r")])
            .build()
            .expect("valid rules");
        let keys: Vec<String> = (0..count).map(|id| format!("user:{id:07}")).collect();
        let three = limiter.with_policy("three").expect("a policy");
        let one = |key: &str| black_box(three.check_now((key, 1)).expect("a decision").is_allowed());
        let all = |key: &str| {
            let keys = ["x", "y", "z"].map(|policy| Request::new(key).policy(policy));
            black_box(limiter.check_all_now(keys).expect("a decision").is_allowed())
        };
        for key in &keys {
            assert!(three.check_now((key.as_str(), 1_000)).expect("a decision").is_allowed());
            let keys = ["x", "y", "z"].map(|policy| Request::new(key).policy(policy).cost(1_000));
            assert!(limiter.check_all_now(keys).expect("a decision").is_allowed());
        }
        let mut best = [Duration::MAX; 2];
        for _ in 0..rounds {
            let began = Instant::now();
            (0..checks).for_each(|check| _ = one(&keys[check % count]));
            best[0] = best[0].min(began.elapsed());
            let began = Instant::now();
            (0..checks).for_each(|check| _ = all(&keys[check % count]));
            best[1] = best[1].min(began.elapsed());
        }
        let [one, all] = best.map(|time| time.as_secs_f64() * 1e9 / checks as f64);
        println!("| {count} | {one:.0} | {all:.0} | {:.2} |", all / one);
    }
}
