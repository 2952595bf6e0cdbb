//! Which policies of a rule file a command is about.

use std::path::Path;

use tollgate_core::Policy;
use tollgate_rules::{Allowance, EnvoyDescriptor, RuleFile, read_path};

use crate::report::Failure;

/// A policy and what a request costs that does not say.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) policy: Policy,
    pub(crate) cost: u64,
}

/// Every policy of a rule file.
pub(crate) fn all(file: &Path) -> Result<Vec<Chosen>, Failure> {
    let rules = read_path(file).map_err(Failure::Rules)?;
    let found = gather(&rules);
    if found.is_empty() { Err(Failure::NothingLimited { file: rules.file }) } else { Ok(found) }
}

/// The one that is named, or the only one there is.
pub(crate) fn one(file: &Path, name: Option<&str>) -> Result<Chosen, Failure> {
    let mut found = all(file)?;
    let names = |found: &[Chosen]| found.iter().map(|chosen| chosen.policy.name().to_owned()).collect();
    let file = file.display().to_string();
    match name {
        None if found.len() == 1 => Ok(found.remove(0)),
        None => Err(Failure::WhichPolicy { file, names: names(&found) }),
        Some(name) => match found.iter().position(|chosen| chosen.policy.name() == name) {
            Some(position) => Ok(found.swap_remove(position)),
            None => Err(Failure::NoSuchPolicy { file, name: name.to_owned(), names: names(&found) }),
        },
    }
}

pub(crate) fn gather(rules: &RuleFile) -> Vec<Chosen> {
    let native = rules.policies().iter().map(|entry| Chosen { policy: entry.policy.clone(), cost: entry.cost });
    let mut found: Vec<Chosen> = native.collect();
    for descriptor in rules.descriptors() {
        gather_below(descriptor, &mut found);
    }
    found
}

/// In the form of envoyproxy/ratelimit each limit is a policy of one rule, named after the way to it.
fn gather_below(descriptor: &EnvoyDescriptor, found: &mut Vec<Chosen>) {
    if let Some(Allowance::Limited { policy, .. }) = descriptor.limit.as_ref().map(|limit| &limit.allowance) {
        found.push(Chosen { policy: policy.clone(), cost: 1 });
    }
    for below in &descriptor.descriptors {
        gather_below(below, found);
    }
}
