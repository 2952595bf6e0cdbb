//! Times to live, on the keys on which Java expects them.

use std::time::{Duration, SystemTime};

use ratekeeper_compat::redisson::{Lifetime, Taken};

use crate::{Ground, free, overall, takes};

const MINUTE: Duration = Duration::from_secs(60);
const KEYS: [&str; 3] = ["api", "{api}:value", "{api}:permits"];

/// Without a keep-alive time keys do not expire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_do_not_expire_by_default() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("api", overall(2, 1_000)).await;
    assert!(takes(&limiter, 1).await);
    assert_eq!(KEYS.map(|key| ground.pttl(key)), [-1; 3]);
    assert_eq!(limiter.remaining_ttl().await.unwrap(), Lifetime::Endless);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_and_release_prolongs_all_three_keys() {
    let ground = Ground::on_the_servers_clock().await;
    let limiter = ground.limiter("api", overall(1, 20_000).keep_alive(MINUTE).unwrap()).await;
    assert!((59_000..=60_000).contains(&ground.pttl("api")));
    for turn in 0..3 {
        ground.pass(5_000);
        match turn {
            2 => limiter.release(1).await.unwrap(),
            _ => assert_eq!(takes(&limiter, 1).await, turn == 0),
        }
        for key in KEYS.iter().filter(|key| turn < 2 || **key != "{api}:permits") {
            assert!((59_000..=60_000).contains(&ground.pttl(key)), "{key} in turn {turn}: {}", ground.pttl(key));
        }
    }
    // A query does not prolong.
    ground.pass(5_000);
    assert_eq!(free(&limiter).await, 1);
    assert!(ground.pttl("api") <= 55_100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_to_live_of_the_config_is_copied_to_the_state() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("api", overall(2, 1_000)).await;
    assert!(limiter.expire(MINUTE).await.unwrap());
    assert!(takes(&limiter, 1).await);
    assert!(KEYS.iter().all(|key| (50_000..=60_000).contains(&ground.pttl(key))));
    assert!(limiter.clear_expire().await.unwrap());
    assert_eq!(KEYS.map(|key| ground.pttl(key)), [-1; 3]);
    assert!(!limiter.clear_expire().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expiry_can_be_a_moment() {
    let ground = Ground::new().await;
    let limiter = ground.client.rate_limiter("api");
    assert!(!limiter.expire_at(SystemTime::now() + MINUTE).await.unwrap(), "nothing is there");
    assert_eq!(limiter.remaining_ttl().await.unwrap(), Lifetime::Absent);
    assert!(limiter.try_set_rate(&overall(2, 1_000)).await.unwrap());
    assert!(limiter.expire_at(SystemTime::now() + MINUTE).await.unwrap());
    assert!((50_000..=60_000).contains(&ground.pttl("api")));
}

/// As in Java, a rate without a keep-alive time does not remove an existing time to live.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn setting_a_rate_leaves_a_time_to_live_running() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("api", overall(2, 1_000).keep_alive(MINUTE).unwrap()).await;
    limiter.set_rate(&overall(3, 1_000), Taken::Forgotten).await.unwrap();
    assert!((50_000..=60_000).contains(&ground.pttl("api")));
    assert_eq!(ground.ask(&["HGET", "api", "keepAliveTime"]).text(), "0");
}

/// A config written before 3.38 has no keep-alive time. It is read, and setting a rate adds one, as in Java.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn configs_without_a_keep_alive_time_are_read() {
    let ground = Ground::new().await;
    let _ = ground.ask(&["HSET", "api", "rate", "2", "interval", "1000", "type", "0"]);
    let limiter = ground.client.rate_limiter("api");
    assert_eq!(limiter.config().await.unwrap(), Some(overall(2, 1_000)));
    assert!(takes(&limiter, 2).await);
    assert!(!limiter.try_set_rate(&overall(9, 1_000).keep_alive(MINUTE).unwrap()).await.unwrap());
    assert_eq!(ground.ask(&["HGET", "api", "keepAliveTime"]).text(), "60000");
    assert_eq!(ground.pttl("api"), -1);
    assert!(!takes(&limiter, 1).await);
    assert!((50_000..=60_000).contains(&ground.pttl("api")));
}

/// A rename moves the state as well. Java moves the config only, and the limiter starts in its initial state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limiter_takes_its_state_to_a_new_name() {
    let ground = Ground::new().await;
    let mut limiter = ground.limiter("api", overall(5, 1_000)).await;
    assert!(takes(&limiter, 3).await);
    assert!(limiter.rename("edge").await.unwrap());
    assert_eq!(ground.keys(), ["edge", "{edge}:permits", "{edge}:value"]);
    assert_eq!((limiter.name(), free(&limiter).await), ("edge", 2));
    assert!(!ground.client.rate_limiter("api").rename("other").await.unwrap());
}
