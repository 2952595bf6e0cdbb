//! Requests that are refused before they have an effect.

use ratekeeper_compat::redisson::RedissonError;

use crate::{Ground, overall};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limiter_that_is_not_set_up_says_so() {
    let ground = Ground::new().await;
    let limiter = ground.client.rate_limiter("absent");
    assert!(matches!(limiter.try_acquire().await, Err(RedissonError::NotInitialized { name }) if name == "absent"));
    assert!(matches!(limiter.acquire(1).await, Err(RedissonError::NotInitialized { .. })));
    assert!(matches!(limiter.release(1).await, Err(RedissonError::NotInitialized { .. })));
    assert!(matches!(limiter.available_permits().await, Err(RedissonError::NotInitialized { .. })));
    assert_eq!(limiter.config().await.unwrap(), None);
    assert_eq!(ground.keys(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_the_rate_is_never_waited_for() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("api", overall(5, 1_000)).await;
    assert!(matches!(limiter.acquire(6).await, Err(RedissonError::AboveRate { permits: 6, rate: 5 })));
    assert_eq!(ground.keys(), ["api"], "nothing was charged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_that_is_none_is_an_error() {
    let ground = Ground::new().await;
    let _ = ground.ask(&["HSET", "api", "rate", "many", "interval", "1000", "type", "0"]);
    let limiter = ground.client.rate_limiter("api");
    assert!(matches!(limiter.try_acquire().await, Err(RedissonError::DamagedConfig { .. })));
    assert!(matches!(limiter.config().await, Err(RedissonError::DamagedConfig { .. })));
    let _ = ground.ask(&["SET", "text", "something else"]);
    assert!(matches!(ground.client.rate_limiter("text").try_acquire().await, Err(RedissonError::Store(_))));
}
