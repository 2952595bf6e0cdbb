use std::{fs, path::PathBuf};

use super::*;
use crate::text::Format;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Sample files that can be parsed: path, text, and the value as JSON.
fn documents(folder: &str) -> Vec<(String, String, Value)> {
    let mut documents = Vec::new();
    for entry in fs::read_dir(root().join("rules").join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if let Ok(Some(tree)) = Format::of_path(&path).unwrap().read(&text) {
            documents.push((path.display().to_string(), text, tree.to_json(&[])));
        }
    }
    assert!(documents.len() > 5);
    documents
}

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&schema()).unwrap()
}

#[test]
fn the_schema_in_docs_is_current() {
    let path = root().join("docs/rules.schema.json");
    let current = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("RATEKEEPER_RENEW").is_some() {
        fs::write(&path, &current).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == current, "renew it with: RATEKEEPER_RENEW=1 cargo test -p ratekeeper-rules schema");
}

#[test]
fn the_schema_is_valid() {
    jsonschema::meta::validate(&schema()).unwrap();
}

#[test]
fn every_good_sample_fits_the_schema() {
    let validator = validator();
    for (path, _, json) in documents("good") {
        assert!(validator.is_valid(&json), "{path}: {:?}", validator.validate(&json));
    }
}

/// The second line of each bad sample has whether the schema rejects it.
#[test]
fn structural_mistakes_are_rejected_by_the_schema() {
    let validator = validator();
    for (path, text, json) in documents("bad") {
        let rejected = text.lines().nth(1) == Some("# The schema refuses it, too.");
        assert_eq!(validator.is_valid(&json), !rejected, "{path}");
    }
}
