//! What any store must answer, asked of Redis and Valkey in every form they come in.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

use std::time::Duration;

use tollgate_core::{Align, Ask, Carry, Policy, Quota, Rule, Store, Take, Verb};
use tollgate_redis::{PretendClock, RedisConfig, RedisStore, Together};
use tollgate_testkit::{
    conformance,
    servers::{Acl, Binary, Cluster, RedisServer, Sentinels},
};

/// Time is pretended, so the deadline is all that a busy machine could miss.
fn patient(clock: &PretendClock) -> RedisConfig {
    RedisConfig::default().pretend_time(clock.clone()).deadline(PATIENCE)
}

const PATIENCE: Duration = Duration::from_secs(20);

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

/// In a cluster one also asks who has which slot, and follows a key that is on its way.
#[tokio::test]
async fn redis_cluster_with_the_fewest_rights() {
    let rights = format!("{FEWEST_RIGHTS} {MORE_IN_A_CLUSTER} +pexpireat");
    let cluster = Cluster::with().without_replicas().acl(Acl::new().user("tollgate", "secret", &rights)).start();
    let url = cluster.url().replacen("://", "://tollgate:secret@", 1);
    conforms(&url, Together::ByDomain).await;

    let store = RedisStore::connect_with(&url, RedisConfig::default().deadline(PATIENCE)).await.unwrap();
    let rule = Rule::fixed_window("window", Quota::per_day(100)).align(Align::FirstRequest);
    let policy = store.install(Policy::new("moving", [rule]).unwrap(), Carry::Keep).unwrap();
    let asks = [Ask::new(&policy, "key")];
    let slot = cluster.slot_of("key");
    let from = cluster.node_of_slot(slot).port();
    let moving = cluster.begin_move(slot, cluster.nodes().iter().find(|node| node.port() != from).unwrap());
    for _ in 0..2 {
        let told = store.decide_by_server(&asks, &Verb::Take(Take::now(1))).await.unwrap();
        assert!(told.is_allowed());
        while moving.move_keys(10) > 0 {}
    }
    assert!(store.counts().redirects_followed > 0);
}

const MORE_IN_A_CLUSTER: &str = "+cluster|slots +asking";

/// What docs/redis.md tells people to grant.
const FEWEST_RIGHTS: &str = "~tollgate:* resetchannels -@all +eval +evalsha +get +set +del +getrange +setrange +pexpire \
                             +time +ping";
