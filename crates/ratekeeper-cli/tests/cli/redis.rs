//! Simulations on Redis: same output as in memory, and no keys left.

use std::{fs, path::Path};

use ratekeeper_testkit::servers::{Acl, Binary, Cluster, RedisServer};

use crate::fixture::{Fixture, root};

/// A sample trace and the policies to replay it with.
struct Sample {
    requests: String,
    rules: String,
    policies: Vec<String>,
}

/// Every sample trace, with its rules and with every valid rule file.
fn samples() -> Vec<Sample> {
    let paths = |directory: &str, ending: &[&str]| {
        let paths = fs::read_dir(root().join(directory)).unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<_> = paths.filter(|path| ending.iter().any(|end| shown(path).ends_with(end))).collect();
        paths.sort();
        paths
    };
    let rules: Vec<_> = [("rules/good", &["yaml", "toml", "json"][..]), ("examples/traces", &["yaml"])]
        .into_iter()
        .flat_map(|(directory, ending)| paths(directory, ending))
        .collect();
    let traces = paths("examples/traces", &["csv"]);
    assert!(traces.len() >= 8 && rules.len() >= 15);
    let mut samples = Vec::new();
    for trace in &traces {
        for rules in &rules {
            let (requests, rules) = (shown(trace), shown(rules));
            samples.push(Sample { policies: policies(&rules), requests, rules });
        }
    }
    samples
}

fn shown(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The policies of a file that has several; empty if it has one.
fn policies(rules: &str) -> Vec<String> {
    let run = Fixture::new().run_with(&["simulate", "--rules", rules, "--requests", "-"], b"at_ms,key\n");
    match run.stderr.split_once("choose one with --policy: ") {
        Some((_, names)) => names.trim_end().split(", ").map(str::to_owned).collect(),
        None => Vec::new(),
    }
}

impl Sample {
    /// The runs of this sample, without a store.
    fn runs(&self) -> Vec<Vec<&str>> {
        let run = vec!["simulate", "--rules", &self.rules, "--requests", &self.requests];
        let named = |name| [run.as_slice(), &["--policy", name]].concat();
        if self.policies.is_empty() {
            vec![run]
        } else {
            self.policies.iter().map(|name| named(name.as_str())).collect()
        }
    }
}

/// Every run gives the same bytes on this store as in memory, on both outputs.
fn same_as_in_memory(url: &str, samples: &[Sample]) -> usize {
    let fixture = Fixture::new();
    let mut count = 0;
    for run in samples.iter().flat_map(Sample::runs) {
        let printed = |store| {
            let run = fixture.run(&[&run, &["--summary", "--store", store][..]].concat());
            (run.stdout, run.stderr, run.code)
        };
        assert_eq!(printed("memory"), printed(url), "{run:?}");
        count += 1;
    }
    count
}

#[test]
fn every_sample_gives_the_same_output_on_redis() {
    let server = RedisServer::start();
    assert!(same_as_in_memory(&server.url(), &samples()) >= 120);
    assert_eq!(server.command(&["DBSIZE"]).integer(), 0, "nothing is left behind");
}

#[test]
fn every_sample_gives_the_same_output_on_a_cluster_and_on_valkey() {
    // Each with its rules only; the other rule files are covered by the test on Redis.
    let own =
        |sample: &Sample| sample.rules.contains(Path::new(&sample.requests).file_stem().unwrap().to_str().unwrap());
    let own: Vec<_> = samples().into_iter().filter(own).collect();
    assert!(own.len() >= 8);

    let cluster = Cluster::with().without_replicas().start();
    same_as_in_memory(&cluster.url(), &own);
    let left: i64 = cluster.nodes().iter().map(|node| node.command(&["DBSIZE"]).integer()).sum();
    assert_eq!(left, 0, "nothing is left behind");

    let valkey = RedisServer::with().binary(Binary::Valkey).start();
    same_as_in_memory(&valkey.url(), &own);
    assert_eq!(valkey.command(&["DBSIZE"]).integer(), 0, "nothing is left behind");
}

#[test]
fn only_the_keys_of_the_run_are_deleted() {
    let server = RedisServer::start();
    let _ = server.command(&["SET", "ratekeeper:1:api/p:{u}", "in earnest"]).expect_ok();
    let crowd: String = (0..5_000).map(|user| format!("{user},user:{user}\n")).collect();
    let fixture = Fixture::with_rules(&["name: day, algorithm: fixed_window, limit: 9, per: 1d"])
        .requests(format!("at_ms,key\n{crowd}"));
    let run = fixture.simulate(&["--store", &server.url()]);
    assert_eq!(run.lines().len(), 5_000);
    assert_eq!(server.command(&["DBSIZE"]).integer(), 1);
}

#[test]
fn every_policy_of_a_file_can_be_compared_on_redis() {
    let server = RedisServer::start();
    let (rules, requests) = (root().join("examples/traces/edge.rules.yaml"), root().join("examples/traces/edge.csv"));
    let (rules, requests) = (shown(&rules), shown(&requests));
    let url = server.url();
    let printed = |store: &str| {
        let args = [
            "simulate",
            "--rules",
            &rules,
            "--requests",
            &requests,
            "--compare",
            "--format",
            "table",
            "--store",
            store,
        ];
        Fixture::new().run(&args).stdout
    };
    assert_eq!(printed("memory"), printed(&url));
}

/// No fallback, even for a rule that fails open.
#[test]
fn a_failure_of_the_server_ends_the_run() {
    let rule = "name: r, algorithm: token_bucket, limit: 1, per: 1s, on_store_failure: open";
    let fixture = Fixture::with_rules(&[rule]).requests("at_ms,key\n0,u\n");
    let server = RedisServer::with().password("right").start();
    let printed = |url: &str| {
        let run = fixture.simulate(&["--store", url]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
        assert!(!run.stderr.contains("s3cret"), "{}", run.stderr);
        run.stderr
    };
    let wrong = printed(&format!("redis://:s3cret@{}", server.address()));
    assert!(wrong.contains("WRONGPASS"), "{wrong}");

    let full = RedisServer::with().config("maxmemory", "100kb").start();
    assert!(printed(&full.url()).contains("the server is out of memory"));

    full.kill();
    let gone = printed(&full.url());
    assert!(gone.starts_with(&format!("--store {}: {}: no connection: ", full.url(), full.address())), "{gone}");
}

/// The permissions of the store suffice; without the permission to scan, keys are left to expire.
#[test]
fn minimal_permissions_suffice() {
    let rules = "~ratekeeper:* resetchannels -@all +eval +evalsha +get +set +del +time +ping";
    let server = RedisServer::with().acl(Acl::new().user("app", "s3cret", rules)).start();
    let fixture =
        Fixture::with_rules(&["name: r, algorithm: token_bucket, limit: 1, per: 1s"]).requests("at_ms,key\n0,u\n1,u\n");
    let run = fixture.simulate(&["--store", &server.url_as("app", "s3cret")]);
    assert_eq!((run.code, run.stdout), (0, fixture.simulate(&[]).stdout));
    assert!(run.stderr.starts_with("warning: ") && run.stderr.ends_with(":* are left to expire\n"), "{}", run.stderr);
    let names = server.command(&["KEYS", "*"]);
    for name in names.items() {
        assert!(server.command(&["PTTL", &name.text()]).integer() > 0, "{}", name.text());
    }
}
