//! `docs/simulate.md` is run, and pages lead where they say.
//!
//! `TOLLGATE_RENEW=1 cargo test -p tollgate-cli docs` writes the page anew with what the commands print.

use std::{fs, path::PathBuf};

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

/// The pages at the root and in `docs`, each with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let folders = [root(), root().join("docs")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let pages = entries.filter(|path| path.extension().is_some_and(|end| end == "md"));
    pages.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut links = 0;
    for (page, text) in pages() {
        for target in text.split("](").skip(1).map(|rest| rest.split([')', '#']).next().unwrap()) {
            if target.is_empty() || target.contains("://") {
                continue;
            }
            assert!(page.with_file_name(target).exists(), "{} leads to {target}", page.display());
            links += 1;
        }
    }
    assert!(links >= 40, "only {links} links were found");
}

#[test]
fn the_readme_leads_to_every_page() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for (page, _) in pages() {
        let name = page.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        assert!(name == "README.md" || readme.contains(&format!("]({name})")), "{name}");
    }
}
