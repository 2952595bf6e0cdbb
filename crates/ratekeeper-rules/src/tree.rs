//! Document tree with locations, common to YAML, TOML and JSON.
//!
//! Scalars have their source text and their meaning. Messages quote the source text, and the Envoy format uses it where
//! it accepts any scalar as text.

use serde_json::Value;

use crate::{
    location::{Location, Path, PathStep},
    scalar::Meaning,
};

/// A value and the location of its first character.
#[derive(Clone, Debug)]
pub(crate) struct TreeNode {
    pub(crate) location: Location,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Scalar { word: String, meaning: Meaning },
    List(Vec<TreeNode>),
    Map(Vec<Entry>),
}

/// One field of a mapping. Readers reject duplicate fields, so the key is unique in its mapping.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_location: Location,
    pub(crate) value: TreeNode,
}

impl TreeNode {
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[TreeNode] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&TreeNode> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.kind, Kind::Map(_))
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Scalar { meaning: Meaning::Null, .. })
    }

    /// The value at a path, or the deepest value on it that exists.
    pub(crate) fn at(&self, path: &Path) -> &TreeNode {
        let mut node = self;
        for step in path.steps() {
            let next = match step {
                PathStep::Key(key) => node.get(key),
                PathStep::Index(index) => node.items().get(*index),
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }

    /// The value with its type, for messages of the form "limit is …".
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
            Kind::Scalar { word, meaning } => match meaning {
                Meaning::Null => "empty".to_owned(),
                Meaning::Bool(_) => shown(word),
                Meaning::Whole(_) => format!("{}, a number", shown(word)),
                Meaning::Odd(odd) => format!("{}, {}", shown(word), odd.describe()),
                Meaning::Text => format!("\"{}\", which is text", shown(word)),
            },
        }
    }

    /// The value without its type, for messages that continue with the reason.
    pub(crate) fn quoted(&self) -> String {
        match &self.kind {
            Kind::Scalar { word, meaning: Meaning::Text } => format!("\"{}\"", shown(word)),
            Kind::Scalar { word, meaning } if *meaning != Meaning::Null => shown(word),
            _ => self.describe(),
        }
    }

    /// The document as JSON, for serde. Numbers that are not plain decimal become strings, which numeric fields reject.
    /// Scalars of `text_fields` are always strings.
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

/// A string for messages: escaped, so that it is one line, and truncated after [`SHOWN_CHARS`] characters.
pub(crate) fn shown(word: &str) -> String {
    let mut line: String = word.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if word.chars().nth(SHOWN_CHARS).is_some() {
        line.push('…');
    }
    line
}

/// The most characters of a value that a message shows.
const SHOWN_CHARS: usize = 60;
