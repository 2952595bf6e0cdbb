//! From a located tree to the types of [`crate::spec`], with every mistake of shape on the way.
//!
//! serde stops at the first mistake. So each one is reported at its place and cut out, and the rest is read again,
//! until nothing is left to complain about. Since no field of the types is required, cutting one out never makes
//! another one wrong.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::{
    place::{Path, Step},
    problem::Report,
    suggest::nearest,
    tree::{Kind, Node, shown},
};

/// How a form treats what the types leave open.
pub(crate) struct Manners {
    /// Fields whose scalars are text, whatever they look like.
    pub(crate) text_fields: &'static [&'static str],
    /// Whether `limit:` with nothing behind it is a mistake.
    pub(crate) refuse_empty: bool,
}

/// Reads as much as can be read.
pub(crate) fn read<T: DeserializeOwned + Default>(root: &Node, manners: &Manners, report: &mut Report) -> T {
    let mut json = root.to_json(manners.text_fields);
    let most = (READINGS / size(root).max(1)).clamp(MIN_MISTAKES, MAX_MISTAKES);
    for _ in 0..most {
        let error = match serde_path_to_error::deserialize::<_, T>(&json) {
            Ok(spec) => {
                if manners.refuse_empty {
                    report_empty(root, Some(&json), &Path::default(), report);
                }
                return spec;
            }
            Err(error) => error,
        };
        let said = error.inner().to_string();
        let mut path: Path = error.path().iter().filter_map(step).collect();
        if said.contains("expected string or map") && set(&mut json, &path, Value::String(String::new())) {
            // A word was wanted; asked again with a word that cannot be right, serde tells which ones can.
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
    report.add(root.place, &Path::default(), format!("more than {most} mistakes; the rest is not shown"));
    T::default()
}

fn report_mistake(root: &Node, path: &Path, said: &str, report: &mut Report) {
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
        let place = root.at(&parent).entry(field).map_or(node.place, |entry| entry.key_place);
        report.add(place, path, format!("there is no field `{}`; {hint}", shown(field)));
    } else if unknown_name(said, "unknown variant").is_some() {
        let known = words(said);
        let word = node.quoted();
        let meant = nearest(word.trim_matches('"'), known.iter().copied());
        let hint = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        report.add(node.place, path, format!("{leaf} is {word}; use {}{hint}", listed(&known)));
    } else if let Some((_, wanted)) = said.strip_prefix("invalid ").and_then(|said| said.split_once(", expected ")) {
        report.add(node.place, path, format!("{leaf} is {}; use {}", node.told(), plainly(wanted)));
    } else {
        report.add(node.place, path, format!("{leaf} is {}, {said}", node.quoted()));
    }
}

/// serde's words for what it wants, in ours.
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

/// Beside the document goes what serde read of it: what has been cut out was a mistake already.
fn report_empty(node: &Node, json: Option<&Value>, path: &Path, report: &mut Report) {
    match (&node.kind, json) {
        (_, Some(Value::Null)) => {
            let message = format!("{} is empty; give it a value, or leave the field out", shown(path.leaf()));
            report.add(node.place, path, message);
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

/// How many values a document has.
fn size(node: &Node) -> usize {
    match &node.kind {
        Kind::Scalar { .. } => 1,
        Kind::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Kind::Map(entries) => 1 + entries.iter().map(|entry| size(&entry.value)).sum::<usize>(),
    }
}

/// The name in "unknown field `x`, expected …". The name may hold anything, also backticks.
fn unknown_name<'s>(said: &'s str, what: &str) -> Option<&'s str> {
    let rest = said.strip_prefix(what)?.strip_prefix(" `")?;
    rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once("`, there are no ")).map(|(name, _)| name)
}

/// The words in backticks behind "expected".
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

/// The tracker may or may not have stepped onto the unknown name already.
fn path_of_field(json: &Value, path: Path, field: &str) -> Path {
    let holds = |path: &Path| find(json, path).and_then(|value| value.get(field)).is_some();
    let shorter: Path = path.steps().iter().take(path.steps().len().saturating_sub(1)).cloned().collect();
    let stepped = path.steps().last() == Some(&Step::Key(field.to_owned())) && holds(&shorter);
    if stepped { path } else { path.key(field) }
}

fn step(segment: &Segment) -> Option<Step> {
    match segment {
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Map { key } => Some(Step::Key(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

fn find<'j>(json: &'j Value, path: &Path) -> Option<&'j Value> {
    path.steps().iter().try_fold(json, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

fn find_mut<'j>(json: &'j mut Value, steps: &[Step]) -> Option<&'j mut Value> {
    steps.iter().try_fold(json, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(index),
    })
}

/// Puts another value in; false if it stands there already, so that nothing is asked for ever.
fn set(json: &mut Value, path: &Path, new: Value) -> bool {
    match find_mut(json, path.steps()) {
        Some(old) if *old != new => {
            *old = new;
            true
        }
        _ => false,
    }
}

/// Takes a mistake out: fields go, items of lists become empty mappings so that the others keep their numbers.
fn cut(json: &mut Value, path: &Path) -> bool {
    match path.steps() {
        [] => false,
        [parents @ .., Step::Key(key)] => {
            find_mut(json, parents).and_then(Value::as_object_mut).and_then(|fields| fields.remove(key)).is_some()
        }
        [.., Step::Index(_)] => set(json, path, Value::Object(serde_json::Map::new())),
    }
}

/// Each mistake is one more reading of the document. Nobody reads more of them, either.
const MAX_MISTAKES: usize = 200;

/// Values that are read in all: of a huge document fewer mistakes are told at once, so that it is not read for minutes.
const READINGS: usize = 10_000_000;

/// But so many in any case.
const MIN_MISTAKES: usize = 10;
