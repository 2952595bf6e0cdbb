//! Problems of a rule file: location, field and message.
//!
//! Problems are collected, so that one run reports all of them.
//!
//! Bound: [`MOST_SAID`] problems per file are reported; further ones are counted.

use std::{collections::HashSet, error::Error, fmt};

use crate::{
    location::{Location, Path},
    tree::TreeNode,
};

/// One problem: its location, the value found, and the remedy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The file name as given by the caller.
    pub file: String,
    /// The line, from 1; 0 if the file could not be read.
    pub line: usize,
    /// The column in characters, from 1; 0 if the file could not be read.
    pub column: usize,
    /// The path of the field, such as `policies[0].rules[1].limit`; empty if the problem concerns no single field.
    pub field: String,
    /// The value found and the remedy.
    pub message: String,
}

/// `rules/api.yaml:12:14: policies[0].rules[0].limit: limit is 0, which refuses every request; use 1 or more`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// All problems of one or several files, in the order of files and lines. Never empty.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// The problems in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// The number of problems.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The problem of a file that could not be read.
    pub(crate) fn unreadable(file: impl Into<String>, message: impl Into<String>) -> Self {
        let (file, message) = (file.into(), message.into());
        Self::from(Problem { file, line: 0, column: 0, field: String::new(), message })
    }

    pub(crate) fn gather(lists: impl IntoIterator<Item = Self>) -> Option<Self> {
        let all: Vec<Problem> = lists.into_iter().flatten().collect();
        if all.is_empty() { None } else { Some(Self(all)) }
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// One problem per line.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for Problems {}

/// Collects the problems of one file.
#[derive(Debug)]
pub(crate) struct Report {
    file: String,
    problems: Vec<Problem>,
    /// Number of problems beyond [`MOST_SAID`], which are not reported.
    unsaid: usize,
    /// Paths of fields that are missing because their name is misspelt, which has been reported.
    excused: HashSet<String>,
    /// Whether an empty field counts as missing. If not, the deserializer reports it.
    pub(crate) empty_is_missing: bool,
}

impl Report {
    pub(crate) fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            problems: Vec::new(),
            unsaid: 0,
            excused: HashSet::new(),
            empty_is_missing: false,
        }
    }

    pub(crate) fn add(&mut self, location: Location, path: &Path, message: impl Into<String>) {
        if self.problems.len() >= MOST_SAID {
            self.unsaid += 1;
            return;
        }
        self.problems.push(Problem {
            file: self.file.clone(),
            line: location.line,
            column: location.column,
            field: path.to_string(),
            message: message.into(),
        });
    }

    pub(crate) fn count(&self) -> usize {
        self.problems.len() + self.unsaid
    }

    pub(crate) fn excuse(&mut self, path: &Path) {
        self.excused.insert(path.to_string());
    }

    /// Reports a required field that is missing in this mapping. Does nothing if the field is present: it is valid, or
    /// its problem is reported elsewhere.
    pub(crate) fn missing(&mut self, mapping: Spot<'_>, field: &str, message: impl Into<String>) {
        let path = mapping.path.key(field);
        let location = match mapping.node.get(field) {
            None => mapping.node.location,
            Some(empty) if self.empty_is_missing && empty.is_null() => empty.location,
            Some(_) => return,
        };
        if !self.excused.contains(&path.to_string()) {
            self.add(location, &path, message);
        }
    }

    pub(crate) fn finish(mut self) -> Option<Problems> {
        // A stable sort: several problems of one value stay in the order in which they were found.
        self.problems.sort_by_key(|problem| (problem.line, problem.column));
        if self.unsaid > 0
            && let Some(last) = self.problems.last()
        {
            let message = format!("{} more problems, which are not shown; mend these first", self.unsaid);
            self.problems.push(Problem { field: String::new(), message, ..last.clone() });
        }
        if self.problems.is_empty() { None } else { Some(Problems(self.problems)) }
    }
}

/// A value and its path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    pub(crate) node: &'a TreeNode,
    pub(crate) path: &'a Path,
}

impl Spot<'_> {
    pub(crate) fn has(&self, field: &str) -> bool {
        self.node.get(field).is_some()
    }

    /// Reports a problem at the value of a field, or at the mapping if the field is absent.
    pub(crate) fn blame(&self, field: &str, report: &mut Report, message: impl Into<String>) {
        let location = self.node.get(field).map_or(self.node.location, |value| value.location);
        report.add(location, &self.path.key(field), message);
    }

    /// Reports a problem at the name of a field, for fields that should be absent.
    pub(crate) fn blame_key(&self, field: &str, report: &mut Report, message: impl Into<String>) {
        let location = self.node.entry(field).map_or(self.node.location, |entry| entry.key_location);
        report.add(location, &self.path.key(field), message);
    }
}

/// The most problems of one file that are reported. Bounds log lines and the dashboard.
const MOST_SAID: usize = 1_000;
