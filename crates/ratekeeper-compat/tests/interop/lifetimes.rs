//! Times to live set by either side: the other side reads, keeps and prolongs them.

use std::time::Duration;

use ratekeeper_compat::redisson::{Lifetime, RateType};
use ratekeeper_testkit::interop::Release;

use crate::{BOTH, Pair, in_java, rate, takes};

const MINUTE: Duration = Duration::from_secs(60);

impl Pair {
    /// Remaining times to live of the config, the value and the grants, in milliseconds.
    fn lives(&self, name: &str, mode: RateType) -> [i64; 3] {
        let [value, permits] = self.state_keys(name, mode);
        [name, &value, &permits].map(|key| self.ask(&["PTTL", key]).integer())
    }

    /// All three keys live for about a minute; the tolerance is for a busy machine.
    #[track_caller]
    fn live_a_minute(&self, name: &str, mode: RateType) {
        let lives = self.lives(name, mode);
        assert!(lives.iter().all(|left| (40_000..=60_000).contains(left)), "{lives:?}");
    }

    /// Shortens the times to live, to detect whether they are prolonged.
    fn age(&self, name: &str, mode: RateType) {
        let [value, permits] = self.state_keys(name, mode);
        for key in [name, &value, &permits] {
            let _ = self.ask(&["PEXPIRE", key, "20000"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keep_alive_time_set_by_either_is_kept_by_both() {
    let mut pair = Pair::of(Release::Current).await;
    for mode in BOTH {
        for by_java in [true, false] {
            let name = format!("{mode:?}-{by_java}");
            let limiter = pair.rust.rate_limiter(&name);
            if by_java {
                assert_eq!(pair.java.tell(&format!("tryset {name} {} 3 30000 60000", in_java(mode))), "true");
                assert_eq!(limiter.config().await.unwrap().unwrap().keep_alive_time(), Some(MINUTE));
            } else {
                let rate = rate(mode, 3, 30_000).keep_alive(MINUTE).unwrap();
                assert!(limiter.try_set_rate(&rate).await.unwrap());
            }
            assert!(takes(&limiter, 2).await);
            pair.live_a_minute(&name, mode);
            pair.age(&name, mode);
            assert_eq!(pair.java.tell(&format!("try {name} 1")), "true");
            pair.live_a_minute(&name, mode);
            // Refused attempts prolong as well, on either side.
            pair.age(&name, mode);
            assert_eq!(pair.java.tell(&format!("try {name} 1")), "false");
            pair.live_a_minute(&name, mode);
            pair.age(&name, mode);
            assert!(!takes(&limiter, 1).await);
            pair.live_a_minute(&name, mode);
            if pair.java_can("release") {
                pair.age(&name, mode);
                let _ = pair.java.tell(&format!("release {name} 1"));
                pair.live_a_minute(&name, mode);
                pair.age(&name, mode);
                limiter.release(1).await.unwrap();
                pair.live_a_minute(&name, mode);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expiry_set_by_either_reaches_all_keys() {
    for release in [Release::Current, Release::Older] {
        let mut pair = Pair::of(release).await;
        for mode in BOTH {
            let name = in_java(mode);
            let limiter = pair.rust.rate_limiter(name);
            assert!(limiter.try_set_rate(&rate(mode, 3, 30_000)).await.unwrap());
            assert!(takes(&limiter, 1).await);
            assert_eq!(pair.lives(name, mode), [-1; 3]);
            assert_eq!(pair.java.tell(&format!("ttl {name}")), "-1");

            assert!(limiter.expire(MINUTE).await.unwrap());
            pair.live_a_minute(name, mode);
            let ttl: i64 = pair.java.tell(&format!("ttl {name}")).parse().unwrap();
            assert!((40_000..=60_000).contains(&ttl), "{ttl}");
            assert_eq!(pair.java.tell(&format!("clear {name}")), "true");
            assert_eq!(pair.lives(name, mode), [-1; 3]);
            assert_eq!(limiter.remaining_ttl().await.unwrap(), Lifetime::Endless);

            assert_eq!(pair.java.tell(&format!("expire {name} 60000")), "true");
            pair.live_a_minute(name, mode);
            // A grant by either side gives all three keys the time to live of the config.
            assert!(takes(&limiter, 1).await);
            assert_eq!(pair.java.tell(&format!("try {name} 1")), "true");
            pair.live_a_minute(name, mode);
            assert!(limiter.clear_expire().await.unwrap());
            assert_eq!(pair.java.tell(&format!("ttl {name}")), "-1");
        }
    }
}
