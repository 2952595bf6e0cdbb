//! In-process checks of known keys: ratekeeper, governor and throttlecrab in one run.
//!
//!     cargo run --release -p ratekeeper-bench --bin in_process [-- --rounds N --checks N]
//!
//! Each cell is the best of several rounds; the limiters take turns in every round, so that noise of the machine affects all of
//! them. Keys have 12 bytes. They are checked in an order unrelated to that of their insertion, but laid out in memory in the
//! order of the checks, so that the memory accesses measured are those of the limiter and not of the harness.
//!
//! Every limiter reads its default clock for every check; the column "coarse clock" is ratekeeper with `CoarseClock`, which a
//! thread updates every half millisecond. governor returns a verdict with the earliest time; "verdict" is the same of
//! ratekeeper, and "whole decision" adds remaining permits, reset time and the deciding rule, written to memory. Time is wall
//! time divided by the checks of all threads.

#![allow(clippy::print_stdout, reason = "the report is the output")]
#![allow(clippy::expect_used, reason = "a benchmark that cannot run should stop")]

use std::{
    hint::black_box,
    num::NonZeroU32,
    sync::{Barrier, Mutex},
    time::{Duration, Instant, SystemTime},
};

use ratekeeper::{Clock, CoarseClock, Limiter, MemoryStore, Quota, Rule, SystemClock, Verdict};

fn main() {
    let options = Options::from_args();
    println!("in-process check of a known key, nanoseconds per check (wall time ÷ checks of all threads)");
    println!("best of {} rounds of {} checks per thread\n", options.rounds, options.checks);
    println!(
        "| keys | threads | load | verdict | whole decision | coarse clock | governor | throttlecrab | verdict × governor | whole × governor | coarse × governor | verdict × throttlecrab |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for keys in [1, 1_000, 1_000_000].into_iter().filter(|&keys| options.keys.is_none_or(|only| only == keys)) {
        let keys = Keys::new(keys);
        for load in [Load::AllAllowed, Load::MostlyDenied] {
            let limiters: [Box<dyn MeasuredLimiter>; 5] = [
                Box::new(Ratekeeper::<_, VERDICT>::new(load, SystemClock::new())),
                Box::new(Ratekeeper::<_, WHOLE>::new(load, SystemClock::new())),
                Box::new(Ratekeeper::<_, VERDICT>::new(load, CoarseClock::start().expect("a thread"))),
                Box::new(Governor::new(load)),
                Box::new(Throttlecrab::new(load)),
            ];
            for limiter in &limiters {
                keys.stored.iter().for_each(|key| limiter.fill(key));
            }
            for threads in [1, 2] {
                let [verdict, whole, coarse, governor, throttlecrab] = measure(&limiters, &keys, threads, &options);
                println!(
                    "| {} | {threads} | {} | {verdict:.1} | {whole:.1} | {coarse:.1} | {governor:.1} | {throttlecrab:.1} | {:.2} | {:.2} | {:.2} | {:.2} |",
                    keys.stored.len(),
                    load.name(),
                    governor / verdict,
                    governor / whole,
                    governor / coarse,
                    throttlecrab / verdict,
                );
            }
        }
    }
    println!("\nbytes per key, one million keys of 12 bytes under one bucket rule (heap, harness excluded)\n");
    println!("| ratekeeper | governor | throttlecrab |");
    println!("|---|---|---|");
    let [ours, governor, throttlecrab] = bytes_per_key();
    println!("| {ours:.1} | {governor:.1} | {throttlecrab:.1} |");
}

const VERDICT: bool = false;
const WHOLE: bool = true;

struct Options {
    rounds: usize,
    checks: usize,
    /// Only this many keys, for profiling.
    keys: Option<usize>,
}

impl Options {
    fn from_args() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let number = |name: &str| {
            let value = args.iter().position(|arg| arg == name).and_then(|index| args.get(index + 1));
            value.map(|value| value.parse().expect("a number after the option"))
        };
        Self {
            rounds: number("--rounds").unwrap_or(7),
            checks: number("--checks").unwrap_or(1_000_000),
            keys: number("--keys"),
        }
    }
}

/// The same keys twice: in the order of insertion, and laid out in the order of the checks.
struct Keys {
    stored: Vec<String>,
    checked: Vec<String>,
}

impl Keys {
    fn new(count: usize) -> Self {
        let name = |id: usize| format!("user:{id:07}");
        let mut order: Vec<usize> = (0..count).collect();
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        for last in (1..count).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            order.swap(last, usize::try_from(random % (last as u64 + 1)).expect("an index"));
        }
        Self { stored: (0..count).map(name).collect(), checked: order.into_iter().map(name).collect() }
    }
}

#[derive(Clone, Copy)]
enum Load {
    AllAllowed,
    MostlyDenied,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Self::AllAllowed => "all allowed",
            Self::MostlyDenied => "mostly denied",
        }
    }

    /// Permits per hour and burst: a rate so low that no key returns to its initial state, and a burst so large that none is
    /// exhausted under `AllAllowed`.
    fn quota(self) -> (u32, u32) {
        match self {
            Self::AllAllowed => (3_600, 1_000_000_000),
            Self::MostlyDenied => (1, 1),
        }
    }

    /// Permits that each key has used before the measurement, so that it is still in use when it is measured.
    fn used_before(self) -> u32 {
        match self {
            Self::AllAllowed => 1_000,
            Self::MostlyDenied => 1,
        }
    }
}

trait MeasuredLimiter: Sync {
    fn fill(&self, key: &str);
    /// Checks keys one after the other.
    fn run(&self, keys: &[String], from: usize, checks: usize);
}

