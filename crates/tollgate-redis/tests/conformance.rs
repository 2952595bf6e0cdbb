//! What any store must answer, asked of Redis and Valkey in every form they come in.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

use std::time::Duration;

use tollgate_redis::{PretendClock, RedisConfig, RedisStore, Together};
use tollgate_testkit::{
    conformance,
    servers::{Acl, Binary, Cluster, RedisServer, Sentinels},
};

/// Time is pretended, so the deadline is all that a busy machine could miss.
fn patient(clock: &PretendClock) -> RedisConfig {
    RedisConfig::default().pretend_time(clock.clone()).deadline(Duration::from_secs(20))
}

async fn conforms(url: &str, together: Together) {
    let clock = PretendClock::default();
    let store = RedisStore::connect_with(url, patient(&clock).together(together)).await.unwrap();
    conformance::run(&store, |now| clock.set(now)).await;
    let counts = store.counts();
    assert_eq!((counts.decided_locally, counts.let_through, counts.turned_away), (0, 0, 0), "the server decided");
}

#[tokio::test]
async fn redis() {
    conforms(&RedisServer::start().url(), Together::ByKey).await;
}

#[tokio::test]
async fn valkey() {
    conforms(&RedisServer::with().binary(Binary::Valkey).start().url(), Together::ByKey).await;
}

#[tokio::test]
async fn redis_behind_sentinel() {
    conforms(&Sentinels::start().url(), Together::ByKey).await;
}

/// Requests for several keys need them in one slot to be decided in one step.
#[tokio::test]
async fn redis_cluster() {
    conforms(&Cluster::start().url(), Together::ByDomain).await;
}

#[tokio::test]
async fn valkey_cluster() {
    conforms(&Cluster::with().binary(Binary::Valkey).start().url(), Together::ByDomain).await;
}

/// The rights that docs/redis.md asks for are enough.
#[tokio::test]
async fn redis_with_the_fewest_rights() {
    // Pretended time needs one more: keys are made to expire at a moment.
    let rights = format!("{FEWEST_RIGHTS} +pexpireat");
    let server = RedisServer::with().acl(Acl::new().user("tollgate", "secret", &rights)).start();
    conforms(&server.url_as("tollgate", "secret"), Together::ByKey).await;
}

/// What docs/redis.md tells people to grant.
const FEWEST_RIGHTS: &str = "~tollgate:* resetchannels -@all +eval +evalsha +get +set +del +getrange +setrange +pexpire \
                             +time +ping";
