//! `docs/simulate.md` is executed; links, anchors and file names on all pages are checked.
//!
//! `RATEKEEPER_RENEW=1 cargo test -p ratekeeper-cli docs` rewrites the page with the actual output.

use std::{fs, path::PathBuf};

use crate::{
    doc_page::Page,
    fixture::{Fixture, root},
};

/// Longest line of a page.
const MAX_WIDTH: usize = 160;

/// In a directory with the rules and examples of the repository.
#[cfg(unix)]
#[test]
fn the_page_about_simulate_is_executable() {
    let fixture = Fixture::new();
    for folder in ["rules", "examples"] {
        std::os::unix::fs::symlink(root().join(folder), fixture.path(folder)).unwrap();
    }
    Page { name: "docs/simulate.md", fixture: &fixture, meant: &[], momentary: &[], at_least: 8 }.check();
}

/// Commands of the README that need no server, in a directory with the files of the repository.
#[cfg(unix)]
#[test]
fn commands_of_the_readme_succeed() {
    let fixture = Fixture::new();
    for folder in ["rules", "examples"] {
        std::os::unix::fs::symlink(root().join(folder), fixture.path(folder)).unwrap();
    }
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let commands = readme.lines().filter_map(|line| line.strip_prefix("    $ cargo run --release -- "));
    let mut ran = 0;
    for command in commands.filter(|command| !command.starts_with("serve") && !command.starts_with("doctor")) {
        let arguments: Vec<&str> = command.split('#').next().unwrap().split_whitespace().collect();
        let run = fixture.run(&arguments);
        assert_eq!(run.code, 0, "{command}: {}", run.stderr);
        ran += 1;
    }
    assert!(ran >= 4, "only {ran} commands were found");
}

/// The README of the library crate is a compiled example; the first lines of the root README are the same.
#[test]
fn the_first_example_of_the_readme_is_compiled() {
    let [readme, compiled] =
        ["README.md", "crates/ratekeeper/README.md"].map(|name| fs::read_to_string(root().join(name)).unwrap());
    let (_, block) = readme.split_once("```rust\n").unwrap();
    let lines = block.lines().take_while(|line| !line.starts_with("match"));
    let code = |line: &str| line.split("//").next().unwrap().trim().to_owned();
    let compiled: Vec<String> = compiled.lines().map(code).collect();
    let lines: Vec<String> = lines.map(code).filter(|line| !line.is_empty()).collect();
    assert!(lines.len() >= 5, "{lines:?}");
    for line in lines {
        assert!(compiled.contains(&line), "{line}");
    }
}

/// Each sample trace has a rule file next to it or in rules/good, and is mentioned on the page.
#[test]
fn every_sample_trace_is_on_the_page() {
    let page = fs::read_to_string(root().join("docs/simulate.md")).unwrap();
    let mut traces = 0;
    for entry in fs::read_dir(root().join("examples/traces")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if let Some(trace) = name.strip_suffix(".csv") {
            assert!(page.contains(&name), "{name}");
            let rules = path.with_file_name(format!("{trace}.rules.yaml"));
            let sample = root().join(format!("rules/good/{trace}.yaml"));
            assert!(rules.exists() || sample.exists(), "{name}");
            traces += 1;
        }
    }
    assert!(traces >= 6);
}

/// The pages at the root and in `docs`, each with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let directories = [root(), root().join("docs")];
    let entries =
        directories.iter().flat_map(|directory| fs::read_dir(directory).unwrap()).map(|entry| entry.unwrap().path());
    let pages = entries.filter(|path| path.extension().is_some_and(|end| end == "md"));
    pages.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Every link has a target: a file, and a heading in it if the link has an anchor.
#[test]
fn links_between_pages_have_targets() {
    let (mut links, mut anchors) = (0, 0);
    for (page, text) in pages() {
        for target in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            assert!(file.exists(), "{} links to {target}", page.display());
            links += 1;
            if !anchor.is_empty() {
                let text = fs::read_to_string(&file).unwrap();
                assert!(headings(&text).any(|heading| heading == anchor), "{} links to {target}", page.display());
                anchors += 1;
            }
        }
    }
    assert!(links >= 40 && anchors >= 15, "only {links} links with {anchors} anchors were found");
}

/// The anchors of a page's headings: lower case, words joined by hyphens, punctuation left out.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        title.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    })
}

/// Prose, tables and output are wrapped or short enough to read without scrolling. Commands and configurations in blocks may
/// be longer, because some cannot be wrapped.
#[test]
fn pages_have_no_overlong_lines() {
    for (page, text) in pages() {
        let mut is_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            is_code ^= line.starts_with("```");
            let is_input = is_code && (line.starts_with("$ ") || line.starts_with("  http-request "));
            let width = line.chars().count();
            assert!(is_input || width <= MAX_WIDTH, "{}:{number}: {width} columns, above {MAX_WIDTH}", page.display());
        }
    }
}

#[test]
fn the_index_links_every_page_and_the_readme_links_the_index() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("](docs/README.md)"));
    let index = fs::read_to_string(root().join("docs/README.md")).unwrap();
    for (page, _) in pages() {
        let name = page.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let link = name.strip_prefix("docs/").map_or_else(|| format!("../{name}"), str::to_owned);
        // The index itself, and the table of contents of the book.
        let is_contents = ["docs/README.md", "docs/SUMMARY.md"].contains(&&*name);
        assert!(is_contents || index.contains(&format!("]({link})")), "{name}");
    }
}

/// Source files in backticks, with the prefix of the crates left out (`core/src/policy.rs`) or in full.
#[test]
fn files_named_in_the_guides_exist() {
    let mut files = 0;
    for guide in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(guide)).unwrap();
        for name in text.split('`').skip(1).step_by(2) {
            let is_source = [".rs", ".lua"].iter().any(|end| name.ends_with(end)) && name.contains("/src/")
                || name.contains("/lua/")
                || name.contains("/tests/");
            if !is_source || name.contains([' ', '<', '…']) || name.contains("nightly") || name.contains("memcached")
            {
                continue;
            }
            let (first, rest) = name.split_once('/').unwrap();
            let file = match first {
                "crates" | "scripts" => root().join(name),
                "ratekeeper" => root().join("crates/ratekeeper").join(rest),
                _ => root().join(format!("crates/ratekeeper-{first}")).join(rest),
            };
            assert!(file.exists(), "{guide} names {name}");
            files += 1;
        }
    }
    assert!(files >= 40, "only {files} files were found");
}
