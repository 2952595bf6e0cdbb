//! From text to a located tree, one reader per language.
//!
//! A reader's own mistakes are of the language: a bracket left open, a field named twice. It stops at the first one,
//! because what follows a broken bracket is guesswork. Whether the document makes sense is asked later.

mod json;
mod toml;
mod yaml;

use std::path::Path as FilePath;

use crate::{place::Place, tree::Node};

/// The languages rule files are written in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// YAML 1.2.
    Yaml,
    /// TOML 1.0 and later.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// The format a file's extension stands for.
    pub fn of_path(path: &FilePath) -> Option<Self> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// Reads one document. `None` is a text with nothing in it.
    pub(crate) fn read(self, text: &str) -> Result<Option<Node>, Trouble> {
        // Some editors put a byte order mark first; it says nothing about the rules.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Yaml => yaml::read(text),
            Self::Toml => toml::read(text),
            Self::Json => json::read(text),
        }
    }
}

/// Why a text could not become a tree.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) place: Place,
    pub(crate) message: String,
}

impl Trouble {
    fn new(place: Place, message: impl Into<String>) -> Self {
        Self { place, message: message.into() }
    }

    fn too_deep(place: Place) -> Self {
        Self::new(place, format!("nested more than {MAX_DEPTH} levels deep; rule files need fewer than ten"))
    }

    fn too_many(place: Place) -> Self {
        let message = format!(
            "holds more than {MAX_NODES} values, aliases counted as what they stand for; split it, several files may \
             share a domain"
        );
        Self::new(place, message)
    }
}

/// Deeper nesting is no rule file, and later steps walk the tree by recursion.
const MAX_DEPTH: usize = 64;

/// A file of eight mebibytes has fewer values unless it is made of them; a few lines of aliases can stand for billions.
const MAX_NODES: usize = 1_000_000;
