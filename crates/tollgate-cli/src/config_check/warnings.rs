//! What is odd in rule files without being wrong: it does no harm, and hardly what somebody meant.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use tollgate_core::Micros;
use tollgate_rules::{EnvoyDescriptor, Format, RuleFile, tell_moment};

use crate::report::{counted, shown};

/// Of all files, in their order; then of the directories they were looked for in.
pub(crate) fn all(files: &[RuleFile], paths: &[PathBuf]) -> Vec<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Micros(u64::try_from(now.as_micros()).unwrap_or(u64::MAX));
    let mut warnings = Vec::new();
    for file in files {
        overrides(file, now, &mut warnings);
        let mut names = HashSet::new();
        gather_names(file.descriptors(), &mut names);
        replaced(file, file.descriptors(), &names, &mut warnings);
    }
    paths.iter().for_each(|path| folders(path, paths, &mut warnings));
    if warnings.len() > MOST {
        let more = warnings.len() - MOST;
        warnings.truncate(MOST);
        warnings.push(format!("warning: and {}", counted(more, "more warning")));
    }
    warnings
}

/// An override whose time is over.
fn overrides(file: &RuleFile, now: Micros, warnings: &mut Vec<String>) {
    for one in file.policies().iter().flat_map(|entry| &entry.overrides) {
        let Some(until) = one.until.filter(|until| *until <= now) else { continue };
        let key = one.values.iter().map(|value| shown(value)).collect::<Vec<_>>().join(", ");
        warnings.push(format!(
            "{}:{}: warning: the override for {key} ended at {}; remove it, or give it a later until",
            file.file,
            one.line,
            tell_moment(until)
        ));
    }
}

fn gather_names<'f>(level: &'f [EnvoyDescriptor], names: &mut HashSet<&'f str>) {
    for descriptor in level {
        names.extend(descriptor.limit.iter().filter_map(|limit| limit.name.as_deref()));
        gather_names(&descriptor.descriptors, names);
    }
}

/// envoyproxy/ratelimit accepts names that no limit has, and they replace nothing there, either.
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

/// Rule files one level further down than anybody looks.
fn folders(path: &Path, named: &[PathBuf], warnings: &mut Vec<String>) {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path()).collect();
        found.retain(|it| !it.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")));
        found.sort();
        found
    };
    for folder in inside(path).into_iter().filter(|it| it.is_dir() && !named.contains(it)) {
        if inside(&folder).iter().any(|it| Format::of_path(it).is_some()) {
            let name = folder.display();
            warnings.push(format!(
                "{name}: warning: rule files in a directory inside a directory are not read; name it, too"
            ));
        }
    }
}

/// Somebody is to read them.
const MOST: usize = 200;
