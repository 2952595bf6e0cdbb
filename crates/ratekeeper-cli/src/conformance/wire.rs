//! Vectors over a wire of a server: HTTP, or the commands `RK.CHECK`, `RK.REFUND` and `RK.RESET` of RESP.
//!
//! Keys get a suffix that is different in each run, so that a run does not depend on earlier ones.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, Hasher},
    path::Path,
    time::Duration,
};

use serde_json::{Map, Value, json};

use super::vector::{Vector, VectorClock, VectorRequest};
use crate::{
    report::Failure,
    web::{Client, TlsArgs, token},
};

/// A connection to a server.
pub(super) struct Wire {
    protocol: WireClient,
    address: String,
    suffix: u64,
}

enum WireClient {
    Http(Box<Client>),
    Resp(Box<redis::Connection>),
}

impl Wire {
    pub(super) fn of(address: &str, tls: &TlsArgs, token_file: Option<&Path>) -> Result<Self, Failure> {
        let protocol = match address.strip_prefix("resp://") {
            Some(rest) => {
                let not_reached = |error: redis::RedisError| Failure::NotReached {
                    address: address.to_owned(),
                    cause: error.to_string(),
                };
                let client = redis::Client::open(format!("redis://{rest}")).map_err(not_reached)?;
                let connection = client.get_connection_with_timeout(TIMEOUT).map_err(not_reached)?;
                connection.set_read_timeout(Some(TIMEOUT)).map_err(not_reached)?;
                WireClient::Resp(Box::new(connection))
            }
            None => {
                let endpoint = address.parse().map_err(Failure::Option)?;
                let token = token(token_file, "RATEKEEPER_TOKEN")?;
                WireClient::Http(Box::new(Client::new(&endpoint, tls, token.as_ref())?))
            }
        };
        Ok(Self { protocol, address: address.to_owned(), suffix: RandomState::new().build_hasher().finish() })
    }

    /// Whether the vector can be run here: any clock will do, and the wire has its verbs.
    pub(super) fn serves(&self, vector: &Vector) -> bool {
        let has = |request: &VectorRequest| match self.protocol {
            WireClient::Http(_) => true,
            WireClient::Resp(_) => matches!(request.op.as_str(), "take" | "refund" | "reset"),
        };
        vector.clock == VectorClock::Any && vector.requests.iter().all(has)
    }

    /// The decision about each request.
    pub(super) fn decisions(&mut self, vector: &Vector) -> Result<Vec<Map<String, Value>>, Failure> {
        let domain = vector.rules["domain"].as_str().unwrap_or_default();
        // Admitted takes of each key, for `settle`: the cost and the time it was charged for.
        let mut takes: HashMap<&str, Vec<(u64, f64)>> = HashMap::new();
        let mut found = Vec::new();
        for request in &vector.requests {
            let key = format!("{}-{:016x}", request.key, self.suffix);
            let taken = takes.entry(&request.key).or_default();
            let decision = match &mut self.protocol {
                WireClient::Http(client) => over_http(client, domain, &key, request, taken)?,
                WireClient::Resp(connection) => over_resp(connection, domain, &key, request)
                    .map_err(|error| Failure::NotReached { address: self.address.clone(), cause: error.to_string() })?,
            };
            if decision.get("source").is_some_and(|source| source == "unknown_domain") {
                return Err(Failure::Option(format!(
                    "{}: the server has no rules for the domain {domain}; write them with `ratekeeper conformance rules --out \
                     DIR`, and start it with --rules DIR",
                    self.address
                )));
            }
            if request.op == "take" && decision.get("verdict").is_some_and(|verdict| verdict == "allow") {
                let number = |field: &str| decision.get(field).and_then(Value::as_f64).unwrap_or_default();
                taken.push((request.cost.unwrap_or(1), number("at_ms") + number("wait_us") / 1_000.0));
            }
            // A reset over RESP has no numbers.
            found.push(if decision.is_empty() { request.decision.clone() } else { decision });
        }
        Ok(found)
    }
}

fn over_http(
    client: &Client,
    domain: &str,
    key: &str,
    request: &VectorRequest,
    taken: &mut Vec<(u64, f64)>,
) -> Result<Map<String, Value>, Failure> {
    let mut body = json!({ "domain": domain, "key": key });
    match request.op.as_str() {
        "settle" => {
            let (reserved, at_ms) = taken.pop().unwrap_or_default();
            body["reserved"] = json!(reserved);
            body["actual"] = json!(request.cost);
            body["at_ms"] = json!(at_ms);
        }
        "peek" | "reset" => {}
        _ => {
            if let Some(cost) = request.cost {
                body["cost"] = json!(cost);
            }
            if let Some(wait) = &request.max_wait_ms {
                body["max_wait_ms"] = json!(wait);
            }
        }
    }
    let path = if request.op == "take" { "check" } else { request.op.as_str() };
    let answer = client.ask(&format!("/v1/{path}"), Some(body.to_string()))?;
    Ok(serde_json::from_slice(&answer).unwrap_or_default())
}

fn over_resp(
    connection: &mut redis::Connection,
    domain: &str,
    key: &str,
    request: &VectorRequest,
) -> Result<Map<String, Value>, redis::RedisError> {
    let name = match request.op.as_str() {
        "take" => "RK.CHECK",
        "refund" => "RK.REFUND",
        _ => "RK.RESET",
    };
    let mut command = redis::cmd(name);
    command.arg(domain).arg(key);
    if let Some(cost) = request.cost {
        command.arg("COST").arg(cost);
    }
    if let Some(wait) = &request.max_wait_ms {
        command.arg("WAIT").arg(wait.to_string());
    }
    let redis::Value::Array(fields) = command.query(connection)? else { return Ok(Map::new()) };
    let pairs = fields.chunks_exact(2).map(|pair| {
        let name = if let redis::Value::BulkString(name) = &pair[0] { text(name) } else { String::new() };
        let value = match &pair[1] {
            redis::Value::Int(number) => json!(number),
            redis::Value::BulkString(bytes) => json!(text(bytes)),
            redis::Value::SimpleString(text) => json!(text),
            _ => Value::Null,
        };
        (name, value)
    });
    Ok(pairs.collect())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Of a connection attempt and of an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
