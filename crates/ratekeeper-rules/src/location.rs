//! Locations in a rule file: line and column in the text, and the path of fields in the document.
//!
//! A problem has both: the line for editors, the path for programs and tests.

use std::fmt;

/// Line and column in a text, both from 1. Columns count characters.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Location {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Location {
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// The location of a byte offset, which may be at or past the end.
    pub(crate) fn of_offset(text: &str, offset: usize) -> Self {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }
}

/// The path from the root of a document to one of its values: `policies[0].rules[1].limit`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Path(Vec<PathStep>);

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum PathStep {
    Key(String),
    Index(usize),
}

impl Path {
    pub(crate) fn key(&self, key: &str) -> Self {
        self.step(PathStep::Key(key.to_owned()))
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        self.step(PathStep::Index(index))
    }

    pub(crate) fn steps(&self) -> &[PathStep] {
        &self.0
    }

    /// The last field name of the path, which messages use as the name of the value.
    pub(crate) fn leaf(&self) -> &str {
        match self.0.last() {
            Some(PathStep::Key(key)) => key,
            Some(PathStep::Index(_)) => "this item",
            None => "the file",
        }
    }

    fn step(&self, step: PathStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl FromIterator<PathStep> for Path {
    fn from_iter<I: IntoIterator<Item = PathStep>>(steps: I) -> Self {
        Self(steps.into_iter().collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Key(key) if position == 0 => f.write_str(key)?,
                PathStep::Key(key) => write!(f, ".{key}")?,
                PathStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_like_the_file() {
        let path = Path::default().key("policies").index(0).key("rules").index(1).key("limit");
        assert_eq!(path.to_string(), "policies[0].rules[1].limit");
        assert_eq!(path.leaf(), "limit");
    }

    #[test]
    fn offsets_become_lines_and_columns_in_characters() {
        let at = |offset| Location::of_offset("ab\nžc\n", offset);
        assert_eq!(at(0), Location::START);
        assert_eq!(at(3), Location { line: 2, column: 1 });
        // Inside a two-byte character: its start.
        assert_eq!(at(4), Location { line: 2, column: 1 });
        assert_eq!(at(5), Location { line: 2, column: 2 });
        assert_eq!(at(99), Location { line: 3, column: 1 });
    }
}
