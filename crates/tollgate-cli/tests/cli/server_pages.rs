//! `docs/http.md`, `docs/rules.md`, `docs/operations.md` and the README are run against a server of their own.
//!
//! The pages' clock stands still, so that no answer depends on how long a busy machine takes from one command to the next.
//! `TOLLGATE_RENEW=1 cargo test -p tollgate-cli server_pages` writes the pages anew.

use std::fs;

use tollgate_testkit::servers::{Part, RedisServer, require};

use crate::{
    desk::{Desk, root},
    page::Page,
    running::Running,
    serve::FREE,
};

#[test]
fn the_page_about_http_tells_the_truth() {
    is_true("docs/http.md", &Desk::new(), &[], 15);
}

#[test]
fn the_page_about_operations_tells_the_truth() {
    is_true("docs/operations.md", &Desk::new(), &[], 14);
}

/// The rule files that the page shows are those the server gets, each named after its domain.
#[test]
fn the_page_about_rules_tells_the_truth() {
    let page = fs::read_to_string(root().join("docs/rules.md")).unwrap();
    let mut desk = Desk::new();
    let mut words = Vec::new();
    for block in page.split("```yaml\n").skip(1) {
        let (text, _) = block.split_once("```").unwrap();
        let domain = text.strip_prefix("domain: ").unwrap().lines().next().unwrap();
        let name = format!("{domain}.yaml");
        desk = desk.file(&name, text);
        words.extend(["--rules".to_owned(), name]);
    }
    assert_eq!(words.len(), 4, "two files are shown");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    is_true("docs/rules.md", &desk, &words, 10);
}

/// The three lines of server, on a Redis of the test's own.
#[cfg(unix)]
#[test]
fn the_readme_tells_the_truth_about_the_server() {
    let (_, _) = (require(Part::Curl), require(Part::RedisCli));
    let (desk, redis) = (Desk::new(), RedisServer::start());
    std::os::unix::fs::symlink(root().join("rules"), desk.path("rules")).unwrap();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let line = readme.lines().find_map(|line| line.strip_prefix("    $ tollgate serve ")).unwrap();
    let (words, _) = line.split_once(" #").unwrap();
    let words = words.replace("redis://127.0.0.1:6379", &redis.url());
    let words: Vec<&str> = ["serve"].into_iter().chain(words.split_whitespace()).collect();
    // However busy the machine is, the store is waited for.
    let server = Running::launch(&desk, &words, &[&FREE[..], &[("TOLLGATE_STORE_DEADLINE", "20000")]].concat());

    let (_, resp) = server.line("resp").split_once("-p ").unwrap();
    // On a terminal the client numbers its answers, and that is what the page shows.
    let resp = format!("redis-cli --no-raw -p {}", resp.split(' ').next().unwrap());
    let meant = [("localhost:8080", server.http()), ("redis-cli -p 6380", &resp)];
    let momentary = ["\"at_ms\":"];
    Page { name: "README.md", desk: &desk, meant: &meant, momentary: &momentary, at_least: 2 }.is_true();
}

fn is_true(name: &str, desk: &Desk, words: &[&str], at_least: usize) {
    let _ = require(Part::Curl);
    let server = Running::at_rest(desk, words);
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
    Page { name, desk, meant: &meant, momentary: &momentary, at_least }.is_true();
}
