//! The doctor on real servers, well and unwell.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::time::Duration;

use tollgate_redis::{
    Address,
    doctor::{self, Finding, Level, NotReached, Report},
};
use tollgate_testkit::servers::{
    Acl, Binary, Certificates, ClientCertificate, Cluster, RedisServer, Sentinels, wait_until,
};

async fn examine(url: &str) -> Result<Report, NotReached> {
    doctor::examine(&Address::parse(url).unwrap(), "tollgate").await
}

/// All findings of a check.
fn all<'a>(report: &'a Report, check: &str) -> Vec<&'a Finding> {
    report.findings.iter().filter(|finding| finding.check == check).collect()
}

#[track_caller]
fn one<'a>(report: &'a Report, check: &str) -> &'a Finding {
    match all(report, check).as_slice() {
        [finding] => finding,
        other => panic!("{} findings of {check}: {report:#?}", other.len()),
    }
}

#[track_caller]
fn says(report: &Report, check: &str, level: Level, words: &str) {
    let finding = one(report, check);
    assert!(finding.level == level && finding.found.contains(words), "{finding:#?}");
    assert!(level < Level::Warn || finding.change.is_some(), "what is bad can be changed: {finding:#?}");
}

#[tokio::test]
async fn a_server_as_it_comes_is_fit() {
    let server = RedisServer::start();
    let report = examine(&server.url()).await.unwrap();
    says(&report, "version", Level::Ok, "Redis ");
    says(&report, "role", Level::Ok, "primary");
    says(&report, "eviction", Level::Ok, "noeviction");
    says(&report, "persistence", Level::Note, "a crash or restart loses everything, which costs up to B more per key");
    says(&report, "rights", Level::Ok, "user default may do all");
    says(&report, "writes", Level::Ok, "a write was taken");
    says(&report, "scripts", Level::Ok, "may ask for the time");
    says(&report, "clock", Level::Ok, "this machine's");
    says(&report, "expiry", Level::Ok, "each of 0 keys under tollgate:* expires");
    assert!(one(&report, "script-time").found.contains("by its own books"));
    assert!(one(&report, "round-trip").found.contains("median"));
    assert_eq!(report.count(Level::Fail), 0);
    assert!(report.findings.iter().all(|finding| finding.node == Some(server.address())));
    assert_eq!(server.command(&["DBSIZE"]).integer(), 0, "nothing is left behind");
}

#[tokio::test]
async fn valkey_is_known_by_its_name() {
    let server = RedisServer::with().binary(Binary::Valkey).start();
    let report = examine(&server.url()).await.unwrap();
    says(&report, "version", Level::Ok, "Valkey ");
    assert_eq!(report.count(Level::Fail), 0);
}

#[tokio::test]
async fn a_server_that_forgets_limits_in_use_is_warned_of() {
    let settings = RedisServer::with().config("maxmemory", "100mb").config("maxmemory-policy", "allkeys-lru");
    let report = examine(&settings.append_only().start().url()).await.unwrap();
    says(&report, "eviction", Level::Warn, "maxmemory 100 MiB, maxmemory-policy allkeys-lru");
    assert!(one(&report, "eviction").change.as_ref().unwrap().contains("noeviction"));
    says(&report, "persistence", Level::Ok, "AOF, synced every second");
    says(&report, "memory", Level::Ok, "of 100 MiB used");
}

#[tokio::test]
async fn a_full_server_fails() {
    let server = RedisServer::with().config("maxmemory", "100kb").start();
    let report = examine(&server.url()).await.unwrap();
    says(&report, "memory", Level::Warn, "nearly full");
    says(&report, "writes", Level::Fail, "writes are refused: the server is out of memory");
    says(&report, "scripts", Level::Ok, "may ask for the time");
    assert_eq!(report.count(Level::Fail), 1, "one cause, one failure");
}

#[tokio::test]
async fn keys_that_never_end_are_found() {
    let server = RedisServer::start();
    for key in ["tollgate:1:api/p:{a}", "tollgate:1:api/p:{b}", "others"] {
        let _ = server.command(&["SET", key, "x"]).expect_ok();
    }
    let _ = server.command(&["PEXPIRE", "tollgate:1:api/p:{b}", "60000"]).expect_ok();
    let report = examine(&server.url()).await.unwrap();
    says(&report, "expiry", Level::Warn, "1 of 2 keys under tollgate:* have no TTL");
}

#[tokio::test]
async fn replicas_without_a_bound_on_a_split_are_warned_of() {
    let watched = Sentinels::start();
    let report = examine(&watched.url()).await.unwrap();
    says(&report, "sentinels", Level::Ok, "3 of 3 sentinels answer");
    says(&report, "split-brain", Level::Warn, "min-replicas-to-write 0");
    assert!(one(&report, "split-brain").change.as_ref().unwrap().contains("min-replicas-max-lag 10"));
    let replication = all(&report, "replication");
    assert!(replication[0].found.starts_with("2 connected replicas"), "{replication:#?}");
    assert_eq!(replication.len(), 3, "the replicas are asked as well");
    says(&report, "clocks", Level::Ok, "3 clocks within");
    assert_eq!(report.count(Level::Fail), 0, "{report:#?}");

    for server in watched.servers() {
        let _ = server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).expect_ok();
    }
    watched.sentinels()[2].kill();
    watched.servers()[2].kill();
    let report = examine(&watched.url()).await.unwrap();
    says(&report, "split-brain", Level::Ok, "min-replicas-max-lag 10 s");
    says(&report, "sentinels", Level::Warn, "2 of 3 sentinels answer");
    says(&report, "connection", Level::Warn, "the replica cannot be asked");
}

