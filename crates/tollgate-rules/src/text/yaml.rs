//! YAML: the event stream of `saphyr-parser` made into a tree, with a budget.
//!
//! Aliases are copied, and every copy counts, so a few lines that stand for billions of values (a "billion laughs"
//! file) end with a message instead of the machine's memory. `<<` merges the fields of another mapping, as in the
//! files people already have.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry as MapEntry},
};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::{MAX_DEPTH, MAX_NODES, Trouble};
use crate::{
    place::Place,
    scalar::{Meaning, resolve},
    tree::{Entry, Kind, Node, shown},
};

pub(super) fn read(text: &str) -> Result<Option<Node>, Trouble> {
    let mut reader = Reader { text, parser: Parser::new_from_str(text), anchors: HashMap::new(), left: MAX_NODES };
    let document = reader.document()?;
    Ok(document.filter(|node| !node.is_null()))
}

struct Reader<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Anchored>,
    /// How many more values may come.
    left: usize,
}

/// A value that aliases may stand for, and what each of them costs.
struct Anchored {
    node: Node,
    size: usize,
    height: usize,
}

impl<'t> Reader<'t> {
    fn document(&mut self) -> Result<Option<Node>, Trouble> {
        let mut document = None;
        loop {
            let (event, place) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(document),
                Event::DocumentStart(_) if document.is_some() => {
                    return Err(Trouble::new(place, "a second document begins here; put it into a file of its own"));
                }
                Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
                event => document = Some(self.node(event, place, 0)?),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Place), Trouble> {
        match self.parser.next_event() {
            Some(Ok((event, Span { start, .. }))) => Ok((event, place_of(start))),
            Some(Err(error)) => Err(self.explain(&error)),
            None => Ok((Event::StreamEnd, Place::START)),
        }
    }

    fn node(&mut self, event: Event<'t>, place: Place, depth: usize) -> Result<Node, Trouble> {
        if depth > MAX_DEPTH {
            return Err(Trouble::too_deep(place));
        }
        let before = self.left;
        self.spend(1, place)?;
        let (anchor, kind) = match event {
            Event::Alias(anchor) => return self.alias(anchor, place, depth),
            Event::Scalar(word, style, anchor, tag) => (anchor, scalar(word, style, tag.as_deref(), place)?),
            Event::SequenceStart(anchor, tag) => {
                check_tag(tag.as_deref(), "seq", place)?;
                (anchor, Kind::List(self.list(depth)?))
            }
            Event::MappingStart(anchor, tag) => {
                check_tag(tag.as_deref(), "map", place)?;
                (anchor, Kind::Map(self.map(depth)?))
            }
            _ => return Err(Trouble::new(place, "not valid YAML: a value was expected here")),
        };
        let node = Node { place, kind };
        if anchor != 0 {
            // Long words count for more than one, or few aliases would stand for more text than there is memory.
            let (size, height) = (before - self.left + bytes(&node) / BYTES_OF_A_VALUE, height(&node));
            // It is kept a second time, for its aliases.
            self.spend(size, place)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), size, height });
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Trouble> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, place) => items.push(self.node(event, place, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, Trouble> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merged: Vec<Entry> = Vec::new();
        let mut first_lines: HashMap<String, usize> = HashMap::new();
        loop {
            let (event, key_place) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let plain = matches!(event, Event::Scalar(_, ScalarStyle::Plain, _, _));
            let key = match self.node(event, key_place, depth + 1)?.kind {
                Kind::Scalar { word, .. } => word,
                _ => return Err(Trouble::new(key_place, "a field's name is a list or mapping; use a word")),
            };
            let (event, place) = self.next()?;
            let value = self.node(event, place, depth + 1)?;
            if plain && key == "<<" {
                merge(value, place, &mut merged)?;
            } else if let Some(line) = first_lines.insert(key.clone(), key_place.line) {
                let key = shown(&key);
                let message = format!("\"{key}\" is here a second time, first in line {line}; keep one of them");
                return Err(Trouble::new(key_place, message));
            } else {
                entries.push(Entry { key, key_place, value });
            }
        }
        // What is written in the mapping itself comes first, whatever the order of lines.
        for entry in merged {
            if let MapEntry::Vacant(free) = first_lines.entry(entry.key.clone()) {
                free.insert(entry.key_place.line);
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    fn alias(&mut self, anchor: usize, place: Place, depth: usize) -> Result<Node, Trouble> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(Trouble::new(place, "this alias stands inside what it stands for; give it an end"));
        };
        if depth + anchored.height > MAX_DEPTH {
            return Err(Trouble::too_deep(place));
        }
        if anchored.size > self.left {
            return Err(Trouble::too_many(place));
        }
        self.left -= anchored.size;
        Ok(anchored.node.clone())
    }

    fn spend(&mut self, values: usize, place: Place) -> Result<(), Trouble> {
        self.left = self.left.checked_sub(values).ok_or_else(|| Trouble::too_many(place))?;
        Ok(())
    }

    /// The parser speaks of tokens; tabs deserve better, being the mistake nobody sees.
    fn explain(&self, error: &ScanError) -> Trouble {
        let place = place_of(*error.marker());
        let indented_by_tab = |line: &&str| {
            let indent = line.len() - line.trim_start().len();
            line[..indent].contains('\t')
        };
        let from = place.line.saturating_sub(2);
        let near = self.text.lines().enumerate().skip(from).take(place.line - from);
        if let Some((number, line)) = near.into_iter().find(|(_, line)| indented_by_tab(line)) {
            let column = line.find('\t').unwrap_or(0) + 1;
            let place = Place { line: number + 1, column };
            return Trouble::new(place, "a tab indents this line; YAML accepts spaces only");
        }
        match error.info() {
            // It looks ahead, and so may see the bottom before we do.
            "recursion limit exceeded" => Trouble::too_deep(place),
            info => Trouble::new(place, format!("not valid YAML: {info}")),
        }
    }
}

fn merge(value: Node, place: Place, merged: &mut Vec<Entry>) -> Result<(), Trouble> {
    let sources = match value.kind {
        Kind::List(items) => items,
        kind => vec![Node { place: value.place, kind }],
    };
    for source in sources {
        let Kind::Map(entries) = source.kind else {
            return Err(Trouble::new(place, "<< merges mappings; give it an alias of a mapping, or a list of them"));
        };
        // Of several sources the first one wins; the mapping itself sorts that out.
        merged.extend(entries);
    }
    Ok(())
}

fn scalar(word: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>, place: Place) -> Result<Kind, Trouble> {
    let plain = match tag {
        Some(tag) if tag.is_yaml_core_schema() => match tag.suffix.as_str() {
            "str" => false,
            "int" | "bool" | "null" | "float" => true,
            _ => return Err(unknown_tag(tag, place)),
        },
        // A lone `!` says "just text".
        Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => false,
        Some(tag) => return Err(unknown_tag(tag, place)),
        None => style == ScalarStyle::Plain,
    };
    let meaning = if plain { resolve(&word) } else { Meaning::Text };
    Ok(Kind::Scalar { word: word.into_owned(), meaning })
}

fn check_tag(tag: Option<&Tag>, own: &str, place: Place) -> Result<(), Trouble> {
    match tag {
        Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == own) => Err(unknown_tag(tag, place)),
        _ => Ok(()),
    }
}

fn unknown_tag(tag: &Tag, place: Place) -> Trouble {
    let tag = shown(&tag.to_string());
    Trouble::new(place, format!("the tag {tag} means nothing in a rule file; leave it out"))
}

/// The text in a value.
fn bytes(node: &Node) -> usize {
    match &node.kind {
        Kind::Scalar { word, .. } => word.len(),
        Kind::List(items) => items.iter().map(bytes).sum(),
        Kind::Map(entries) => entries.iter().map(|entry| entry.key.len() + bytes(&entry.value)).sum(),
    }
}

/// What a value takes by itself, about.
const BYTES_OF_A_VALUE: usize = 64;

fn height(node: &Node) -> usize {
    let below = match &node.kind {
        Kind::Scalar { .. } => return 0,
        Kind::List(items) => items.iter().map(height).max(),
        Kind::Map(entries) => entries.iter().map(|entry| height(&entry.value)).max(),
    };
    1 + below.unwrap_or(0)
}

fn place_of(marker: Marker) -> Place {
    Place { line: marker.line().max(1), column: marker.col() + 1 }
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
