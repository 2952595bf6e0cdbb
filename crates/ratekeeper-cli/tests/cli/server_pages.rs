//! Executes the pages about the server and the README, each against a separate server.
//!
//! The server's clock hardly advances, so that no output depends on how long a busy machine takes between two commands.
//! `RATEKEEPER_RENEW=1 cargo test -p ratekeeper-cli server_pages` rewrites the pages.

use std::fs;

use ratekeeper_testkit::servers::{Part, RedisServer, require};

use crate::{
    doc_page::Page,
    fixture::{Fixture, root},
    serve::FREE,
    server_process::ServerProcess,
};

#[test]
fn the_page_about_http_is_executable() {
    check("docs/http.md", &Fixture::new(), &[], 15);
}

#[test]
fn the_page_about_running_a_server_is_executable() {
    check("docs/running.md", &Fixture::new(), &[], 3);
}

#[test]
fn the_page_about_monitoring_is_executable() {
    check("docs/monitoring.md", &Fixture::new(), &[], 8);
}

#[test]
fn the_page_about_switches_is_executable() {
    check("docs/switches.md", &Fixture::new(), &[], 8);
}

#[test]
fn the_page_about_troubleshooting_is_executable() {
    check("docs/troubleshooting.md", &Fixture::new(), &[], 6);
}

#[test]
fn the_tutorial_is_executable() {
    with_its_rules("docs/tutorial.md", 1, 13);
}

#[test]
fn the_page_about_retries_is_executable() {
    with_its_rules("docs/retries.md", 1, 10);
}

#[test]
fn the_page_about_rules_is_executable() {
    with_its_rules("docs/rules.md", 6, 15);
}

/// Executes a page on a server with the rule files that the page shows, each named after its domain.
fn with_its_rules(name: &str, files: usize, at_least: usize) {
    let page = fs::read_to_string(root().join(name)).unwrap();
    let mut fixture = Fixture::new();
    let mut arguments = Vec::new();
    for block in page.split("```yaml\n").skip(1) {
        let (text, _) = block.split_once("```").unwrap();
        let domain = text.strip_prefix("domain: ").unwrap().lines().next().unwrap();
        let file = format!("{domain}.yaml");
        fixture = fixture.file(&file, text);
        arguments.extend(["--rules".to_owned(), file]);
    }
    assert_eq!(arguments.len(), 2 * files, "{name}");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    check(name, &fixture, &arguments, at_least);
}

/// The lines about the server, with a Redis server started for the test.
#[cfg(unix)]
#[test]
fn the_server_part_of_the_readme_is_executable() {
    let (_, _) = (require(Part::Curl), require(Part::RedisCli));
    let (fixture, redis) = (Fixture::new(), RedisServer::start());
    std::os::unix::fs::symlink(root().join("rules"), fixture.path("rules")).unwrap();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let line = readme.lines().find_map(|line| line.strip_prefix("    $ ratekeeper serve ")).unwrap();
    let (words, _) = line.split_once(" #").unwrap();
    let words = words.replace("redis://127.0.0.1:6379", &redis.url());
    let words: Vec<&str> = ["serve"].into_iter().chain(words.split_whitespace()).collect();
    // A deadline that a busy machine does not miss.
    let server =
        ServerProcess::launch(&fixture, &words, &[&FREE[..], &[("RATEKEEPER_STORE_DEADLINE", "20000")]].concat());

    let (_, resp) = server.line("resp").split_once("-p ").unwrap();
    // The page shows replies as on a terminal, numbered.
    let resp = format!("redis-cli --no-raw -p {}", resp.split(' ').next().unwrap());
    let meant = [("localhost:8080", server.http()), ("redis-cli -p 6380", &resp)];
    let momentary = ["\"at_ms\":"];
    Page { name: "README.md", fixture: &fixture, meant: &meant, momentary: &momentary, at_least: 2 }.check();
}

fn check(name: &str, fixture: &Fixture, words: &[&str], at_least: usize) {
    let _ = require(Part::Curl);
    let server = ServerProcess::with_slow_clock(fixture, words);
    let meant = [("127.0.0.1:8080", server.http()), ("127.0.0.1:9090", server.admin())];
    let momentary = [
        "\"at_ms\":",
        "\"retry_after_us\":",
        "\"reset_after_us\":",
        "\"lease\":",
        "\"expires_in_seconds\":",
        "passes after ",
        "retry-after: ",
        ";t=",
        "up ",
        " keys, ",
    ];
    Page { name, fixture, meant: &meant, momentary: &momentary, at_least }.check();
}
