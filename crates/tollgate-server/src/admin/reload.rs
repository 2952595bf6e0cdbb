//! `POST /api/reload`: reads rule files, tokens and certificates again, and answers how that went.
//!
//! 200 with the policies that were added, removed and changed; 422 with every mistake, by file and line, if anything could not
//! be read. What could not be read stays as it was.
//!
//! Bound: at most [`NAMES`] names in each list; the counts are complete.

use hyper::StatusCode;
use serde::Serialize;

use super::json;
use crate::{
    engine::Engine,
    http::{Problem, Reply},
    watch::Reload,
};

#[derive(Debug, Serialize)]
struct Outcome {
    rules_generation: u64,
    added: Policies,
    removed: Policies,
    changed: Policies,
}

#[derive(Debug, Serialize)]
struct Policies {
    count: usize,
    names: Vec<String>,
}

impl Policies {
    fn of(mut names: Vec<String>) -> Self {
        let count = names.len();
        names.truncate(NAMES);
        Self { count, names }
    }
}

pub(super) async fn run(engine: &Engine, reload: &Reload) -> Result<Reply, Problem> {
    let Some(outcome) = reload.done().await else {
        let detail = "the server is stopping; no file is read any more";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "The server is stopping", detail));
    };
    if !outcome.problems.is_empty() {
        let detail = outcome.problems.join("\n");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "What was read before stays in force", detail));
    }
    Ok(json(&Outcome {
        rules_generation: engine.rules_status().generation,
        added: Policies::of(outcome.changes.added),
        removed: Policies::of(outcome.changes.removed),
        changed: Policies::of(outcome.changes.changed),
    }))
}

/// Names in one list of the answer.
const NAMES: usize = 100;
