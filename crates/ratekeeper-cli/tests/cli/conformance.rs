//! Conformance vectors: current, agreed on by the oracle, and passed by every store and wire.
//!
//! `RATEKEEPER_RENEW=1 cargo test -p ratekeeper-cli --test cli conformance` writes the decisions into conformance/v1.

use std::{collections::HashMap, env, fs, path::PathBuf};

use ratekeeper_core::{LeaseId, Span, Take, Timestamp, Verdict};
use ratekeeper_rules::{Format, read_str};
use ratekeeper_testkit::{oracle::Oracle, servers::RedisServer};
use serde_json::{Value, json};

use crate::{
    fixture::{Fixture, root},
    server_process::ServerProcess,
};

fn vectors() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("conformance/v1")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(files.len() >= 26, "{files:?}");
    files
}

fn run_against(fixture: &Fixture, target: &str) -> String {
    let vectors = root().join("conformance/v1");
    let run = fixture.run(&["conformance", "run", "--against", target, "--vectors", vectors.to_str().unwrap()]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    run.stdout.lines().last().unwrap().to_owned()
}

#[test]
fn conformance_vectors_are_current() {
    let fixture = Fixture::new();
    for file in vectors() {
        let committed = fs::read_to_string(&file).unwrap();
        fs::write(fixture.path("vector.json"), &committed).unwrap();
        let run = fixture.run(&["conformance", "record", "vector.json"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", file.display());
        let recorded = fixture.read("vector.json");
        if env::var_os("RATEKEEPER_RENEW").is_some() {
            fs::write(&file, &recorded).unwrap();
        } else {
            assert_eq!(committed, recorded, "{}: RATEKEEPER_RENEW=1 rewrites it", file.display());
        }
    }
}

/// The vectors of takes alone, decided again by the naive oracle.
#[test]
fn conformance_vectors_agree_with_the_oracle() {
    let mut requests = 0;
    for file in vectors() {
        let vector: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let rules = read_str("vector", &vector["rules"].to_string(), Format::Json).unwrap();
        let policy = &rules.policies()[0].policy;
        let of_oracle = |ready: &ratekeeper_core::ReadyRule| ready.rule().clone();
        let listed: Vec<_> = policy.rules().iter().map(of_oracle).collect();
        let mut oracles: HashMap<&str, Oracle> = HashMap::new();
        let all = vector["requests"].as_array().unwrap();
        let takes = all.iter().take_while(|request| request["op"] == "take");
        if vector["name"] == "shadow" {
            continue; // The oracle enforces every rule.
        }
        for (number, request) in (1..).zip(takes) {
            #[allow(clippy::cast_possible_truncation, reason = "times of vectors are below 2^53")]
            let micros = |field: &str| (request[field].as_f64().unwrap_or_default() * 1e3).round() as u64;
            let take = Take::up_to(Span::from_micros(micros("max_wait_ms"))).with_lease(LeaseId(number));
            let key = request["key"].as_str().unwrap();
            let oracle = oracles.entry(key).or_insert_with(|| Oracle::new(&listed, policy.horizon()));
            let cost = request["cost"].as_u64().unwrap();
            let expected = oracle.take(cost, &take, Timestamp::from_micros(micros("at_ms")));
            let decision = &request["decision"];
            let (verdict, wait, retry) = match expected.verdict {
                Verdict::Allow { wait } => ("allow", wait.as_micros(), json!(0)),
                Verdict::Deny { retry_after } => ("deny", 0, json!(retry_after.as_micros())),
                Verdict::Never => ("never", 0, Value::Null),
            };
            let context = format!("{}, request {number}", file.display());
            assert_eq!(decision["verdict"], verdict, "{context}");
            assert_eq!((&decision["wait_us"], &decision["retry_after_us"]), (&json!(wait), &retry), "{context}");
            for (rule, (_, limit, remaining, reset)) in decision["rules"].as_array().unwrap().iter().zip(expected.rules)
            {
                assert_eq!(rule["limit"], limit, "{context}");
                assert_eq!(rule["remaining"], remaining, "{context}");
                assert_eq!(rule["reset_after_us"], reset.as_micros(), "{context}");
            }
            requests += 1;
        }
    }
    assert!(requests > 120, "{requests}");
}

#[test]
fn stores_and_wires_pass_the_conformance_vectors() {
    let (fixture, redis) = (Fixture::new(), RedisServer::start());
    let vectors = root().join("conformance/v1");
    assert_eq!(run_against(&fixture, "memory"), format!("{} passed, 0 failed, 0 skipped", self::vectors().len()));
    assert_eq!(run_against(&fixture, &redis.url()), format!("{} passed, 0 failed, 0 skipped", self::vectors().len()));

    let run = fixture.run(&["conformance", "rules", "--vectors", vectors.to_str().unwrap(), "--out", "rules"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let server = ServerProcess::start(&fixture, &["--rules", "rules"]);
    let over_http = run_against(&fixture, &format!("http://{}", server.http()));
    assert!(over_http.starts_with("10 passed, 0 failed, "), "{over_http}");
    let (_, resp) = server.line("resp").split_once("-p ").unwrap();
    let over_resp = run_against(&fixture, &format!("resp://127.0.0.1:{}", resp.split(' ').next().unwrap()));
    assert!(over_resp.starts_with("8 passed, 0 failed, "), "{over_resp}");
    // Once more: a run does not depend on earlier ones.
    assert_eq!(run_against(&fixture, &format!("http://{}", server.http())), over_http);
}

#[test]
fn conformance_run_names_what_differs() {
    let text = fs::read_to_string(root().join("conformance/v1/token_bucket.json")).unwrap();
    let wrong = text.replacen("\"remaining\":0", "\"remaining\":1", 1);
    assert_ne!(text, wrong);
    let fixture = Fixture::new().file("token_bucket.json", &wrong);
    let run = fixture.run(&["conformance", "run", "--against", "memory", "--vectors", "."]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let line = "FAIL  token_bucket: request 1 (take of u at 0 ms): remaining is 0, expected 1";
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), [line, "0 passed, 1 failed, 0 skipped"]);

    // A server without the rules is no failed vector.
    let server = ServerProcess::start(&fixture, &[]);
    let vectors = root().join("conformance/v1");
    let target = format!("http://{}", server.http());
    let run = fixture.run(&["conformance", "run", "--against", &target, "--vectors", vectors.to_str().unwrap()]);
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert!(run.stderr.contains("ratekeeper conformance rules --out DIR"), "{}", run.stderr);
}
