//! Conformance vectors: a policy, requests with their times, and the decision of each, as JSON.
//!
//! Bound: a file has at most 1 MiB.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::report::Failure;

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vector {
    /// The version of the format.
    conformance: u32,
    pub(super) name: String,
    about: String,
    pub(super) clock: VectorClock,
    /// A rule file with one policy.
    pub(super) rules: Value,
    pub(super) requests: Vec<VectorRequest>,
}

/// Which clock the vector needs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VectorClock {
    /// That of the vector: the times are exact.
    Manual,
    /// Any: periods last days, so that verdicts and counts do not depend on when it is run.
    Any,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VectorRequest {
    /// Milliseconds, with up to three decimals.
    pub(super) at_ms: Number,
    pub(super) key: String,
    pub(super) op: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cost: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max_wait_ms: Option<Number>,
    /// The fields of an answer without those of the request.
    #[serde(default)]
    pub(super) decision: Map<String, Value>,
}

impl Vector {
    /// The file, with one line for each request.
    pub(super) fn to_text(&self) -> String {
        let requests: Vec<String> = self.requests.iter().map(|request| format!("  {}", json(request))).collect();
        format!(
            "{{\n \"conformance\": {},\n \"name\": {},\n \"about\": {},\n \"clock\": {},\n \"rules\": {},\n \"requests\": [\n{}\n ]\n}}\n",
            self.conformance,
            json(&self.name),
            json(&self.about),
            json(&self.clock),
            json(&self.rules),
            requests.join(",\n")
        )
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// All vectors of a directory, by name.
pub(super) fn read_all(directory: &Path) -> Result<Vec<Vector>, Failure> {
    let unreadable = |cause| Failure::Unreadable { file: directory.display().to_string(), cause };
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::Option(format!("{}: there are no vectors (*.json)", directory.display())));
    }
    files.iter().map(|file| read(file)).collect()
}

pub(super) fn read(file: &Path) -> Result<Vector, Failure> {
    let name = || file.display().to_string();
    let unreadable = |cause| Failure::Unreadable { file: name(), cause };
    if fs::metadata(file).map_err(unreadable)?.len() > MAX_BYTES {
        return Err(unreadable(io::Error::other("it is longer than 1 MiB")));
    }
    let text = fs::read_to_string(file).map_err(unreadable)?;
    let vector: Vector =
        serde_json::from_str(&text).map_err(|error| Failure::Option(format!("{}: {error}", name())))?;
    if vector.conformance != VERSION {
        let message = format!("{}: vectors of version {}; this program has {VERSION}", name(), vector.conformance);
        return Err(Failure::Option(message));
    }
    Ok(vector)
}

const VERSION: u32 = 1;
const MAX_BYTES: u64 = 1 << 20;
