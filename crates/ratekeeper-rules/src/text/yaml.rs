//! YAML reader: converts the event stream of `saphyr-parser` into a tree, within a budget of values.
//!
//! Aliases are expanded by copying, and every copy is charged to the budget. A file of a few lines that expands to
//! billions of values ("billion laughs") is therefore an error with a location and does not exhaust memory. `<<` merges
//! the fields of another mapping.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry as MapEntry},
};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::{MAX_DEPTH, MAX_NODES, SyntaxError};
use crate::{
    location::Location,
    scalar::{Meaning, resolve},
    tree::{Entry, Kind, TreeNode, shown},
};

pub(super) fn read(text: &str) -> Result<Option<TreeNode>, SyntaxError> {
    let mut reader = YamlReader { text, parser: Parser::new_from_str(text), anchors: HashMap::new(), left: MAX_NODES };
    let document = reader.document()?;
    Ok(document.filter(|node| !node.is_null()))
}

struct YamlReader<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Anchored>,
    /// Values left in the budget.
    left: usize,
}

/// A value with an anchor, and the cost of each alias of it.
struct Anchored {
    node: TreeNode,
    size: usize,
    height: usize,
}

impl<'t> YamlReader<'t> {
    fn document(&mut self) -> Result<Option<TreeNode>, SyntaxError> {
        let mut document = None;
        loop {
            let (event, location) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(document),
                Event::DocumentStart(_) if document.is_some() => {
                    return Err(SyntaxError::new(
                        location,
                        "a second document begins here; put it into a separate file",
                    ));
                }
                Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
                event => document = Some(self.node(event, location, 0)?),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Location), SyntaxError> {
        match self.parser.next_event() {
            Some(Ok((event, Span { start, .. }))) => Ok((event, location_of(start))),
            Some(Err(error)) => Err(self.explain(&error)),
            None => Ok((Event::StreamEnd, Location::START)),
        }
    }

    fn node(&mut self, event: Event<'t>, location: Location, depth: usize) -> Result<TreeNode, SyntaxError> {
        if depth > MAX_DEPTH {
            return Err(SyntaxError::too_deep(location));
        }
        let before = self.left;
        self.spend(1, location)?;
        let (anchor, kind) = match event {
            Event::Alias(anchor) => return self.alias(anchor, location, depth),
            Event::Scalar(word, style, anchor, tag) => (anchor, scalar(word, style, tag.as_deref(), location)?),
            Event::SequenceStart(anchor, tag) => {
                check_tag(tag.as_deref(), "seq", location)?;
                (anchor, Kind::List(self.list(depth)?))
            }
            Event::MappingStart(anchor, tag) => {
                check_tag(tag.as_deref(), "map", location)?;
                (anchor, Kind::Map(self.map(depth)?))
            }
            _ => return Err(SyntaxError::new(location, "not valid YAML: a value was expected here")),
        };
        let node = TreeNode { location, kind };
        if anchor != 0 {
            // Long scalars count as several values, so that a few aliases cannot expand to more text than memory holds.
            let (size, height) = (before - self.left + bytes(&node) / BYTES_OF_A_VALUE, height(&node));
            // The copy that is kept for aliases.
            self.spend(size, location)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), size, height });
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<TreeNode>, SyntaxError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, location) => items.push(self.node(event, location, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, SyntaxError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merged: Vec<Entry> = Vec::new();
        let mut first_lines: HashMap<String, usize> = HashMap::new();
        loop {
            let (event, key_location) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let plain = matches!(event, Event::Scalar(_, ScalarStyle::Plain, _, _));
            let key = match self.node(event, key_location, depth + 1)?.kind {
                Kind::Scalar { word, .. } => word,
                _ => {
                    return Err(SyntaxError::new(
                        key_location,
                        "a field's name is a list or mapping; use a plain scalar",
                    ));
                }
            };
            let (event, location) = self.next()?;
            let value = self.node(event, location, depth + 1)?;
            if plain && key == "<<" {
                merge(value, location, &mut merged)?;
            } else if let Some(line) = first_lines.insert(key.clone(), key_location.line) {
                let key = shown(&key);
                let message = format!("\"{key}\" is here a second time, first in line {line}; keep one of them");
                return Err(SyntaxError::new(key_location, message));
            } else {
                entries.push(Entry { key, key_location, value });
            }
        }
        // Fields of the mapping itself take precedence over merged ones, whatever their order.
        for entry in merged {
            if let MapEntry::Vacant(free) = first_lines.entry(entry.key.clone()) {
                free.insert(entry.key_location.line);
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    fn alias(&mut self, anchor: usize, location: Location, depth: usize) -> Result<TreeNode, SyntaxError> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(SyntaxError::new(location, "this alias refers to a value that contains it; remove the cycle"));
        };
        if depth + anchored.height > MAX_DEPTH {
            return Err(SyntaxError::too_deep(location));
        }
        if anchored.size > self.left {
            return Err(SyntaxError::too_many(location));
        }
        self.left -= anchored.size;
        Ok(anchored.node.clone())
    }

    fn spend(&mut self, values: usize, location: Location) -> Result<(), SyntaxError> {
        self.left = self.left.checked_sub(values).ok_or_else(|| SyntaxError::too_many(location))?;
        Ok(())
    }

    /// Converts an error of the parser. Tabs, which the parser reports as unexpected tokens, get a message that names
    /// them.
    fn explain(&self, error: &ScanError) -> SyntaxError {
        let location = location_of(*error.marker());
        let indented_by_tab = |line: &&str| {
            let indent = line.len() - line.trim_start().len();
            line[..indent].contains('\t')
        };
        let from = location.line.saturating_sub(2);
        let near = self.text.lines().enumerate().skip(from).take(location.line - from);
        if let Some((number, line)) = near.into_iter().find(|(_, line)| indented_by_tab(line)) {
            let column = line.find('\t').unwrap_or(0) + 1;
            let location = Location { line: number + 1, column };
            return SyntaxError::new(location, "a tab indents this line; YAML accepts spaces only");
        }
        match error.info() {
            // The parser looks ahead, so it may reach its own depth limit first.
            "recursion limit exceeded" => SyntaxError::too_deep(location),
            info => SyntaxError::new(location, format!("not valid YAML: {info}")),
        }
    }
}

fn merge(value: TreeNode, location: Location, merged: &mut Vec<Entry>) -> Result<(), SyntaxError> {
    let sources = match value.kind {
        Kind::List(items) => items,
        kind => vec![TreeNode { location: value.location, kind }],
    };
    for source in sources {
        let Kind::Map(entries) = source.kind else {
            return Err(SyntaxError::new(
                location,
                "<< merges mappings; give it an alias of a mapping, or a list of them",
            ));
        };
        // Of several sources the first takes precedence: the caller skips fields that it already has.
        merged.extend(entries);
    }
    Ok(())
}

fn scalar(word: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>, location: Location) -> Result<Kind, SyntaxError> {
    let plain = match tag {
        Some(tag) if tag.is_yaml_core_schema() => match tag.suffix.as_str() {
            "str" => false,
            "int" | "bool" | "null" | "float" => true,
            _ => return Err(unknown_tag(tag, location)),
        },
        // A lone `!` marks plain text.
        Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => false,
        Some(tag) => return Err(unknown_tag(tag, location)),
        None => style == ScalarStyle::Plain,
    };
    let meaning = if plain { resolve(&word) } else { Meaning::Text };
    Ok(Kind::Scalar { word: word.into_owned(), meaning })
}

fn check_tag(tag: Option<&Tag>, own: &str, location: Location) -> Result<(), SyntaxError> {
    match tag {
        Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == own) => Err(unknown_tag(tag, location)),
        _ => Ok(()),
    }
}

fn unknown_tag(tag: &Tag, location: Location) -> SyntaxError {
    let tag = shown(&tag.to_string());
    SyntaxError::new(location, format!("the tag {tag} means nothing in a rule file; leave it out"))
}

/// Bytes of text in a value.
fn bytes(node: &TreeNode) -> usize {
    match &node.kind {
        Kind::Scalar { word, .. } => word.len(),
        Kind::List(items) => items.iter().map(bytes).sum(),
        Kind::Map(entries) => entries.iter().map(|entry| entry.key.len() + bytes(&entry.value)).sum(),
    }
}

/// Bytes of text that count as one value.
const BYTES_OF_A_VALUE: usize = 64;

fn height(node: &TreeNode) -> usize {
    let below = match &node.kind {
        Kind::Scalar { .. } => return 0,
        Kind::List(items) => items.iter().map(height).max(),
        Kind::Map(entries) => entries.iter().map(|entry| height(&entry.value)).max(),
    };
    1 + below.unwrap_or(0)
}

fn location_of(marker: Marker) -> Location {
    Location { line: marker.line().max(1), column: marker.col() + 1 }
}

#[cfg(test)]
mod tests;
