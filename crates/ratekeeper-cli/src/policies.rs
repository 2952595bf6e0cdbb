//! Selection of policies from a rule file.

use std::path::Path;

use ratekeeper_core::Policy;
use ratekeeper_rules::{Allowance, EnvoyDescriptor, RuleFile, read_path};

use crate::report::Failure;

/// A policy and the default cost of its requests.
#[derive(Clone, Debug)]
pub(crate) struct SelectedPolicy {
    pub(crate) policy: Policy,
    pub(crate) cost: u64,
}

/// Every policy of a rule file.
pub(crate) fn all(file: &Path) -> Result<Vec<SelectedPolicy>, Failure> {
    let rules = read_path(file).map_err(Failure::Rules)?;
    let found = gather(&rules);
    if found.is_empty() { Err(Failure::NothingLimited { file: rules.file }) } else { Ok(found) }
}

/// The named policy, or the only one of the file.
pub(crate) fn one(file: &Path, name: Option<&str>) -> Result<SelectedPolicy, Failure> {
    let mut found = all(file)?;
    let names = |found: &[SelectedPolicy]| found.iter().map(|selected| selected.policy.name().to_owned()).collect();
    let file = file.display().to_string();
    match name {
        None if found.len() == 1 => Ok(found.remove(0)),
        None => Err(Failure::WhichPolicy { file, names: names(&found) }),
        Some(name) => match found.iter().position(|selected| selected.policy.name() == name) {
            Some(position) => Ok(found.swap_remove(position)),
            None => Err(Failure::NoSuchPolicy { file, name: name.to_owned(), names: names(&found) }),
        },
    }
}

pub(crate) fn gather(rules: &RuleFile) -> Vec<SelectedPolicy> {
    let native = rules.policies().iter().map(|entry| SelectedPolicy { policy: entry.policy.clone(), cost: entry.cost });
    let mut found: Vec<SelectedPolicy> = native.collect();
    for descriptor in rules.descriptors() {
        gather_below(descriptor, &mut found);
    }
    found
}

/// In the format of envoyproxy/ratelimit each limit is a policy of one rule, named after its path.
fn gather_below(descriptor: &EnvoyDescriptor, found: &mut Vec<SelectedPolicy>) {
    if let Some(Allowance::Limited { policy, .. }) = descriptor.limit.as_ref().map(|limit| &limit.allowance) {
        found.push(SelectedPolicy { policy: policy.clone(), cost: 1 });
    }
    for child in &descriptor.descriptors {
        gather_below(child, found);
    }
}
