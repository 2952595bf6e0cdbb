//! Validation errors of quotas, rules and policies: the field, the value found, the remedy.

use thiserror::Error;

/// One mistake in a rule.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("rule \"{rule}\": {problem}")]
#[non_exhaustive]
pub struct RuleError {
    /// The rule's name, as given.
    pub rule: String,
    /// The mistake.
    pub problem: Problem,
}

/// A field that cannot stay as it is.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{field} is {found}, {why}; {remedy}")]
#[non_exhaustive]
pub struct Problem {
    /// The field's name in a rule file and in the builder.
    pub field: &'static str,
    /// The value found there.
    pub found: String,
    /// What is wrong with it.
    pub why: &'static str,
    /// What would be accepted.
    pub remedy: String,
}

impl Problem {
    pub(crate) fn new(field: &'static str, found: impl ToString, why: &'static str, remedy: impl Into<String>) -> Self {
        Self { field, found: found.to_string(), why, remedy: remedy.into() }
    }
}

/// A policy that cannot be built.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PolicyError {
    /// One of its rules is wrong.
    #[error("policy \"{policy}\": {error}")]
    Rule {
        /// The policy's name.
        policy: String,
        /// Position of the rule in the list.
        index: usize,
        /// What is wrong with the rule.
        error: Box<RuleError>,
    },
    /// Two rules share a name, so an answer could not say which of them decided.
    #[error("policy \"{policy}\": two rules are named \"{rule}\"; give each its own name")]
    DuplicateRule {
        /// The policy's name.
        policy: String,
        /// Position of the second one.
        index: usize,
        /// The shared name.
        rule: String,
    },
    /// No rule at all: every request would pass, which is rarely meant.
    #[error("policy \"{policy}\" has no rules; add one, or leave the policy out to admit everything")]
    NoRules {
        /// The policy's name.
        policy: String,
    },
    /// More rules than one step should decide.
    #[error("policy \"{policy}\" has {found} rules; {max} is the most that are decided in one step")]
    TooManyRules {
        /// The policy's name.
        policy: String,
        /// How many were given.
        found: usize,
        /// How many are accepted.
        max: usize,
    },
    /// The policy's own name cannot be used.
    #[error("policy name {0}")]
    Name(Problem),
}
