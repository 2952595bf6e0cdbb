//! TOML reader: converts the spanned values of the `toml` crate into a tree.
//!
//! The crate returns tables sorted by name; the tree restores the order of the file.

use toml::de::{DeTable, DeValue};

use super::{MAX_DEPTH, MAX_NODES, SyntaxError};
use crate::{
    location::Location,
    scalar::{Meaning, Odd, resolve},
    tree::{Entry, Kind, TreeNode},
};

pub(super) fn read(text: &str) -> Result<Option<TreeNode>, SyntaxError> {
    let table = DeTable::parse(text).map_err(|error| {
        let location = Location::of_offset(text, error.span().map_or(0, |span| span.start));
        // Some messages have several lines.
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        SyntaxError::new(location, format!("not valid TOML: {message}"))
    })?;
    let mut reader = TomlReader { lines: line_starts(text), text, last: (0, Location::START), left: MAX_NODES };
    let entries = reader.entries(table.get_ref(), 0)?;
    let document = TreeNode { location: Location::START, kind: Kind::Map(entries) };
    Ok(Some(document).filter(|node| !node.entries().is_empty()))
}

struct TomlReader<'t> {
    text: &'t str,
    /// The offset of each line, so that a location takes one binary search instead of a scan from the start.
    lines: Vec<usize>,
    /// The offset and result of the last lookup. Columns are counted from there, so that a line with thousands of
    /// values is scanned once.
    last: (usize, Location),
    left: usize,
}

impl TomlReader<'_> {
    fn location(&mut self, offset: usize) -> Location {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let (from, column) = match self.last {
            (before, location) if location.line == line && before <= offset => (before, location.column),
            _ => (self.lines[line - 1], 1),
        };
        let column = column + self.text.get(from..offset).map_or(0, |between| between.chars().count());
        let location = Location { line, column };
        self.last = (offset, location);
        location
    }

    fn entries(&mut self, table: &DeTable<'_>, depth: usize) -> Result<Vec<Entry>, SyntaxError> {
        let mut in_order: Vec<_> = table.iter().collect();
        in_order.sort_by_key(|(key, _)| key.span().start);
        let mut entries = Vec::with_capacity(in_order.len());
        for (key, value) in in_order {
            let key_location = self.location(key.span().start);
            let value = self.node(value.get_ref(), value.span().start, depth + 1)?;
            entries.push(Entry { key: key.get_ref().to_string(), key_location, value });
        }
        Ok(entries)
    }

    fn node(&mut self, value: &DeValue<'_>, offset: usize, depth: usize) -> Result<TreeNode, SyntaxError> {
        let location = self.location(offset);
        if depth > MAX_DEPTH {
            return Err(SyntaxError::too_deep(location));
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| SyntaxError::too_many(location))?;
        let scalar = |word: String, meaning| Kind::Scalar { word, meaning };
        let kind = match value {
            DeValue::String(text) => scalar(text.to_string(), Meaning::Text),
            DeValue::Integer(number) if number.radix() == 10 => scalar(number.to_string(), resolve(number.as_str())),
            DeValue::Integer(number) => scalar(number.to_string(), Meaning::Odd(Odd::OtherBase)),
            DeValue::Float(number) => {
                let word = number.as_str();
                let odd = if word.ends_with("inf") || word.ends_with("nan") { Odd::NotFinite } else { Odd::Fraction };
                scalar(word.to_owned(), Meaning::Odd(odd))
            }
            DeValue::Boolean(value) => scalar(value.to_string(), Meaning::Bool(*value)),
            DeValue::Datetime(date) => scalar(date.to_string(), Meaning::Odd(Odd::Date)),
            DeValue::Array(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items.iter() {
                    list.push(self.node(item.get_ref(), item.span().start, depth + 1)?);
                }
                Kind::List(list)
            }
            DeValue::Table(table) => Kind::Map(self.entries(table, depth)?),
        };
        Ok(TreeNode { location, kind })
    }
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(newline, _)| newline + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_places_and_fields_their_order() {
        let text = "zone = 1\narea = [\n  { name = \"ž\", b = 0x10 },\n]\n";
        let tree = read(text).unwrap().unwrap();
        let names: Vec<&str> = tree.entries().iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(names, ["zone", "area"]);
        let item = &tree.get("area").unwrap().items()[0];
        assert_eq!(item.get("b").unwrap().location, Location { line: 3, column: 21 });
        assert_eq!(item.get("b").unwrap().describe(), "0x10, a number that is not decimal");
    }

    #[test]
    fn numbers_may_be_grouped_as_toml_allows() {
        let tree = read("limit = 10_000").unwrap().unwrap();
        assert_eq!(tree.get("limit").unwrap().describe(), "10000, a number");
    }

    #[test]
    fn mistakes_of_the_language_have_a_place() {
        let trouble = read("a = 1\na = 2\n").unwrap_err();
        assert_eq!(trouble.location.line, 2);
        assert!(trouble.message.contains("duplicate key"), "{}", trouble.message);
        assert!(read("# nothing\n").unwrap().is_none());
    }
}
