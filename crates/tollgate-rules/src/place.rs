//! Where something stands: a line and column in the text, and a path of fields in the document.
//!
//! People look for the line, programs and tests for the path; a problem tells both.

use std::fmt;

/// A place in a text. Both count from 1; columns count characters, as editors do.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// The place of a byte offset, which may lie at or past the end.
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

/// The way from the top of a document to one of its values: `policies[0].rules[1].limit`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

impl Path {
    pub(crate) fn key(&self, key: &str) -> Self {
        self.step(Step::Key(key.to_owned()))
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        self.step(Step::Index(index))
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The nearest field name on the way back to the top: what a message calls the value.
    pub(crate) fn leaf(&self) -> &str {
        match self.0.last() {
            Some(Step::Key(key)) => key,
            Some(Step::Index(_)) => "this item",
            None => "the file",
        }
    }

    fn step(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl FromIterator<Step> for Path {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Self {
        Self(steps.into_iter().collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if position == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
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
        let at = |offset| Place::of_offset("ab\nžc\n", offset);
        assert_eq!(at(0), Place::START);
        assert_eq!(at(3), Place { line: 2, column: 1 });
        // In the middle of a two-byte letter: its beginning.
        assert_eq!(at(4), Place { line: 2, column: 1 });
        assert_eq!(at(5), Place { line: 2, column: 2 });
        assert_eq!(at(99), Place { line: 3, column: 1 });
    }
}
