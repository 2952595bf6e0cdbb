//! Deserialization with error recovery: from a located tree to the types of [`crate::spec`].
//!
//! serde stops at the first error. So each error is reported at its location, the value is removed, and the rest is
//! deserialized again until no error is left. No field of the types is required, so a removal never causes another
//! error.
//!
//! The kind of error and the accepted values are parsed from the text of serde's error ("unknown field `x`, expected
//! …"), because serde has no structured form. The tests of `rules/bad` fail if a release of serde changes the text.
//!
//! Bound: [`READINGS`] values are deserialized in total, unless fewer than [`MIN_MISTAKES`] errors would be reported.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::{
    location::{Path, PathStep},
    problem::Report,
    suggest::nearest,
    tree::{Kind, TreeNode, shown},
};

/// Differences between the formats that the types do not express.
pub(crate) struct FormatRules {
    /// Fields whose scalars are always text.
    pub(crate) text_fields: &'static [&'static str],
    /// Whether an empty field, such as `limit:` without a value, is reported.
    pub(crate) refuse_empty: bool,
}

/// Deserializes the valid part of a document and reports the errors of the rest.
pub(crate) fn read<T: DeserializeOwned + Default>(root: &TreeNode, format: &FormatRules, report: &mut Report) -> T {
    let mut json = root.to_json(format.text_fields);
    let most = (READINGS / size(root).max(1)).clamp(MIN_MISTAKES, MAX_MISTAKES);
    for _ in 0..most {
        let error = match serde_path_to_error::deserialize::<_, T>(&json) {
            Ok(spec) => {
                if format.refuse_empty {
                    report_empty(root, Some(&json), &Path::default(), report);
                }
                return spec;
            }
            Err(error) => error,
        };
        let said = error.inner().to_string();
        let mut path: Path = error.path().iter().filter_map(step).collect();
        if said.contains("expected string or map") && set(&mut json, &path, Value::String(String::new())) {
            // An enum was expected: with an empty string as the value, serde's error lists the accepted variants.
            continue;
        }
        let unknown = unknown_name(&said, "unknown field");
        if let Some(field) = unknown {
            path = path_of_field(&json, path, field);
        }
        report_mistake(root, &path, &said, report);
        if !cut(&mut json, &path) {
            return T::default();
        }
    }
    report.add(root.location, &Path::default(), format!("more than {most} mistakes; the rest is not shown"));
    T::default()
}

fn report_mistake(root: &TreeNode, path: &Path, said: &str, report: &mut Report) {
    let node = root.at(path);
    let leaf = shown(path.leaf());
    if let Some(field) = unknown_name(said, "unknown field") {
        let parent: Path = path.steps().iter().take(path.steps().len().saturating_sub(1)).cloned().collect();
        let known = words(said);
        let hint = match nearest(field, known.iter().copied()) {
            Some(meant) => {
                report.excuse(&parent.key(meant));
                format!("did you mean `{meant}`?")
            }
            None => format!("known here: {}", known.join(", ")),
        };
        let location = root.at(&parent).entry(field).map_or(node.location, |entry| entry.key_location);
        report.add(location, path, format!("there is no field `{}`; {hint}", shown(field)));
    } else if unknown_name(said, "unknown variant").is_some() {
        let known = words(said);
        let word = node.quoted();
        let meant = nearest(word.trim_matches('"'), known.iter().copied());
        let hint = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        report.add(node.location, path, format!("{leaf} is {word}; use {}{hint}", listed(&known)));
    } else if let Some((_, wanted)) = said.strip_prefix("invalid ").and_then(|said| said.split_once(", expected ")) {
        report.add(node.location, path, format!("{leaf} is {}; use {}", node.describe(), plainly(wanted)));
    } else {
        report.add(node.location, path, format!("{leaf} is {}, {said}", node.quoted()));
    }
}

/// serde's description of an expected type, in the terms of rule files.
fn plainly(wanted: &str) -> &str {
    match wanted {
        "a string" => "text, in quotes if it looks like something else",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a mapping",
        _ if wanted.starts_with("struct ") => "a mapping of fields",
        _ => wanted,
    }
}

