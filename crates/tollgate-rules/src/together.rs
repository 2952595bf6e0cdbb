//! What only several files together can get wrong: a name or a pattern that another file has already.

use std::collections::{HashMap, hash_map::Entry};

use crate::{MatchValue, PolicyEntry, Problem, Problems, RuleFile, Rules, tree::shown};

/// The files so far, by domain.
#[derive(Default)]
pub(crate) struct Together(HashMap<String, Shared>);

/// A domain that may grow with the next file.
struct Shared {
    /// The first file, for a message.
    file: String,
    /// Whether policies may join; descriptors are a tree, which has one root.
    open: bool,
    names: HashMap<String, String>,
    patterns: HashMap<Vec<(String, MatchValue)>, String>,
}

impl Together {
    /// Adds a file that has no mistake of its own.
    pub(crate) fn add(&mut self, file: &RuleFile) -> Option<Problems> {
        let open = matches!(file.rules, Rules::Policies(_));
        let shared = match self.0.entry(file.domain.clone()) {
            Entry::Occupied(taken) if !(open && taken.get().open) => return Some(second_home(file, &taken.get().file)),
            Entry::Occupied(taken) => taken.into_mut(),
            Entry::Vacant(free) => {
                let (names, patterns) = (HashMap::new(), HashMap::new());
                free.insert(Shared { file: file.file.clone(), open, names, patterns })
            }
        };
        let problems = file.policies().iter().enumerate().filter_map(|(index, entry)| {
            let (field, message) = shared.join(entry, &format!("{}:{}", file.file, entry.line))?;
            let field = format!("policies[{index}].{field}");
            Some(Problems::from(Problem {
                file: file.file.clone(),
                line: entry.line,
                column: entry.column,
                field,
                message,
            }))
        });
        // One file put beside itself under another name has a problem in each of its policies.
        Problems::gather(problems.take(MOST_SHOWN).collect::<Vec<_>>())
    }
}

impl Shared {
    /// Takes a policy in; or a field of it and what is wrong there.
    fn join(&mut self, entry: &PolicyEntry, place: &str) -> Option<(&'static str, String)> {
        let name = entry.policy.name();
        if let Some(first) = self.names.get(name) {
            let name = shown(name);
            let message = format!("name is \"{name}\", which the policy in {first} has already; give each its own");
            return Some(("name", message));
        }
        self.names.insert(name.to_owned(), place.to_owned());
        // The order of entries makes no difference.
        let mut pattern = entry.matcher.clone();
        pattern.sort();
        if let Some(first) = self.patterns.get(&pattern) {
            let message = if pattern.is_empty() {
                format!("matches everything, as does the policy in {first}; give one of them a pattern")
            } else {
                format!("the same pattern as the policy in {first}, so neither could win; change one, or join them")
            };
            return Some(("match", message));
        }
        self.patterns.insert(pattern, place.to_owned());
        None
    }
}

fn second_home(file: &RuleFile, first: &str) -> Problems {
    let domain = shown(&file.domain);
    let message = format!(
        "domain \"{domain}\" is described in {first} already; descriptors stand in one file for each domain, without \
         policies"
    );
    Problems::from(Problem { file: file.file.clone(), line: 1, column: 1, field: "domain".to_owned(), message })
}

/// Whoever mends these sees what the others have in common.
const MOST_SHOWN: usize = 200;
