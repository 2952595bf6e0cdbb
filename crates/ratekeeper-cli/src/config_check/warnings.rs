//! Warnings about rule files: valid, but probably not what was meant.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use ratekeeper_core::Timestamp;
use ratekeeper_rules::{EnvoyDescriptor, Format, RuleFile, format_timestamp};

use super::{precedence, speed};
use crate::report::{counted, shown};

/// The warnings of all files, in their order, then those of the directories.
pub(crate) fn all(files: &[RuleFile], paths: &[PathBuf]) -> Vec<String> {
    let now = SystemTime::now().into();
    let mut warnings = Vec::new();
    for file in files {
        overrides(file, now, &mut warnings);
        speed::warn(file, &mut warnings);
        precedence::warn(file, &mut warnings);
        let mut names = HashSet::new();
        gather_names(file.descriptors(), &mut names);
        replaced(file, file.descriptors(), &names, &mut warnings);
    }
    paths.iter().for_each(|path| directories(path, paths, &mut warnings));
    if warnings.len() > MAX_WARNINGS {
        let more = warnings.len() - MAX_WARNINGS;
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("warning: and {}", counted(more, "more warning")));
    }
    warnings
}

/// Overrides that have ended.
fn overrides(file: &RuleFile, now: Timestamp, warnings: &mut Vec<String>) {
    for entry in file.policies().iter().flat_map(|policy| &policy.overrides) {
        let Some(until) = entry.until.filter(|until| *until <= now) else { continue };
        let key = entry.values.iter().map(|value| shown(value)).collect::<Vec<_>>().join(", ");
        warnings.push(format!(
            "{}:{}: warning: the override for {key} ended at {}; remove it, or give it a later until",
            file.file,
            entry.line,
            format_timestamp(until)
        ));
    }
}

fn gather_names<'f>(level: &'f [EnvoyDescriptor], names: &mut HashSet<&'f str>) {
    for descriptor in level {
        names.extend(descriptor.limit.iter().filter_map(|limit| limit.name.as_deref()));
        gather_names(&descriptor.descriptors, names);
    }
}

/// Names in `replaces` that no limit has. envoyproxy/ratelimit accepts and ignores them.
fn replaced(file: &RuleFile, level: &[EnvoyDescriptor], names: &HashSet<&str>, warnings: &mut Vec<String>) {
    for descriptor in level {
        for name in descriptor.limit.iter().flat_map(|limit| &limit.replaces) {
            if !names.contains(name.as_str()) {
                let (file, line, name) = (&file.file, descriptor.line, shown(name));
                warnings
                    .push(format!("{file}:{line}: warning: replaces {name}, but no limit of this file has that name"));
            }
        }
        replaced(file, &descriptor.descriptors, names, warnings);
    }
}

/// Rule files in subdirectories, which are not read.
fn directories(path: &Path, named: &[PathBuf], warnings: &mut Vec<String>) {
    let inside = |directory: &Path| -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> =
            fs::read_dir(directory).into_iter().flatten().flatten().map(|it| it.path()).collect();
        found.retain(|it| !it.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")));
        found.sort();
        found
    };
    for directory in inside(path).into_iter().filter(|it| it.is_dir() && !named.contains(it)) {
        if inside(&directory).iter().any(|it| Format::of_path(it).is_some()) {
            let name = directory.display();
            warnings.push(format!(
                "{name}: warning: rule files in a directory inside a directory are not read; name it, too"
            ));
        }
    }
}

/// Bounds the length of the output.
const MAX_WARNINGS: usize = 200;
