//! Keys of a limiter in a cluster: all in one slot, by their hash tag.

use ratekeeper_compat::redisson::RedissonError;
use ratekeeper_testkit::servers::Cluster;

use crate::{client, config, free, overall, per_client, takes};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limiters_live_in_one_slot() {
    let cluster = Cluster::with().without_replicas().start();
    let client = client(&cluster.url(), config()).await;
    for name in ["api", "edge", "x{y}z", "third"] {
        let mut limiter = client.rate_limiter(name);
        assert!(limiter.try_set_rate(&overall(5, 60_000)).await.unwrap());
        assert!(takes(&limiter, 2).await);
        limiter.release(1).await.unwrap();
        assert_eq!(free(&limiter).await, 4);
        assert!(limiter.update_rate(&per_client(7, 60_000), ratekeeper_compat::redisson::Taken::Kept).await.unwrap());
        assert_eq!(free(&limiter).await, 7);

        let far = limiter.rename("elsewhere").await;
        assert!(matches!(far, Err(RedissonError::ApartInCluster { .. })), "{far:?}");
        let tag = if name.contains('{') { "{y}".to_owned() } else { format!("{{{name}}}") };
        assert!(limiter.rename(&format!("new-{tag}")).await.unwrap());
        assert!(takes(&limiter, 7).await);
        assert!(limiter.delete().await.unwrap());
        assert!(!limiter.exists().await.unwrap());
    }

    let unclosed = client.rate_limiter("a{b");
    let error = unclosed.try_acquire().await.unwrap_err();
    assert!(matches!(error, RedissonError::ApartInCluster { .. }), "{error}");
}
