//! A document whose every value knows its place, whichever language it was written in.
//!
//! Scalars keep the word as it was written beside what it means, so that a message can show people their own words,
//! and so that formats which take any scalar for text (envoyproxy/ratelimit's do) get exactly what was written.

use serde_json::Value;

use crate::{
    place::{Path, Place, Step},
    scalar::Meaning,
};

/// A value and where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Scalar { word: String, meaning: Meaning },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One field of a mapping. Readers see to it that a mapping names no field twice.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.kind, Kind::Map(_))
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Scalar { meaning: Meaning::Null, .. })
    }

    /// The value at the end of a path, or as far along it as the document goes.
    pub(crate) fn at(&self, path: &Path) -> &Node {
        let mut node = self;
        for step in path.steps() {
            let next = match step {
                Step::Key(key) => node.get(key),
                Step::Index(index) => node.items().get(*index),
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }

    /// What stands here, for a sentence that begins "limit is …".
    pub(crate) fn told(&self) -> String {
        match &self.kind {
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
            Kind::Scalar { word, meaning } => match meaning {
                Meaning::Null => "empty".to_owned(),
                Meaning::Bool(_) => shown(word),
                Meaning::Whole(_) => format!("{}, a number", shown(word)),
                Meaning::Odd(odd) => format!("{}, {}", shown(word), odd.told()),
                Meaning::Text => format!("\"{}\", which is text", shown(word)),
            },
        }
    }

    /// The same without judgement, for sentences that go on to say what is wrong with it.
    pub(crate) fn quoted(&self) -> String {
        match &self.kind {
            Kind::Scalar { word, meaning: Meaning::Text } => format!("\"{}\"", shown(word)),
            Kind::Scalar { word, meaning } if *meaning != Meaning::Null => shown(word),
            _ => self.told(),
        }
    }

    /// The document for serde. Numbers that are not plain stay words, which no field that wants a number accepts;
    /// scalars under `text_fields` are taken for text whatever they look like.
    pub(crate) fn to_json(&self, text_fields: &[&str]) -> Value {
        match &self.kind {
            Kind::Scalar { word, meaning } => match meaning {
                Meaning::Null => Value::Null,
                Meaning::Bool(value) => Value::Bool(*value),
                Meaning::Whole(number) => Value::from(*number),
                Meaning::Odd(_) | Meaning::Text => Value::String(word.clone()),
            },
            Kind::List(items) => items.iter().map(|item| item.to_json(text_fields)).collect(),
            Kind::Map(entries) => {
                let field = |entry: &Entry| {
                    let value = match &entry.value.kind {
                        Kind::Scalar { word, meaning }
                            if *meaning != Meaning::Null && text_fields.contains(&entry.key.as_str()) =>
                        {
                            Value::String(word.clone())
                        }
                        _ => entry.value.to_json(text_fields),
                    };
                    (entry.key.clone(), value)
                };
                Value::Object(entries.iter().map(field).collect())
            }
        }
    }
}

/// A word as a message may carry it: one line, not too long.
pub(crate) fn shown(word: &str) -> String {
    let mut line: String = word.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if word.chars().nth(SHOWN_CHARS).is_some() {
        line.push('…');
    }
    line
}

/// Enough to recognise one's own words by.
const SHOWN_CHARS: usize = 60;
