//! Vectors in a store: replayed as `simulate` replays a file, on the clock of the vector.

use ratekeeper_rules::{Format, read_str};
use serde_json::{Map, Value};

use super::vector::Vector;
use crate::{
    policies,
    report::Failure,
    simulate::{Backend, JsonlWriter, Replay, Requests, StoreChoice},
};

/// The decision about each request.
pub(super) fn decisions_of_store(store: &StoreChoice, vector: &Vector) -> Result<Vec<Map<String, Value>>, Failure> {
    let rules = read_str(&vector.name, &vector.rules.to_string(), Format::Json).map_err(Failure::Rules)?;
    let mut found = policies::gather(&rules);
    let (Some(selected), true) = (found.pop(), found.is_empty()) else {
        return Err(Failure::Option(format!("{}: a vector has one policy", vector.name)));
    };
    let mut requests = Requests::of_text(&vector.name, csv_of(vector), selected.cost)?;
    let mut lines = Vec::new();
    let mut output = JsonlWriter::new(&mut lines, &selected.policy);
    let mut replay = Replay::new(Backend::new(store, selected.policy.clone())?, true);
    let replayed =
        replay.all(&mut requests, |decided| output.write(&decided.request, decided.decision).map_err(Failure::from));
    replay.clean_up();
    replayed?;
    output.finish()?;
    drop(output);
    let decisions = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| {
        let mut decision: Map<String, Value> = serde_json::from_slice(line).unwrap_or_default();
        for field in ["at_ms", "key", "cost", "op"] {
            decision.remove(field);
        }
        decision
    });
    Ok(decisions.collect())
}

/// The requests as a file of `simulate`.
fn csv_of(vector: &Vector) -> String {
    let mut text = "at_ms,key,op,cost,max_wait_ms\n".to_owned();
    for request in &vector.requests {
        let cost = request.cost.map(|cost| cost.to_string()).unwrap_or_default();
        let wait = request.max_wait_ms.as_ref().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!("{},{},{},{cost},{wait}\n", request.at_ms, request.key, request.op));
    }
    text
}
