//! Load from both sides at once: the limit holds in every window, and at every read value and grants add up to the
//! rate.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
    time::{Duration, Instant},
};

use ratekeeper_compat::redisson::{RateType, RedissonLimiter};
use ratekeeper_testkit::interop::Release;
use tokio::task::JoinSet;

use crate::{BOTH, Pair, books::permits_in, in_java, rate};

const RATE: i64 = 40;
const INTERVAL_MS: u64 = 1_000;
const LASTS_MS: u64 = 3_500;
/// Java stamps a grant when it asks, not when it is served. On a busy machine, windows by its stamps may be off by this
/// much. A broken limit shows in the rest of the window as well.
const STAMPED_EARLY_MS: i64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_holds_while_both_hammer_it() {
    let mut pair = Pair::of(Release::Current).await;
    for mode in BOTH {
        hammer(&mut pair, mode, 3).await;
    }
}

/// Before 3.35 Java miscounts grants of several permits, with or without the Rust client; grants of one are counted
/// right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_holds_while_an_older_release_and_ours_hammer_it() {
    let mut pair = Pair::of(Release::Older).await;
    for mode in BOTH {
        hammer(&mut pair, mode, 1).await;
    }
}

async fn hammer(pair: &mut Pair, mode: RateType, most: u64) {
    let name = in_java(mode);
    let limiter = pair.rust.rate_limiter(name);
    assert!(limiter.try_set_rate(&rate(mode, RATE.unsigned_abs(), INTERVAL_MS)).await.unwrap());
    // The first query stores the value, which the reader below expects.
    assert_eq!(limiter.available_permits().await.unwrap(), RATE.unsigned_abs());

    let (is_over, ours) = (AtomicBool::new(false), AtomicI64::new(0));
    pair.java.send(&format!("hammer {name} 3 {LASTS_MS} {most}"));
    let (pair_now, is_over, ours) = (&*pair, &is_over, &ours);
    let grants = std::thread::scope(|scope| {
        // Every grant is seen: it stays for at least an interval, and reads are far closer together.
        let seen = scope.spawn(move || {
            let mut seen = BTreeMap::new();
            loop {
                let is_last = is_over.load(Ordering::Acquire);
                let books = pair_now.books(name, mode);
                let (value, taken) = books.balance(RATE);
                assert!(value >= 0 && taken <= RATE, "{books:?}");
                seen.extend(books.grants);
                if is_last {
                    return seen;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(ask_until_over(&limiter, most, ours));
        });
        // Grants of the last moment are still stored at the last read.
        is_over.store(true, Ordering::Release);
        seen.join().unwrap()
    });
    let theirs: i64 = pair.java.answer().unwrap().parse().unwrap();
    let ours = ours.load(Ordering::Relaxed);
    assert!(ours > 0 && theirs > 0, "{ours} granted to Rust, {theirs} to Java");

    let mut by_score: Vec<(i64, i64)> = grants.iter().map(|(grant, score)| (*score, permits_in(grant))).collect();
    by_score.sort_unstable();
    let window = i64::try_from(INTERVAL_MS).unwrap() - STAMPED_EARLY_MS;
    for (at, (start, _)) in by_score.iter().enumerate() {
        let within = by_score[at..].iter().take_while(|(score, _)| *score < start + window);
        let permits: i64 = within.map(|(_, permits)| permits).sum();
        assert!(permits <= RATE, "{permits} permits within {window} ms, {mode:?}");
    }
    let all: i64 = by_score.iter().map(|(_, permits)| permits).sum();
    assert!(all >= ours, "{all} were seen, {ours} of them ours");
    assert!(ours + theirs >= 2 * RATE, "{ours} and {theirs}: some windows have no grants");
}

async fn ask_until_over(limiter: &RedissonLimiter, most: u64, granted: &AtomicI64) {
    let end = Instant::now() + Duration::from_millis(LASTS_MS);
    let mut askers = JoinSet::new();
    for asker in 0..3_u64 {
        let limiter = limiter.clone();
        askers.spawn(async move {
            let (mut sum, mut turn) = (0, asker);
            while Instant::now() < end {
                let permits = 1 + turn % most;
                let outcome = match turn % 8 {
                    7 => limiter.try_acquire_timeout(permits, Duration::from_millis(100)).await,
                    _ => limiter.try_acquire_n(permits).await,
                };
                if outcome.unwrap().is_granted() {
                    sum += i64::try_from(permits).unwrap();
                }
                turn += 1;
                // Java is slower to ask; this pause leaves it a part of the permits.
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            sum
        });
    }
    granted.store(askers.join_all().await.into_iter().sum(), Ordering::Relaxed);
}
