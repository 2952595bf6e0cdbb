//! Times to live, where Java would look for them.

use std::time::{Duration, SystemTime};

use tollgate_redis::redisson::{Lifetime, Taken};

use crate::{Ground, free, overall, takes};

const MINUTE: Duration = Duration::from_secs(60);
const KEYS: [&str; 3] = ["api", "{api}:value", "{api}:permits"];

/// Permanent without a word to the contrary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_live_for_ever_unless_told_otherwise() {
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
    // Looking does not prolong.
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

/// As with Java: a keep-alive time of none does not end one that was there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn setting_a_rate_leaves_a_time_to_live_running() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("api", overall(2, 1_000).keep_alive(MINUTE).unwrap()).await;
    limiter.set_rate(&overall(3, 1_000), Taken::Forgotten).await.unwrap();
    assert!((50_000..=60_000).contains(&ground.pttl("api")));
    assert_eq!(ground.ask(&["HGET", "api", "keepAliveTime"]).text(), "0");
}

/// A config of before 3.38 has no keep-alive time. It is read; and setting a rate adds one, as Java does.
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

/// Java moves the config alone, and the limiter begins anew.
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