/// Reports empty fields. Walks the document in parallel with the accepted JSON; removed values have been reported.
fn report_empty(node: &TreeNode, json: Option<&Value>, path: &Path, report: &mut Report) {
    match (&node.kind, json) {
        (_, Some(Value::Null)) => {
            let message = format!("{} is empty; give it a value, or leave the field out", shown(path.leaf()));
            report.add(node.location, path, message);
        }
        (Kind::List(items), Some(Value::Array(read))) => {
            for (index, (item, read)) in items.iter().zip(read).enumerate() {
                report_empty(item, Some(read), &path.index(index), report);
            }
        }
        (Kind::Map(entries), Some(Value::Object(read))) => {
            for entry in entries {
                report_empty(&entry.value, read.get(&entry.key), &path.key(&entry.key), report);
            }
        }
        _ => {}
    }
}

/// The number of values of a document.
fn size(node: &TreeNode) -> usize {
    match &node.kind {
        Kind::Scalar { .. } => 1,
        Kind::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Kind::Map(entries) => 1 + entries.iter().map(|entry| size(&entry.value)).sum::<usize>(),
    }
}

/// The name in "unknown field `x`, expected …". It may contain any character, including backticks.
fn unknown_name<'s>(said: &'s str, what: &str) -> Option<&'s str> {
    let rest = said.strip_prefix(what)?.strip_prefix(" `")?;
    rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once("`, there are no ")).map(|(name, _)| name)
}

/// The words in backticks after "expected".
fn words(said: &str) -> Vec<&str> {
    let list = said.rsplit_once("`, expected ").map_or("", |(_, list)| list);
    list.split('`').skip(1).step_by(2).collect()
}

fn listed(words: &[&str]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// The path of an unknown field. The path of the error may or may not include the field.
fn path_of_field(json: &Value, path: Path, field: &str) -> Path {
    let holds = |path: &Path| find(json, path).and_then(|value| value.get(field)).is_some();
    let shorter: Path = path.steps().iter().take(path.steps().len().saturating_sub(1)).cloned().collect();
    let stepped = path.steps().last() == Some(&PathStep::Key(field.to_owned())) && holds(&shorter);
    if stepped { path } else { path.key(field) }
}

fn step(segment: &Segment) -> Option<PathStep> {
    match segment {
        Segment::Seq { index } => Some(PathStep::Index(*index)),
        Segment::Map { key } => Some(PathStep::Key(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

fn find<'j>(json: &'j Value, path: &Path) -> Option<&'j Value> {
    path.steps().iter().try_fold(json, |value, step| match step {
        PathStep::Key(key) => value.get(key),
        PathStep::Index(index) => value.get(index),
    })
}

fn find_mut<'j>(json: &'j mut Value, steps: &[PathStep]) -> Option<&'j mut Value> {
    steps.iter().try_fold(json, |value, step| match step {
        PathStep::Key(key) => value.get_mut(key),
        PathStep::Index(index) => value.get_mut(index),
    })
}

/// Replaces a value. Returns false if it has that value already, so that the caller's loop terminates.
fn set(json: &mut Value, path: &Path, new: Value) -> bool {
    match find_mut(json, path.steps()) {
        Some(old) if *old != new => {
            *old = new;
            true
        }
        _ => false,
    }
}

/// Removes an invalid value. Fields are deleted; list items become empty mappings, so that the others keep their index.
fn cut(json: &mut Value, path: &Path) -> bool {
    match path.steps() {
        [] => false,
        [parents @ .., PathStep::Key(key)] => {
            find_mut(json, parents).and_then(Value::as_object_mut).and_then(|fields| fields.remove(key)).is_some()
        }
        [.., PathStep::Index(_)] => set(json, path, Value::Object(serde_json::Map::new())),
    }
}

/// The most errors that are reported. Each one costs a deserialization of the document.
const MAX_MISTAKES: usize = 200;

/// The most values that are deserialized in total. It lowers the number of reported errors for large documents, which
/// would otherwise take minutes.
const READINGS: usize = 10_000_000;

/// The lower bound of that number, for documents of any size.
const MIN_MISTAKES: usize = 10;
