//! `docs/http.md`, `docs/rules.md` and `docs/operations.md` are run against a server of their own.
//!
//! Its clock stands still, so that no answer depends on how long a busy machine takes from one command to the next.
//! `TOLLGATE_RENEW=1 cargo test -p tollgate-cli server_pages` writes the pages anew.

use std::fs;

use tollgate_testkit::servers::{Part, require};

use crate::{
    desk::{Desk, root},
    page::Page,
    running::Running,
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
