//! Validation across rule files: domains, names and patterns that another file already has.

use std::collections::{HashMap, hash_map::Entry};

use crate::{
    FilePolicy, MAX_MATCH_ALL_POLICIES, MatchMode, Pattern, Problem, Problems, RuleFile, Rules,
    native::{pattern, too_many_for_all},
    tree::shown,
};

/// The files checked so far, by domain.
#[derive(Default)]
pub(crate) struct CrossFileCheck(HashMap<String, Shared>);

/// Names and patterns of one domain, with the locations of their policies.
struct Shared {
    /// The first file of the domain, for messages.
    file: String,
    /// Whether other files may add policies: true for the native format. In the Envoy format a domain has one file.
    open: bool,
    match_mode: MatchMode,
    names: HashMap<String, String>,
    patterns: HashMap<Pattern, String>,
}

impl CrossFileCheck {
    /// Adds a valid file. Returns its conflicts with the files before it.
    pub(crate) fn add(&mut self, file: &RuleFile) -> Option<Problems> {
        let open = matches!(file.rules, Rules::Policies(_));
        let shared = match self.0.entry(file.domain.clone()) {
            Entry::Occupied(taken) if !(open && taken.get().open) => return Some(second_home(file, &taken.get().file)),
            Entry::Occupied(taken) => taken.into_mut(),
            Entry::Vacant(free) => {
                let (names, patterns) = (HashMap::new(), HashMap::new());
                free.insert(Shared { file: file.file.clone(), open, match_mode: file.match_mode, names, patterns })
            }
        };
        if shared.match_mode != file.match_mode {
            return Some(of_the_mode(file, other_mode(file, &shared.file)));
        }
        let policies = shared.names.len() + file.policies().len();
        if file.match_mode == MatchMode::All && policies > MAX_MATCH_ALL_POLICIES {
            return Some(of_the_mode(file, too_many_for_all(policies)));
        }
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
        // Bounded, because a copy of a file has a problem in each of its policies.
        Problems::gather(problems.take(MOST_SHOWN).collect::<Vec<_>>())
    }
}

impl Shared {
    /// Adds a policy. On a conflict returns the field and the message.
    fn join(&mut self, entry: &FilePolicy, location: &str) -> Option<(&'static str, String)> {
        let name = entry.policy.name();
        if let Some(first) = self.names.get(name) {
            let name = shown(name);
            let message = format!("name is \"{name}\", which the policy in {first} has already; give each its own");
            return Some(("name", message));
        }
        self.names.insert(name.to_owned(), location.to_owned());
        for pattern in pattern::single(&entry.matcher) {
            let message = pattern::conflict(&pattern);
            if let Some(first) = self.patterns.insert(pattern, location.to_owned()) {
                return Some(("match", message(&first)));
            }
        }
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

fn other_mode(file: &RuleFile, first: &str) -> String {
    let word = |mode| if mode == MatchMode::All { "all" } else { "best" };
    let (found, wanted) = match file.match_mode {
        MatchMode::All => (MatchMode::All, MatchMode::Best),
        MatchMode::Best => (MatchMode::Best, MatchMode::All),
    };
    let (found, wanted, domain) = (word(found), word(wanted), shown(&file.domain));
    format!("match is {found}, but {first} has {wanted} for domain \"{domain}\"; use the same in all files of a domain")
}

/// A problem of the file's `match`.
fn of_the_mode(file: &RuleFile, message: String) -> Problems {
    Problems::from(Problem { file: file.file.clone(), line: 1, column: 1, field: "match".to_owned(), message })
}

/// The most conflicts that are reported for one file.
const MOST_SHOWN: usize = 200;
