//! Single steps of either side: the other side sees each at once, and after it value and grants add up to the rate.

use ratekeeper_compat::redisson::{AcquireOutcome, RedissonError, Taken};
use ratekeeper_testkit::interop::Release;

use crate::{BOTH, Pair, free, in_java, rate, takes};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_sees_the_grants_of_the_other_at_once() {
    for release in [Release::Current, Release::Older] {
        let mut pair = Pair::of(release).await;
        for mode in BOTH {
            let name = in_java(mode);
            let limiter = pair.rust.rate_limiter(name);
            assert!(limiter.try_set_rate(&rate(mode, 20, 600_000)).await.unwrap());
            let (mut taken, mut turn) = (0, 0);
            for permits in [1, 4, 2, 1, 5, 3, 1] {
                // Both sides take turns, and each reads what is left.
                if turn % 2 == 0 {
                    assert_eq!(pair.java.tell(&format!("try {name} {permits}")), "true");
                } else {
                    assert!(takes(&limiter, permits).await);
                }
                (taken, turn) = (taken + i64::try_from(permits).unwrap(), turn + 1);
                assert_eq!(pair.books(name, mode).balance(20), (20 - taken, taken), "{release:?} {mode:?}");
                assert_eq!(pair.java.tell(&format!("available {name}")), (20 - taken).to_string());
                assert_eq!(free(&limiter).await, u64::try_from(20 - taken).unwrap());
                assert_eq!(pair.books(name, mode).balance(20), (20 - taken, taken));
            }
            assert_eq!(pair.java.tell(&format!("try {name} 4")), "false");
            assert!(!takes(&limiter, 4).await);
            assert_eq!(pair.java.tell(&format!("try {name} 2")), "true");
            assert!(takes(&limiter, 1).await);
            assert_eq!(pair.java.tell(&format!("try {name} 1")), "false");
            assert_eq!(pair.books(name, mode).balance(20), (0, 20));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_set_by_one_is_read_by_the_other() {
    for release in [Release::Current, Release::Older] {
        let mut pair = Pair::of(release).await;
        for mode in BOTH {
            let (ours, theirs) = (format!("rust-{mode:?}"), format!("java-{mode:?}"));
            let java_mode = in_java(mode);
            let limiter = pair.rust.rate_limiter(&ours);
            assert!(limiter.try_set_rate(&rate(mode, 7, 1_500)).await.unwrap());
            assert_eq!(pair.java.tell(&format!("config {ours}")), format!("{java_mode} 7 1500"));
            assert_eq!(pair.java.tell(&format!("tryset {ours} {java_mode} 9 1000 0")), "false", "it is set already");
            limiter.set_rate(&rate(mode, 8, 2_500), Taken::Forgotten).await.unwrap();
            assert_eq!(pair.java.tell(&format!("config {ours}")), format!("{java_mode} 8 2500"));

            let limiter = pair.rust.rate_limiter(&theirs);
            assert_eq!(pair.java.tell(&format!("tryset {theirs} {java_mode} 11 3000 0")), "true");
            assert_eq!(limiter.config().await.unwrap(), Some(rate(mode, 11, 3_000)));
            assert!(!limiter.try_set_rate(&rate(mode, 5, 1_000)).await.unwrap());
            let _ = pair.java.tell(&format!("set {theirs} {java_mode} 12 4000"));
            assert_eq!(limiter.config().await.unwrap(), Some(rate(mode, 12, 4_000)));
        }
        assert_eq!(pair.java.tell("config absent"), "OVERALL 0 0");
        assert_eq!(pair.rust.rate_limiter("absent").config().await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_changed_by_one_keeps_what_both_have_taken() {
    let mut pair = Pair::of(Release::Current).await;
    assert!(pair.java_can("updateRate"));
    for mode in BOTH {
        let name = in_java(mode);
        let limiter = pair.rust.rate_limiter(name);
        assert!(limiter.try_set_rate(&rate(mode, 10, 600_000)).await.unwrap());
        assert!(takes(&limiter, 3).await);
        assert_eq!(pair.java.tell(&format!("try {name} 2")), "true");
        assert!(limiter.update_rate(&rate(mode, 20, 600_000), Taken::Kept).await.unwrap());
        assert_eq!(pair.java.tell(&format!("available {name}")), "15");
        assert_eq!(pair.java.tell(&format!("update {name} {name} 12 600000 true")), "true");
        assert_eq!(free(&limiter).await, 7);
        assert_eq!(pair.books(name, mode).balance(12), (7, 5));
        // Below what is taken: no request passes, on either side.
        assert!(limiter.update_rate(&rate(mode, 4, 600_000), Taken::Kept).await.unwrap());
        assert_eq!(pair.java.tell(&format!("try {name} 1")), "false");
        assert!(!takes(&limiter, 1).await);
        assert_eq!(pair.books(name, mode).balance(4), (0, 4));
        assert_eq!(pair.java.tell(&format!("update {name} {name} 4 600000 false")), "true");
        assert_eq!(free(&limiter).await, 4);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_by_either_is_seen_by_both() {
    let mut pair = Pair::of(Release::Current).await;
    assert!(pair.java_can("release"));
    for mode in BOTH {
        let name = in_java(mode);
        let limiter = pair.rust.rate_limiter(name);
        assert!(limiter.try_set_rate(&rate(mode, 10, 600_000)).await.unwrap());
        assert!(takes(&limiter, 6).await);
        assert_eq!(pair.java.tell(&format!("try {name} 4")), "true");

        limiter.release(3).await.unwrap();
        assert_eq!(pair.books(name, mode).balance(10), (3, 7));
        assert_eq!(pair.java.tell(&format!("available {name}")), "3");
        assert_eq!(pair.java.tell(&format!("try {name} 3")), "true");

        let _ = pair.java.tell(&format!("release {name} 5"));
        assert_eq!(pair.java.tell(&format!("available {name}")), "5");
        assert_eq!(free(&limiter).await, 5);
        assert_eq!(pair.books(name, mode).balance(10), (5, 5));
        assert!(takes(&limiter, 5).await);
        assert!(!takes(&limiter, 1).await);
        assert_eq!(pair.java.tell(&format!("try {name} 1")), "false");

        // Taken before either side reads: no more than the released permits pass.
        let _ = pair.java.tell(&format!("release {name} 2"));
        assert!(takes(&limiter, 2).await);
        assert!(!takes(&limiter, 1).await);
        assert_eq!(pair.books(name, mode).balance(10), (0, 10));
    }
    let mut older = Pair::of(Release::Older).await;
    assert!(!older.java_can("release"), "the older release has no such method");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_their_own_have_permits_of_their_own() {
    let mut pair = Pair::of(Release::Current).await;
    let mine = ratekeeper_compat::redisson::RedissonClient::connect(&pair.server.url()).await.unwrap();
    let limiter = mine.rate_limiter("api");
    assert_eq!(pair.java.tell("tryset api PER_CLIENT 3 600000 0"), "true");
    for _ in 0..3 {
        assert!(takes(&limiter, 1).await);
        assert_eq!(pair.java.tell("try api 1"), "true");
    }
    assert!(!takes(&limiter, 1).await);
    assert_eq!(pair.java.tell("try api 1"), "false");
}

/// Requests for which Java throws are errors here as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_refuse_the_same() {
    for release in [Release::Current, Release::Older] {
        let mut pair = Pair::of(release).await;
        let limiter = pair.rust.rate_limiter("api");
        assert!(pair.java.ask("try api 1").unwrap_err().contains("not initialized"));
        assert!(matches!(limiter.try_acquire().await, Err(RedissonError::NotInitialized { .. })));
        assert!(limiter.try_set_rate(&rate(crate::BOTH[0], 5, 600_000)).await.unwrap());
        assert!(pair.java.ask("try api 6").unwrap_err().contains("exceed defined rate"));
        assert!(matches!(limiter.try_acquire_n(6).await, Err(RedissonError::AboveRate { permits: 6, rate: 5 })));
        assert_eq!(pair.java.tell("available api"), "5");
    }
}

/// Java waits for permits that Rust holds, and is granted them; and vice versa.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_waits_for_what_the_other_holds() {
    for release in [Release::Current, Release::Older] {
        let mut pair = Pair::of(release).await;
        let limiter = pair.rust.rate_limiter("api");
        assert!(limiter.try_set_rate(&rate(crate::BOTH[0], 2, 400)).await.unwrap());
        assert!(takes(&limiter, 2).await);
        assert_eq!(pair.java.tell("timed api 2 20000"), "true");
        limiter.acquire(2).await.unwrap();
        let _ = pair.java.tell("acquire api 1");
        let AcquireOutcome::Granted { .. } =
            limiter.try_acquire_timeout(2, std::time::Duration::from_secs(20)).await.unwrap()
        else {
            panic!("the interval is far shorter than that")
        };
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limiter_deleted_by_one_is_gone_for_the_other() {
    let mut pair = Pair::of(Release::Current).await;
    for mode in BOTH {
        let name = in_java(mode);
        let limiter = pair.rust.rate_limiter(name);
        for turn in 0..2 {
            assert!(limiter.try_set_rate(&rate(mode, 5, 600_000)).await.unwrap());
            assert!(takes(&limiter, 2).await);
            assert_eq!(pair.java.tell(&format!("try {name} 2")), "true");
            if turn == 0 {
                assert_eq!(pair.java.tell(&format!("delete {name}")), "true");
                assert!(!limiter.exists().await.unwrap());
            } else {
                assert!(limiter.delete().await.unwrap());
                assert_eq!(pair.java.tell(&format!("exists {name}")), "false");
            }
            assert_eq!(pair.ask(&["DBSIZE"]).integer(), 0);
        }
    }
}

/// Redisson returns the value as stored, and its test requires that it is not negative.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_sees_no_negative_permits_after_a_lower_rate() {
    for release in [Release::Current, Release::Older] {
        let mut pair = Pair::of(release).await;
        for mode in BOTH {
            let name = in_java(mode);
            let limiter = pair.rust.rate_limiter(name);
            assert!(limiter.try_set_rate(&rate(mode, 10, 600_000)).await.unwrap());
            assert!(takes(&limiter, 4).await && takes(&limiter, 4).await);
            assert!(limiter.update_rate(&rate(mode, 5, 600_000), Taken::Kept).await.unwrap());
            assert_eq!(pair.java.tell(&format!("available {name}")), "0");
            assert_eq!(pair.java.tell(&format!("try {name} 1")), "false");
            assert_eq!(pair.books(name, mode).balance(5), (0, 5));
        }
    }
}

/// Grants written by Redisson 3.16 count and lapse like others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_of_redisson_3_16_are_read() {
    let mut pair = Pair::of(Release::Oldest).await;
    for mode in BOTH {
        let long = format!("long-{}", in_java(mode));
        assert_eq!(pair.java.tell(&format!("tryset {long} {} 5 600000 0", in_java(mode))), "true");
        assert_eq!(pair.java.tell(&format!("try {long} 2")), "true");
        assert_eq!(pair.books(&long, mode).grants.keys().map(Vec::len).collect::<Vec<_>>(), [20]);
        let limiter = pair.rust.rate_limiter(&long);
        assert_eq!(limiter.available_permits().await.unwrap(), 3);
        assert!(!takes(&limiter, 4).await);
        assert!(takes(&limiter, 3).await);
        assert_eq!(pair.java.tell(&format!("try {long} 1")), "false");

        let short = format!("short-{}", in_java(mode));
        assert_eq!(pair.java.tell(&format!("tryset {short} {} 5 300 0", in_java(mode))), "true");
        assert_eq!(pair.java.tell(&format!("try {short} 2")), "true");
        let limiter = pair.rust.rate_limiter(&short);
        // Regression: waits until the grant has lapsed, which was an error before.
        limiter.acquire(5).await.unwrap();
        assert_eq!(pair.books(&short, mode).balance(5), (0, 5));
    }
}
