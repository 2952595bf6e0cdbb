//! Examples of docs/resp.md: loads its rules, runs its redis-cli commands, compares their output.
//!
//! `RATEKEEPER_RENEW=1 cargo test -p ratekeeper-server --test resp documented` rewrites the output on the page.

use std::{env, fs, path::Path, process::Command};

use ratekeeper_rules::{Format, read_str};
use ratekeeper_testkit::servers::{Part, require};

use crate::support::Server;

/// A command after `$`, and its expected output.
struct Example {
    words: Vec<String>,
    prints: String,
}

#[test]
fn the_examples_of_the_documentation_run() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/resp.md");
    let text = fs::read_to_string(&page).unwrap();
    let mut renewed = text.clone();
    let mut from = 0;
    let server = Server::start();
    let rules = blocks(&text, "yaml").concat();
    server.engine.load(read_str("docs/resp.md", &rules, Format::Yaml).map(|file| vec![file])).unwrap();
    let examples: Vec<Example> = blocks(&text, "console").iter().flat_map(|block| examples(block)).collect();
    assert!(examples.len() >= 10, "{} examples were found", examples.len());
    for Example { words, prints } in examples {
        let arguments = words.iter().skip(1).map(|word| if word == "6380" { server.port() } else { word.clone() });
        assert_eq!(words[0], "redis-cli");
        // The examples show terminal output, in which redis-cli numbers and quotes replies.
        let output = Command::new(require(Part::RedisCli)).arg("--no-raw").args(arguments).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        if env::var_os("RATEKEEPER_RENEW").is_some() {
            let command = format!("$ {}\n", words.join(" "));
            let start = from + renewed[from..].find(&command).unwrap() + command.len();
            renewed.replace_range(start..start + prints.len(), &format!("{}\n", printed.trim_end()));
            from = start;
            continue;
        }
        assert_eq!(printed.trim_end(), prints.trim_end(), "{}", words.join(" "));
    }
    if renewed != text {
        fs::write(page, renewed).unwrap();
    }
}

fn blocks(text: &str, language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    text.split(&start).skip(1).filter_map(|rest| rest.split_once("```")).map(|(block, _)| block.to_owned()).collect()
}

fn examples(block: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            let words = command.split_whitespace().map(str::to_owned).collect();
            examples.push(Example { words, prints: String::new() });
        } else if let Some(example) = examples.last_mut() {
            example.prints.push_str(line);
            example.prints.push('\n');
        }
    }
    examples
}
