//! `docs/http.md`, `docs/rules.md` and `docs/operations.md` are run: every command in a console block is sent to a server,
//! and must print what stands below it. Moments and leases may differ; everything else may not.
//!
//! `TOLLGATE_RENEW=1 cargo test -p tollgate-cli server_pages` writes the pages anew.

use std::{env, fs, path::Path, process::Command};

use crate::{
    desk::{Desk, root},
    running::Running,
};

#[test]
fn the_page_about_http_tells_the_truth() {
    is_true("docs/http.md", &Desk::new(), &[], 12);
}

#[test]
fn the_page_about_operations_tells_the_truth() {
    is_true("docs/operations.md", &Desk::new(), &[], 12);
}

#[test]
fn the_page_about_rules_tells_the_truth() {
    let page = fs::read_to_string(root().join("docs/rules.md")).unwrap();
    let files: Vec<&str> = page.split("```yaml\n").skip(1).map(|part| part.split("```").next().unwrap()).collect();
    assert!(files.len() >= 2);
    let mut desk = Desk::new();
    let mut words = Vec::new();
    for (index, file) in files.iter().enumerate() {
        desk = desk.file(&format!("{index}.yaml"), file);
        words.extend(["--rules".to_owned(), format!("{index}.yaml")]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    is_true("docs/rules.md", &desk, &words, 6);
}

fn is_true(name: &str, desk: &Desk, words: &[&str], at_least: usize) {
    let server = Running::start(desk, words);
    let file = root().join(name);
    let page = fs::read_to_string(&file).unwrap();
    let (mut renewed, mut console, mut commands) = (String::new(), false, 0);
    for line in page.lines() {
        if let Some(command) = line.strip_prefix("$ ").filter(|_| console) {
            renewed.push_str(&format!("{line}\n{}", shell(desk, &server, command)));
            commands += 1;
            continue;
        }
        let fence = line.starts_with("```");
        if !console || fence {
            renewed.push_str(line);
            renewed.push('\n');
        }
        console = if fence { line == "```console" } else { console };
    }
    assert!(commands >= at_least, "only {commands} commands were found");
    if env::var_os("TOLLGATE_RENEW").is_some() {
        fs::write(&file, &renewed).unwrap();
    } else {
        assert_eq!(timeless(&page), timeless(&renewed), "TOLLGATE_RENEW=1 writes the page anew");
    }
}

/// The page names the usual ports; this server has others.
fn shell(desk: &Desk, server: &Running, command: &str) -> String {
    let command = command.replace("127.0.0.1:8080", &server.http).replace("127.0.0.1:9090", &server.admin);
    let bin = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), env::var("PATH").unwrap_or_default());
    let run = Command::new("sh").args(["-c", &command]).env("PATH", path).current_dir(desk.path("")).output().unwrap();
    String::from_utf8(run.stdout).unwrap() + &String::from_utf8(run.stderr).unwrap()
}

/// Without the numbers that depend on when they were asked for.
fn timeless(page: &str) -> String {
    let mut text = page.to_owned();
    for field in ["at_ms", "retry_after_us", "reset_after_us", "lease", "passes after ", "retry-after: ", ";t"] {
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some(place) = rest.find(field) {
            let (before, after) = rest.split_at(place + field.len());
            out.push_str(before);
            let start = after.find(|c: char| c.is_ascii_digit()).filter(|start| *start <= 3).unwrap_or(0);
            let number = &after[start..];
            let end = number.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(number.len());
            // Whether it is 0 does not depend on the moment.
            out.push_str(&after[..start]);
            out.push_str(if number[..end] == *"0" { "0" } else { "#" });
            rest = &number[end..];
        }
        out.push_str(rest);
        text = out;
    }
    text
}
