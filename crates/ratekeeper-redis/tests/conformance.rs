//! Conformance suite of stores, on Redis and Valkey: standalone, Sentinel, Cluster, least rights.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

use std::time::Duration;

use ratekeeper_core::{Align, Ask, OnQuotaChange, Policy, Quota, Rule, Store, Take, Verb};
use ratekeeper_redis::{ManualClock, RedisConfig, RedisStore, Together};
use ratekeeper_testkit::{
    conformance,
    servers::{Acl, Binary, Cluster, RedisServer, Sentinels},
};

/// With a manual clock, only the deadline depends on real time; it is long.
fn patient(clock: &ManualClock) -> RedisConfig {
    RedisConfig::default().manual_clock(clock.clone()).deadline(TIMEOUT)
}

const TIMEOUT: Duration = Duration::from_secs(20);

async fn conforms(url: &str, together: Together) {
    let clock = ManualClock::default();
    let store = RedisStore::connect_with(url, patient(&clock).together(together)).await.unwrap();
    conformance::run(&store, |now| clock.set(now)).await;
    conformance::run_inline_limits(&store, |now| clock.set(now)).await;
    let counts = store.counts();
    assert_eq!((counts.decided_locally, counts.let_through, counts.turned_away), (0, 0, 0), "the server decided");
}

#[tokio::test]
async fn redis_conforms() {
    conforms(&RedisServer::start().url(), Together::ByKey).await;
}

#[tokio::test]
async fn valkey_conforms() {
    conforms(&RedisServer::with().binary(Binary::Valkey).start().url(), Together::ByKey).await;
}

#[tokio::test]
async fn redis_behind_sentinel_conforms() {
    conforms(&Sentinels::start().url(), Together::ByKey).await;
}

/// Several keys must share a slot to be decided by one script.
#[tokio::test]
async fn redis_cluster_conforms() {
    conforms(&Cluster::start().url(), Together::ByDomain).await;
}

#[tokio::test]
async fn valkey_cluster_conforms() {
    conforms(&Cluster::with().binary(Binary::Valkey).start().url(), Together::ByDomain).await;
}

/// The rights that docs/redis.md names suffice.
#[tokio::test]
async fn redis_with_the_least_rights_conforms() {
    // A manual clock needs one more right: keys expire at an absolute time.
    let rights = format!("{FEWEST_RIGHTS} +pexpireat");
    let server = RedisServer::with().acl(Acl::new().user("ratekeeper", "secret", &rights)).start();
    conforms(&server.url_as("ratekeeper", "secret"), Together::ByKey).await;
}

/// A cluster also needs the rights to read the slot map and to follow `ASK`.
#[tokio::test]
async fn redis_cluster_with_the_least_rights_conforms() {
    let rights = format!("{FEWEST_RIGHTS} {MORE_IN_A_CLUSTER} +pexpireat");
    let cluster = Cluster::with().without_replicas().acl(Acl::new().user("ratekeeper", "secret", &rights)).start();
    let url = cluster.url().replacen("://", "://ratekeeper:secret@", 1);
    conforms(&url, Together::ByDomain).await;

    let store = RedisStore::connect_with(&url, RedisConfig::default().deadline(TIMEOUT)).await.unwrap();
    let rule = Rule::fixed_window_aligned("window", Quota::per_day(100), Align::FirstRequest);
    let policy = store.install(Policy::new("moving", [rule]).unwrap(), OnQuotaChange::Keep).unwrap();
    let asks = [Ask::new(&policy, "key")];
    let slot = cluster.slot_of("key");
    let from = cluster.node_of_slot(slot).port();
    let moving = cluster.begin_move(slot, cluster.nodes().iter().find(|node| node.port() != from).unwrap());
    for _ in 0..2 {
        let decision = store.decide_by_server(&asks, &Verb::Take(Take::now())).await.unwrap();
        assert!(decision.is_allowed());
        while moving.move_keys(10) > 0 {}
    }
    assert!(store.counts().redirects_followed > 0);
}

const MORE_IN_A_CLUSTER: &str = "+cluster|slots +asking";

/// The rights that docs/redis.md names.
const FEWEST_RIGHTS: &str = "~ratekeeper:* resetchannels -@all +eval +evalsha +get +set +del +getrange +setrange +pexpire \
                             +time +ping";
