//! `docs/simulate.md` is run: every command in a console block must print what stands below it.
//!
//! `TOLLGATE_RENEW=1 cargo test -p tollgate-cli docs` writes the page anew with what the commands print.

use std::{env, fs, path::Path, process::Command};

use crate::desk::{Desk, root};

/// A shell in a folder where the examples lie as they do in the repository, with our command on its path.
fn shell(desk: &Desk, command: &str) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), env::var("PATH").unwrap_or_default());
    let run = Command::new("sh").args(["-c", command]).env("PATH", path).current_dir(desk.path("")).output().unwrap();
    String::from_utf8(run.stdout).unwrap() + &String::from_utf8(run.stderr).unwrap()
}

#[cfg(unix)]
#[test]
fn the_page_about_simulate_tells_the_truth() {
    let desk = Desk::new();
    std::os::unix::fs::symlink(root().join("examples"), desk.path("examples")).unwrap();
    let file = root().join("docs/simulate.md");
    let page = fs::read_to_string(&file).unwrap();
    let (mut renewed, mut console, mut commands) = (String::new(), false, 0);
    for line in page.lines() {
        if let Some(command) = line.strip_prefix("$ ").filter(|_| console) {
            renewed.push_str(&format!("{line}\n{}", shell(&desk, command)));
            commands += 1;
            continue;
        }
        let fence = line.starts_with("```");
        // What a command printed last time is replaced by what it prints now.
        if !console || fence {
            renewed.push_str(line);
            renewed.push('\n');
        }
        console = if fence { line == "```console" } else { console };
    }
    assert!(commands >= 8, "only {commands} commands were found");
    if env::var_os("TOLLGATE_RENEW").is_some() {
        fs::write(&file, &renewed).unwrap();
    } else {
        assert_eq!(page, renewed, "TOLLGATE_RENEW=1 writes the page anew");
    }
}

/// Each sample trace has its rules beside it or among the sample rules, and the page has a word about it.
#[test]
fn every_sample_trace_is_on_the_page() {
    let page = fs::read_to_string(root().join("docs/simulate.md")).unwrap();
    let mut traces = 0;
    for entry in fs::read_dir(root().join("examples/traces")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if let Some(trace) = name.strip_suffix(".csv") {
            assert!(page.contains(&name), "{name}");
            let beside = path.with_file_name(format!("{trace}.rules.yaml"));
            let among_samples = root().join(format!("rules/good/{trace}.yaml"));
            assert!(beside.exists() || among_samples.exists(), "{name}");
            traces += 1;
        }
    }
    assert!(traces >= 6);
}
