//! Parsing: from text to a tree with locations, one reader per language.
//!
//! A reader reports syntax errors only, such as an unclosed bracket or a duplicate field. It stops at the first one,
//! because errors after an unclosed bracket are unreliable. Later steps check types and meaning.
//!
//! Bounds: [`MAX_DEPTH`] and [`MAX_NODES`].

mod json;
mod toml;
mod yaml;

use std::path::Path as FilePath;

use crate::{location::Location, tree::TreeNode};

/// The languages of rule files.
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
    /// The language of a file, by its extension.
    pub fn of_path(path: &FilePath) -> Option<Self> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// Parses one document. `None` if the text is empty.
    pub(crate) fn read(self, text: &str) -> Result<Option<TreeNode>, SyntaxError> {
        // Some editors write a byte order mark, which is not part of the document.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Yaml => yaml::read(text),
            Self::Toml => toml::read(text),
            Self::Json => json::read(text),
        }
    }
}

/// A syntax error, at which a reader stops.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) location: Location,
    pub(crate) message: String,
}

impl SyntaxError {
    fn new(location: Location, message: impl Into<String>) -> Self {
        Self { location, message: message.into() }
    }

    fn too_deep(location: Location) -> Self {
        Self::new(location, format!("nested more than {MAX_DEPTH} levels deep; rule files need fewer than ten"))
    }

    fn too_many(location: Location) -> Self {
        let message = format!(
            "holds more than {MAX_NODES} values, aliases counted as what they stand for; split it, several files may \
             share a domain"
        );
        Self::new(location, message)
    }
}

/// The deepest nesting of values. Later steps walk the tree by recursion.
const MAX_DEPTH: usize = 64;

/// The most values of a document. A few lines of YAML aliases can expand to billions.
const MAX_NODES: usize = 1_000_000;
