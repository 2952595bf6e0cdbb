//! `docs/simulate.md` is run: every command in a console block must print what stands below it.
//!
//! `TOLLGATE_RENEW=1 cargo test -p tollgate-cli docs` writes the page anew with what the commands print.

use std::fs;

use crate::{
    desk::{Desk, root},
    page::Page,
};

/// In a folder where the examples lie as they do in the repository.
#[cfg(unix)]
#[test]
fn the_page_about_simulate_tells_the_truth() {
    let desk = Desk::new();
    std::os::unix::fs::symlink(root().join("examples"), desk.path("examples")).unwrap();
    Page { name: "docs/simulate.md", desk: &desk, meant: &[], momentary: &[], at_least: 8 }.is_true();
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
