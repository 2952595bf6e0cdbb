//! What is wrong with a rule file, told to the person who wrote it.
//!
//! Problems are collected rather than thrown: whoever fixes a file wants to see all of them at once.

use std::{collections::HashSet, error::Error, fmt};

use crate::{
    place::{Path, Place},
    tree::Node,
};

/// One mistake: where it is, what was found there, and what would do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The file, as it was named by the caller.
    pub file: String,
    /// The line, from 1; 0 when the file could not be read at all.
    pub line: usize,
    /// The column in characters, from 1; 0 when the file could not be read at all.
    pub column: usize,
    /// The field, like `policies[0].rules[1].limit`; empty when the mistake belongs to no field.
    pub field: String,
    /// What was found and what would do.
    pub message: String,
}

/// `rules/api.yaml:12:14: policies[0].rules[0].limit: limit is 0, which refuses everyone; use 1 or more`
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

/// All mistakes of one or several files, in the order of files and lines. Never empty.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// The problems in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// A file that could not even be read.
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

/// One problem a line.
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

/// The list under construction while one file is read.
#[derive(Debug)]
pub(crate) struct Report {
    file: String,
    problems: Vec<Problem>,
    /// How many more there were than anybody reads.
    unsaid: usize,
    /// Fields that look missing only because their name is misspelt, which has been said already.
    excused: HashSet<String>,
    /// Whether a field with nothing in it is as good as none. If not, somebody else complains about it.
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

    pub(crate) fn add(&mut self, place: Place, path: &Path, message: impl Into<String>) {
        if self.problems.len() >= MOST_SAID {
            self.unsaid += 1;
            return;
        }
        self.problems.push(Problem {
            file: self.file.clone(),
            line: place.line,
            column: place.column,
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

    /// A field that should be in this mapping, unless it is there after all and has its own problem.
    pub(crate) fn missing(&mut self, mapping: Spot<'_>, field: &str, message: impl Into<String>) {
        let path = mapping.path.key(field);
        let place = match mapping.node.get(field) {
            None => mapping.node.place,
            Some(empty) if self.empty_is_missing && empty.is_null() => empty.place,
            Some(_) => return,
        };
        if !self.excused.contains(&path.to_string()) {
            self.add(place, &path, message);
        }
    }

    pub(crate) fn finish(mut self) -> Option<Problems> {
        // Stable, so that several problems of one value keep the order they were found in.
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

/// A value and the way to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    pub(crate) node: &'a Node,
    pub(crate) path: &'a Path,
}

impl Spot<'_> {
    pub(crate) fn has(&self, field: &str) -> bool {
        self.node.get(field).is_some()
    }

    /// Reports the value of a field, or the whole mapping if the field is not written down.
    pub(crate) fn blame(&self, field: &str, report: &mut Report, message: impl Into<String>) {
        let place = self.node.get(field).map_or(self.node.place, |value| value.place);
        report.add(place, &self.path.key(field), message);
    }

    /// Reports the name of a field: it should not be there at all.
    pub(crate) fn blame_key(&self, field: &str, report: &mut Report, message: impl Into<String>) {
        let place = self.node.entry(field).map_or(self.node.place, |entry| entry.key_place);
        report.add(place, &self.path.key(field), message);
    }
}

/// A log, a page and a person have to carry them.
const MOST_SAID: usize = 1_000;
