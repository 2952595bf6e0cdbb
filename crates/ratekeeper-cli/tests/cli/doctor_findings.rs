//! Findings of `ratekeeper doctor` on healthy and unhealthy servers.

use std::time::Duration;

use ratekeeper_testkit::servers::{
    Acl, Binary, Certificates, ClientCertificate, Cluster, RedisServer, Sentinels, wait_until,
};
use serde::Deserialize;

use crate::fixture::Fixture;

/// The JSON report.
#[derive(Debug, Deserialize)]
struct Report {
    findings: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
struct Finding {
    level: Level,
    check: String,
    node: Option<String>,
    found: String,
    change: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Note,
    Warn,
    Fail,
}

impl Report {
    fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

/// The report, or the error if no server answers.
fn examine(url: &str) -> Result<Report, String> {
    let run = Fixture::new().run(&["doctor", url, "--format", "json"]);
    if run.code == 2 { Err(run.stderr) } else { Ok(serde_json::from_str(&run.stdout).unwrap()) }
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
fn assert_finding(report: &Report, check: &str, level: Level, words: &str) {
    let finding = one(report, check);
    assert!(finding.level == level && finding.found.contains(words), "{finding:#?}");
    assert!(level < Level::Warn || finding.change.is_some(), "a remedy: {finding:#?}");
}

#[test]
fn a_default_server_has_no_failures() {
    let server = RedisServer::start();
    let report = examine(&server.url()).unwrap();
    assert_finding(&report, "version", Level::Ok, "Redis ");
    assert_finding(&report, "role", Level::Ok, "primary");
    assert_finding(&report, "eviction", Level::Ok, "noeviction");
    assert_finding(
        &report,
        "persistence",
        Level::Note,
        "a crash or restart loses everything, which costs up to B more per key",
    );
    assert_finding(&report, "rights", Level::Ok, "user default has all permissions");
    assert_finding(&report, "writes", Level::Ok, "a write was accepted");
    assert_finding(&report, "scripts", Level::Ok, "may call TIME");
    assert_finding(&report, "clock", Level::Ok, "this machine's");
    assert_finding(&report, "expiry", Level::Ok, "each of 0 keys under ratekeeper:* expires");
    assert!(one(&report, "script-time").found.contains("as INFO commandstats reports"));
    assert!(one(&report, "round-trip").found.contains("median"));
    assert_eq!(report.count(Level::Fail), 0);
    assert!(report.findings.iter().all(|finding| finding.node == Some(server.address())));
    assert_eq!(server.command(&["DBSIZE"]).integer(), 0, "no keys are left");
}

#[test]
fn valkey_is_recognized() {
    let server = RedisServer::with().binary(Binary::Valkey).start();
    let report = examine(&server.url()).unwrap();
    assert_finding(&report, "version", Level::Ok, "Valkey ");
    assert_eq!(report.count(Level::Fail), 0);
}

#[test]
fn eviction_of_keys_in_use_is_a_warning() {
    let settings = RedisServer::with().config("maxmemory", "100mb").config("maxmemory-policy", "allkeys-lru");
    let report = examine(&settings.append_only().start().url()).unwrap();
    assert_finding(&report, "eviction", Level::Warn, "maxmemory 100 MiB, maxmemory-policy allkeys-lru");
    assert!(one(&report, "eviction").change.as_ref().unwrap().contains("noeviction"));
    assert_finding(&report, "persistence", Level::Ok, "AOF, synced every second");
    assert_finding(&report, "memory", Level::Ok, "of 100 MiB used");
}

#[test]
fn a_full_server_fails() {
    let server = RedisServer::with().config("maxmemory", "100kb").start();
    let report = examine(&server.url()).unwrap();
    assert_finding(&report, "memory", Level::Warn, "nearly full");
    assert_finding(&report, "writes", Level::Fail, "writes are refused: the server is out of memory");
    assert_finding(&report, "scripts", Level::Ok, "may call TIME");
    assert_eq!(report.count(Level::Fail), 1, "one cause, one failure");
}

#[test]
fn keys_without_ttl_are_found() {
    let server = RedisServer::start();
    for key in ["ratekeeper:1:api/p:{a}", "ratekeeper:1:api/p:{b}", "others"] {
        let _ = server.command(&["SET", key, "x"]).expect_ok();
    }
    let _ = server.command(&["PEXPIRE", "ratekeeper:1:api/p:{b}", "60000"]).expect_ok();
    let report = examine(&server.url()).unwrap();
    assert_finding(&report, "expiry", Level::Warn, "1 of 2 keys under ratekeeper:* have no TTL");
}

#[test]
fn replicas_without_a_split_brain_bound_are_a_warning() {
    let watched = Sentinels::start();
    let report = examine(&watched.url()).unwrap();
    assert_finding(&report, "sentinels", Level::Ok, "3 of 3 sentinels answer");
    assert_finding(&report, "split-brain", Level::Warn, "min-replicas-to-write 0");
    assert!(one(&report, "split-brain").change.as_ref().unwrap().contains("min-replicas-max-lag 10"));
    let replication = all(&report, "replication");
    assert!(replication[0].found.starts_with("2 connected replicas"), "{replication:#?}");
    assert_eq!(replication.len(), 3, "the replicas are asked as well");
    assert_finding(&report, "clocks", Level::Ok, "3 clocks within");
    assert_eq!(report.count(Level::Fail), 0, "{report:#?}");

    for server in watched.servers() {
        let _ = server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).expect_ok();
    }
    watched.sentinels()[2].kill();
    watched.servers()[2].kill();
    let report = examine(&watched.url()).unwrap();
    assert_finding(&report, "split-brain", Level::Ok, "min-replicas-max-lag 10 s");
    assert_finding(&report, "sentinels", Level::Warn, "2 of 3 sentinels answer");
    assert_finding(&report, "connection", Level::Warn, "the replica does not answer");
}

#[test]
fn a_cluster_is_examined_node_by_node() {
    let cluster = Cluster::start();
    let report = examine(&cluster.url()).unwrap();
    assert_finding(&report, "cluster", Level::Ok, "cluster_state ok, 16384 of 16384 slots served");
    assert_finding(&report, "members", Level::Ok, "3 primaries, each with a replica");
    assert_finding(&report, "clocks", Level::Ok, "6 clocks within");
    assert_eq!(all(&report, "version").len(), 6);
    for check in ["rights", "script-time", "split-brain"] {
        let found = all(&report, check);
        assert!(found.len() == 3 && found.iter().all(|finding| finding.level == Level::Ok), "{found:#?}");
    }
    assert_eq!(report.count(Level::Fail), 0, "{report:#?}");
    let left: i64 = cluster.primaries().iter().map(|node| node.command(&["DBSIZE"]).integer()).sum();
    assert_eq!(left, 0, "no keys are left");

    let alone = examine(&cluster.nodes()[0].url()).unwrap();
    assert_finding(&alone, "role", Level::Fail, "it is a member of a cluster");
}

#[test]
fn a_cluster_without_full_coverage_fails() {
    let cluster = Cluster::with().without_replicas().start();
    cluster.nodes()[0].kill();
    wait_until("the others to notice", Duration::from_secs(20), || {
        cluster.nodes()[1].command(&["CLUSTER", "INFO"]).text().contains("cluster_state:fail")
    });
    let report = examine(&cluster.url()).unwrap();
    assert_finding(&report, "cluster", Level::Fail, "cluster_state fail");
    assert_finding(&report, "connection", Level::Fail, "the primary does not answer: no connection");
    assert_eq!(one(&report, "connection").node, Some(cluster.nodes()[0].address()));
}

/// The permissions of the store suffice for the doctor; facts that it may not read are reported as not visible.
#[test]
fn minimal_permissions_suffice() {
    let rules = "~ratekeeper:* resetchannels -@all +eval +evalsha +get +set +del +time +ping";
    let server = RedisServer::with().acl(Acl::new().user("app", "s3cret", rules)).start();
    let report = examine(&server.url_as("app", "s3cret")).unwrap();
    assert_finding(&report, "version", Level::Ok, "Redis ");
    assert_finding(&report, "rights", Level::Ok, "user app has all permissions");
    assert_finding(&report, "visibility", Level::Note, "cannot see memory, eviction, persistence and replication");
    assert!(one(&report, "visibility").change.as_ref().unwrap().starts_with("grant +config|get +info to the account"));
    assert_finding(&report, "expiry", Level::Note, "cannot see");
    assert_finding(&report, "script-time", Level::Note, "round trip included");
    assert_eq!(report.count(Level::Fail), 0);
    assert!(!format!("{report:?}").contains("s3cret"));
}

#[test]
fn missing_permissions_are_named() {
    let rules = "~others:* resetchannels -@all +eval +get +set +del +ping";
    let server = RedisServer::with().acl(Acl::new().user("app", "s3cret", rules)).start();
    let report = examine(&server.url_as("app", "s3cret")).unwrap();
    assert_finding(&report, "rights", Level::Fail, "user app lacks ~ratekeeper:* +time +evalsha");
    assert_eq!(one(&report, "rights").change.as_deref(), Some("ACL SETUSER app ~ratekeeper:* +time +evalsha"));
    assert_eq!(report.count(Level::Fail), 1, "one cause, one failure");
}

#[test]
fn tls_with_a_private_authority_works() {
    let certificates = Certificates::new();
    let server = RedisServer::with().tls(&certificates, ClientCertificate::NotAsked).start();
    let report = examine(&format!("{}?ca={}", server.url(), certificates.ca().display())).unwrap();
    assert_eq!(report.count(Level::Fail), 0);
    let failed = examine(&format!("{}?ca={}", server.url(), certificates.wrong_ca().display())).unwrap_err();
    assert!(failed.contains("TLS failed"), "{failed}");
}

#[test]
fn a_replica_fails() {
    let primary = RedisServer::start();
    let replica = RedisServer::with().replica_of(&primary).start();
    let report = examine(&replica.url()).unwrap();
    assert_finding(&report, "role", Level::Fail, "a replica, which accepts no writes");
}

#[test]
fn login_errors_have_a_remedy() {
    let server = RedisServer::with().password("right").start();
    let failed = examine(&server.url_as("", "s3cret")).unwrap_err();
    assert!(failed.contains("WRONGPASS") && failed.contains("check the user and the password"), "{failed}");
    assert!(!failed.contains("s3cret"));

    let failed = examine(&format!("redis://{}", server.address())).unwrap_err();
    assert!(failed.contains("NOAUTH"), "{failed}");

    server.kill();
    let failed = examine(&server.url()).unwrap_err();
    assert!(failed.contains(&server.address()) && failed.contains("refused"), "{failed}");
    assert!(examine(&format!("redis+cluster://{}", server.address())).is_err());
    assert!(examine(&format!("redis+sentinel://{}/mymaster", server.address())).is_err());
}