/// Cycles through the keys from an index, with little overhead.
fn cycle(keys: &[String], from: usize, checks: usize) -> impl Iterator<Item = &String> {
    let mut next = from;
    (0..checks).map(move |_| {
        let key = &keys[next];
        next = if next + 1 == keys.len() { 0 } else { next + 1 };
        key
    })
}

/// A limiter asked for the verdict, as governor is, or for the whole decision.
struct Ratekeeper<C: Clock, const WHOLE: bool> {
    limiter: Limiter<MemoryStore<C>>,
    used_before: u64,
}

impl<C: Clock, const WHOLE: bool> Ratekeeper<C, WHOLE> {
    fn new(load: Load, clock: C) -> Self {
        let (rate, burst) = load.quota();
        let rule = Rule::token_bucket("bucket", Quota::per_hour(rate.into()).burst(burst.into()));
        let limiter = Limiter::builder().rule(rule).clock(clock).build().expect("a valid rule");
        Self { limiter, used_before: load.used_before().into() }
    }
}

impl<C: Clock, const WHOLE: bool> MeasuredLimiter for Ratekeeper<C, WHOLE> {
    fn fill(&self, key: &str) {
        let filled = self.limiter.check_now((key, self.used_before));
        assert!(filled.is_ok_and(|decision| decision.is_allowed()));
    }

    fn run(&self, keys: &[String], from: usize, checks: usize) {
        for key in cycle(keys, from, checks) {
            if WHOLE {
                let _ = black_box(self.limiter.check_now(key));
            } else {
                let verdict = self.limiter.verdict_now(key);
                black_box(matches!(verdict, Ok(Verdict::Allow { .. })));
            }
        }
    }
}

struct Governor {
    limiter: governor::DefaultKeyedRateLimiter<String>,
    used_before: NonZeroU32,
}

impl Governor {
    fn new(load: Load) -> Self {
        let (rate, burst) = load.quota();
        let number = |number| NonZeroU32::new(number).expect("not zero");
        let quota = governor::Quota::per_hour(number(rate)).allow_burst(number(burst));
        Self { limiter: governor::RateLimiter::keyed(quota), used_before: number(load.used_before()) }
    }
}

impl MeasuredLimiter for Governor {
    fn fill(&self, key: &str) {
        assert!(self.limiter.check_key_n(&key.to_owned(), self.used_before).is_ok_and(|answer| answer.is_ok()));
    }

    fn run(&self, keys: &[String], from: usize, checks: usize) {
        for key in cycle(keys, from, checks) {
            black_box(self.limiter.check_key(key).is_ok());
        }
    }
}

/// Its limiter needs `&mut self`, so threads share it through a lock, as its server's actor does through a queue.
struct Throttlecrab {
    limiter: Mutex<throttlecrab::RateLimiter<throttlecrab::AdaptiveStore>>,
    quota: (i64, i64),
    used_before: i64,
}

impl Throttlecrab {
    fn new(load: Load) -> Self {
        let (rate, burst) = load.quota();
        let store = throttlecrab::AdaptiveStore::with_capacity(1_000_000);
        let limiter = Mutex::new(throttlecrab::RateLimiter::new(store));
        Self { limiter, quota: (burst.into(), rate.into()), used_before: load.used_before().into() }
    }

    fn check(&self, key: &str, cost: i64) -> bool {
        let mut limiter = self.limiter.lock().expect("no poison");
        let (burst, rate) = self.quota;
        limiter.rate_limit(key, burst, rate, 3_600, cost, SystemTime::now()).is_ok_and(|(allowed, _)| allowed)
    }
}

impl MeasuredLimiter for Throttlecrab {
    fn fill(&self, key: &str) {
        assert!(self.check(key, self.used_before));
    }

    fn run(&self, keys: &[String], from: usize, checks: usize) {
        for key in cycle(keys, from, checks) {
            black_box(self.check(key, 1));
        }
    }
}

fn measure(limiters: &[Box<dyn MeasuredLimiter>; 5], keys: &Keys, threads: usize, options: &Options) -> [f64; 5] {
    let mut best = [Duration::MAX; 5];
    for _ in 0..options.rounds {
        for (best, limiter) in best.iter_mut().zip(limiters) {
            *best = (*best).min(round(&**limiter, keys, threads, options.checks));
        }
    }
    best.map(|time| time.as_secs_f64() * 1e9 / (threads * options.checks) as f64)
}

/// From the start of the first thread to the end of the last one, measured by the threads: the waiting thread may be
/// woken late.
fn round(limiter: &dyn MeasuredLimiter, keys: &Keys, threads: usize, checks: usize) -> Duration {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, from) = (&start, keys.checked.len() * thread / threads);
                scope.spawn(move || {
                    start.wait();
                    let began = Instant::now();
                    limiter.run(&keys.checked, from, checks);
                    (began, Instant::now())
                })
            })
            .collect();
        let times: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("a worker that ends")).collect();
        let first = times.iter().map(|(began, _)| *began).min().expect("at least one thread");
        let last = times.iter().map(|(_, ended)| *ended).max().expect("at least one thread");
        last - first
    })
}

fn bytes_per_key() -> [f64; 3] {
    let keys = Keys::new(1_000_000).stored;
    let bytes = |make: &dyn Fn() -> Box<dyn MeasuredLimiter>| {
        let mut kept = None;
        let info = allocation_counter::measure(|| {
            let limiter = make();
            keys.iter().for_each(|key| limiter.fill(key));
            kept = Some(limiter);
        });
        drop(kept);
        info.bytes_current as f64 / keys.len() as f64
    };
    [
        bytes(&|| Box::new(Ratekeeper::<_, VERDICT>::new(Load::AllAllowed, SystemClock::new()))),
        bytes(&|| Box::new(Governor::new(Load::AllAllowed))),
        bytes(&|| Box::new(Throttlecrab::new(Load::AllAllowed))),
    ]
}
