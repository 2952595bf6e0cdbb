//! `POST /api/reload`: reloads rule files, secrets and certificates, and replies with the outcome.
//!
//! 200 with the policies that were added, removed and changed; 422 with all errors if a file could not be read. The
//! previous content of such a file stays in force.
//!
//! Bound: at most [`NAMES`] names in each list; the counts are complete.

use hyper::StatusCode;
use serde::Serialize;

use super::json;
use crate::{
    engine::Engine,
    http::{HttpResponse, Problem},
    watch::Reload,
};

#[derive(Debug, Serialize)]
struct ReloadReport {
    rules_generation: u64,
    added: NameList,
    removed: NameList,
    changed: NameList,
}

#[derive(Debug, Serialize)]
struct NameList {
    count: usize,
    names: Vec<String>,
}

impl NameList {
    fn of(mut names: Vec<String>) -> Self {
        let count = names.len();
        names.truncate(NAMES);
        Self { count, names }
    }
}

pub(super) async fn run(engine: &Engine, reload: &Reload) -> Result<HttpResponse, Problem> {
    let Some(outcome) = reload.done().await else {
        let detail = "the server is stopping and reads no files";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "The server is stopping", detail));
    };
    if !outcome.problems.is_empty() {
        let detail = outcome.problems.join("\n");
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "The previous rules and secrets stay in force",
            detail,
        ));
    }
    Ok(json(&ReloadReport {
        rules_generation: engine.rules_status().generation,
        added: NameList::of(outcome.changes.added),
        removed: NameList::of(outcome.changes.removed),
        changed: NameList::of(outcome.changes.changed),
    }))
}

/// Names in one list of the reply.
const NAMES: usize = 100;