#[tokio::test]
async fn a_cluster_is_examined_node_by_node() {
    let cluster = Cluster::start();
    let report = examine(&cluster.url()).await.unwrap();
    says(&report, "cluster", Level::Ok, "cluster_state ok, 16384 of 16384 slots served");
    says(&report, "members", Level::Ok, "3 primaries, each with a replica");
    says(&report, "clocks", Level::Ok, "6 clocks within");
    assert_eq!(all(&report, "version").len(), 6);
    for check in ["rights", "script-time", "split-brain"] {
        let found = all(&report, check);
        assert!(found.len() == 3 && found.iter().all(|finding| finding.level == Level::Ok), "{found:#?}");
    }
    assert_eq!(report.count(Level::Fail), 0, "{report:#?}");
    let left: i64 = cluster.primaries().iter().map(|node| node.command(&["DBSIZE"]).integer()).sum();
    assert_eq!(left, 0, "nothing is left behind");

    let alone = examine(&cluster.nodes()[0].url()).await.unwrap();
    says(&alone, "role", Level::Fail, "it is one of a cluster");
}

#[tokio::test]
async fn a_cluster_that_has_lost_a_node_fails() {
    let cluster = Cluster::with().without_replicas().start();
    cluster.nodes()[0].kill();
    wait_until("the others to notice", Duration::from_secs(20), || {
        cluster.nodes()[1].command(&["CLUSTER", "INFO"]).text().contains("cluster_state:fail")
    });
    let report = examine(&cluster.url()).await.unwrap();
    says(&report, "cluster", Level::Fail, "cluster_state fail");
    says(&report, "connection", Level::Fail, "the primary cannot be asked: no connection");
    assert_eq!(one(&report, "connection").node, Some(cluster.nodes()[0].address()));
}

/// What the store needs is enough for the doctor to say so; what it cannot see it says, too.
#[tokio::test]
async fn the_fewest_rights_are_enough_and_what_is_hidden_is_said() {
    let rules = "~tollgate:* resetchannels -@all +eval +evalsha +get +set +del +time +ping";
    let server = RedisServer::with().acl(Acl::new().user("app", "s3cret", rules)).start();
    let report = examine(&server.url_as("app", "s3cret")).await.unwrap();
    says(&report, "version", Level::Ok, "Redis ");
    says(&report, "rights", Level::Ok, "user app may do all");
    says(&report, "visibility", Level::Note, "cannot see memory, eviction, persistence and replication");
    assert!(one(&report, "visibility").change.as_ref().unwrap().starts_with("grant +config|get +info to the account"));
    says(&report, "expiry", Level::Note, "cannot see");
    says(&report, "script-time", Level::Note, "round trip included");
    assert_eq!(report.count(Level::Fail), 0);
    assert!(!format!("{report:?}").contains("s3cret"));
}

#[tokio::test]
async fn rights_that_are_missing_are_named() {
    let rules = "~others:* resetchannels -@all +eval +get +set +del +ping";
    let server = RedisServer::with().acl(Acl::new().user("app", "s3cret", rules)).start();
    let report = examine(&server.url_as("app", "s3cret")).await.unwrap();
    says(&report, "rights", Level::Fail, "user app lacks ~tollgate:* +time +evalsha");
    assert_eq!(one(&report, "rights").change.as_deref(), Some("ACL SETUSER app ~tollgate:* +time +evalsha"));
    assert_eq!(report.count(Level::Fail), 1, "one cause, one failure");
}

#[tokio::test]
async fn tls_with_a_private_authority_is_no_obstacle() {
    let certificates = Certificates::new();
    let server = RedisServer::with().tls(&certificates, ClientCertificate::NotAsked).start();
    let report = examine(&format!("{}?ca={}", server.url(), certificates.ca().display())).await.unwrap();
    assert_eq!(report.count(Level::Fail), 0);
    let failed = examine(&format!("{}?ca={}", server.url(), certificates.wrong_ca().display())).await.unwrap_err();
    assert!(failed.cause.contains("TLS failed"), "{failed}");
}

#[tokio::test]
async fn a_replica_is_no_place_to_write() {
    let primary = RedisServer::start();
    let replica = RedisServer::with().replica_of(&primary).start();
    let report = examine(&replica.url()).await.unwrap();
    says(&report, "role", Level::Fail, "a replica, which takes no writes");
}

#[tokio::test]
async fn who_cannot_get_in_is_told_why() {
    let server = RedisServer::with().password("right").start();
    let failed = examine(&server.url_as("", "s3cret")).await.unwrap_err();
    assert!(
        failed.cause.contains("WRONGPASS") && failed.cause.contains("look at the user and the password"),
        "{failed}"
    );
    assert!(!failed.to_string().contains("s3cret"));

    let failed = examine(&format!("redis://{}", server.address())).await.unwrap_err();
    assert!(failed.cause.contains("NOAUTH"), "{failed}");

    server.kill();
    let failed = examine(&server.url()).await.unwrap_err();
    assert!(failed.to_string().contains(&server.address()) && failed.cause.contains("refused"), "{failed}");
    assert!(examine(&format!("redis+cluster://{}", server.address())).await.is_err());
    assert!(examine(&format!("redis+sentinel://{}/mymaster", server.address())).await.is_err());
}
