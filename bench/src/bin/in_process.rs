//! In-process checks of known keys: tollgate beside governor and throttlecrab, in one run.
//!
//!     cargo run --release -p tollgate-bench --bin in_process [-- --rounds N --checks N]
//!
//! Each cell is the best of several rounds; in every round the contestants take turns, so that a noisy neighbour hits
//! all of them. Keys are 12 bytes. They are asked for in an order unrelated to the one they were stored in, but laid
//! out in memory in the order they are asked for: what is measured is the limiter's memory, not the harness's. Every
//! contestant reads its own default clock for every check; the column "coarse clock" is tollgate with `CoarseClock`, which
//! a thread reads every half millisecond. governor says yes, or no and from when; "verdict" is the same question to tollgate,
//! and "whole decision" also brings what remains, when the key rests and which rule decided, written out to memory. Time is wall time divided by checks of all threads.

#![allow(clippy::print_stdout, reason = "the report is the point")]
#![allow(clippy::expect_used, reason = "a benchmark that cannot run should stop")]

use std::{
    hint::black_box,
    num::NonZeroU32,
    sync::{Barrier, Mutex},
    time::{Duration, Instant, SystemTime},
};

use tollgate_core::{Ask, Carry, Policy, Quota, Rule, Store, Take, Verb, Verdict};
use tollgate_memory::{Clock, CoarseClock, InstalledPolicy, MemoryConfig, MemoryStore, SystemClock};

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
            let contestants: [Box<dyn Contestant>; 5] = [
                Box::new(Tollgate::<_, VERDICT>::new(load, SystemClock::new())),
                Box::new(Tollgate::<_, WHOLE>::new(load, SystemClock::new())),
                Box::new(Tollgate::<_, VERDICT>::new(load, CoarseClock::start().expect("a thread"))),
                Box::new(Governor::new(load)),
                Box::new(Throttlecrab::new(load)),
            ];
            for contestant in &contestants {
                keys.stored.iter().for_each(|key| contestant.fill(key));
            }
            for threads in [1, 2] {
                let [verdict, whole, coarse, governor, throttlecrab] = measure(&contestants, &keys, threads, &options);
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
    println!("| tollgate | governor | throttlecrab |");
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

/// The same keys twice: in the order they are stored, and laid out in the order they are asked for.
struct Keys {
    stored: Vec<String>,
    asked: Vec<String>,
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
        Self { stored: (0..count).map(name).collect(), asked: order.into_iter().map(name).collect() }
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

    /// Permits per hour and burst: so low a rate that no key comes to rest, so large a burst that none is exhausted
    /// where none should be.
    fn quota(self) -> (u32, u32) {
        match self {
            Self::AllAllowed => (3_600, 1_000_000_000),
            Self::MostlyDenied => (1, 1),
        }
    }

    /// What each key has used before it is measured: enough that it is still in use when its turn comes.
    fn used_before(self) -> u32 {
        match self {
            Self::AllAllowed => 1_000,
            Self::MostlyDenied => 1,
        }
    }
}

trait Contestant: Sync {
    fn fill(&self, key: &str);
    /// Checks keys one after the other, as many as asked for.
    fn run(&self, keys: &[String], from: usize, checks: usize);
}

/// The keys from one of them on, round and round, with as little ado as possible.
fn round_trip(keys: &[String], from: usize, checks: usize) -> impl Iterator<Item = &String> {
    let mut next = from;
    (0..checks).map(move |_| {
        let key = &keys[next];
        next = if next + 1 == keys.len() { 0 } else { next + 1 };
        key
    })
}

/// Asked for the verdict, as governor is, or for all that a decision tells.
struct Tollgate<C, const WHOLE: bool> {
    store: MemoryStore<C>,
    policy: InstalledPolicy,
    used_before: u64,
}

impl<C: Clock, const WHOLE: bool> Tollgate<C, WHOLE> {
    fn new(load: Load, clock: C) -> Self {
        let (rate, burst) = load.quota();
        let rule = Rule::token_bucket("bucket", Quota::per_hour(rate.into()).burst(burst.into()));
        let store = MemoryStore::with(MemoryConfig::default(), clock);
        let policy = Policy::new("bench", [rule]).expect("a good policy");
        let policy = store.install(policy, Carry::Keep).expect("room for one policy");
        Self { store, policy, used_before: load.used_before().into() }
    }
}

impl<C: Clock, const WHOLE: bool> Contestant for Tollgate<C, WHOLE> {
    fn fill(&self, key: &str) {
        let take = Verb::Take(Take::now(self.used_before));
        let filled = self.store.decide_now(&[Ask::new(&self.policy, key)], &take);
        assert!(filled.is_ok_and(|decision| decision.is_allowed()));
    }

    fn run(&self, keys: &[String], from: usize, checks: usize) {
        for key in round_trip(keys, from, checks) {
            let ask = Ask::new(&self.policy, key.as_str());
            if WHOLE {
                let _ = black_box(self.store.decide_now(&[ask], &Verb::Take(Take::now(1))));
            } else {
                let verdict = self.store.verdict_now(&ask, &Take::now(1));
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

impl Contestant for Governor {
    fn fill(&self, key: &str) {
        assert!(self.limiter.check_key_n(&key.to_owned(), self.used_before).is_ok_and(|answer| answer.is_ok()));
    }

    fn run(&self, keys: &[String], from: usize, checks: usize) {
        for key in round_trip(keys, from, checks) {
            black_box(self.limiter.check_key(key).is_ok());
        }
    }
}

/// Its limiter wants `&mut self`, so threads share it through a lock, as its server's actor does through a queue.
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

impl Contestant for Throttlecrab {
    fn fill(&self, key: &str) {
        assert!(self.check(key, self.used_before));
    }

    fn run(&self, keys: &[String], from: usize, checks: usize) {
        for key in round_trip(keys, from, checks) {
            black_box(self.check(key, 1));
        }
    }
}

fn measure(contestants: &[Box<dyn Contestant>; 5], keys: &Keys, threads: usize, options: &Options) -> [f64; 5] {
    let mut best = [Duration::MAX; 5];
    for _ in 0..options.rounds {
        for (best, contestant) in best.iter_mut().zip(contestants) {
            *best = (*best).min(round(&**contestant, keys, threads, options.checks));
        }
    }
    best.map(|time| time.as_secs_f64() * 1e9 / (threads * options.checks) as f64)
}

/// From the moment the first thread begins to the moment the last one ends, by their own watches: whoever only waits for
/// them may be woken late.
fn round(contestant: &dyn Contestant, keys: &Keys, threads: usize, checks: usize) -> Duration {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, from) = (&start, keys.asked.len() * thread / threads);
                scope.spawn(move || {
                    start.wait();
                    let began = Instant::now();
                    contestant.run(&keys.asked, from, checks);
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
    let bytes = |make: &dyn Fn() -> Box<dyn Contestant>| {
        let mut kept = None;
        let info = allocation_counter::measure(|| {
            let contestant = make();
            keys.iter().for_each(|key| contestant.fill(key));
            kept = Some(contestant);
        });
        drop(kept);
        info.bytes_current as f64 / keys.len() as f64
    };
    [
        bytes(&|| Box::new(Tollgate::<_, VERDICT>::new(Load::AllAllowed, SystemClock::new()))),
        bytes(&|| Box::new(Governor::new(Load::AllAllowed))),
        bytes(&|| Box::new(Throttlecrab::new(Load::AllAllowed))),
    ]
}
