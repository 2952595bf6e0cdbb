//! Numbers of their own for single keys, for a while.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tollgate_core::{Micros, Period, Rule, Store, bounds::MAX_KEY_BYTES};
use tollgate_rules::{Format, parse_duration, read_str};

use super::json;
use crate::{
    engine::{AskError, Engine},
    http::{Problem, Reply},
    rulebook::Exempt,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Put<'a> {
    domain: String,
    policy: String,
    key: String,
    #[serde(borrow)]
    rules: &'a RawValue,
    #[serde(default)]
    expires_in: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Remove {
    domain: String,
    policy: String,
    key: String,
}

/// An override, as it is told.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    domain: String,
    policy: String,
    key: String,
    rules: Vec<String>,
    expires_in_seconds: Option<u64>,
    /// `file` or `admin`.
    from: &'static str,
}

pub(super) fn told(engine: &Engine) -> Vec<Told> {
    let now = engine.store().now();
    let holds = |exempt: &Exempt| exempt.until.is_none_or(|until| until > now);
    let by_hand: Vec<Exempt> = engine.exempted().into_iter().filter(holds).collect();
    let same = |one: &Exempt| by_hand.iter().any(|other| one.is_for_key_of(other));
    let in_files: Vec<Exempt> = engine.overridden().into_iter().filter(|one| holds(one) && !same(one)).collect();
    let all = in_files.into_iter().map(|one| (one, "file")).chain(by_hand.into_iter().map(|one| (one, "admin")));
    all.take(MAX_TOLD)
        .map(|(exempt, from)| Told {
            from,
            rules: exempt.rules.iter().map(|rule| format!("{} {}", rule.name(), rule.quota())).collect(),
            expires_in_seconds: exempt.until.map(|until| (until - now).as_secs_ceil()),
            domain: exempt.domain,
            policy: exempt.policy,
            key: exempt.key,
        })
        .collect()
}

pub(super) fn put(engine: &Engine, bytes: &[u8]) -> Result<Reply, Problem> {
    let put: Put<'_> = serde_json::from_slice(bytes).map_err(|error| {
        let example = r#"{"domain":"api","policy":"per-user","key":"42","rules":[{"name":"second","algorithm":"token_bucket","limit":500,"per":"1s"}],"expires_in":"1h"}"#;
        Problem::bad_request(format!("{error}; send JSON such as {example}"))
    })?;
    if !engine.rulebook().has_policy(&put.domain, &put.policy) {
        let (policy, domain) = (&put.policy, &put.domain);
        return Err(Problem::bad_request(format!("there is no policy \"{policy}\" in the domain \"{domain}\"")));
    }
    if put.key.is_empty() || put.key.len() > MAX_KEY_BYTES {
        return Err(Problem::bad_request(format!("key should be 1 to {MAX_KEY_BYTES} bytes long")));
    }
    if engine.exempted().len() >= MAX_OVERRIDES {
        return Err(Problem::bad_request(format!("there are {MAX_OVERRIDES} overrides already; use a policy instead")));
    }
    let rules = rules(&put)?;
    let until = match &put.expires_in {
        None => None,
        Some(word) => match parse_duration(word) {
            Ok(Period::Span(span)) if span > Micros::ZERO => Some(engine.store().now() + span),
            Ok(_) => return Err(Problem::bad_request("expires_in should be a span such as 1h or 7d")),
            Err(problem) => return Err(Problem::bad_request(format!("expires_in is \"{word}\", {problem}"))),
        },
    };
    let Put { domain, policy, key, .. } = put;
    tracing::warn!(domain, policy, "a key was given numbers of its own");
    let done = engine.exempt(Exempt { domain, policy, key, rules, until });
    done.map_err(|error| Problem::from(AskError::from(error)))?;
    Ok(json(&told(engine)))
}

/// The rules, read by the same code as rule files, so that every mistake is told the same way.
fn rules(put: &Put<'_>) -> Result<Vec<Rule>, Problem> {
    let name = Value::from(put.policy.as_str());
    let domain = Value::from(put.domain.as_str());
    let text = format!(r#"{{"domain":{domain},"policies":[{{"name":{name},"rules":{}}}]}}"#, put.rules.get());
    let file = read_str("override", &text, Format::Json).map_err(|problems| {
        let told: Vec<String> =
            problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect();
        Problem::bad_request(told.join("; ").replace("policies[0].", ""))
    })?;
    let policies = file.policies().iter().flat_map(|entry| entry.policy.rules());
    Ok(policies.map(|rule| rule.rule().clone()).collect())
}

pub(super) fn remove(engine: &Engine, bytes: &[u8]) -> Result<Reply, Problem> {
    let Remove { domain, policy, key } = serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad_request(format!("{error}; name the domain, the policy and the key")))?;
    let found = engine.unexempt(&domain, &policy, &key).map_err(|error| Problem::from(AskError::from(error)))?;
    if !found {
        let in_file =
            engine.overridden().iter().any(|one| (&one.domain, &one.policy, &one.key) == (&domain, &policy, &key));
        let problem = if in_file {
            "that key's numbers stand in a rule file; change it there"
        } else {
            "that key has no numbers of its own"
        };
        return Err(Problem::bad_request(problem));
    }
    Ok(json(&told(engine)))
}

/// Overrides in force at once. Each set of numbers is a policy that the store has to keep.
const MAX_OVERRIDES: usize = 1_000;
/// More than anybody reads, and a page of bounded size.
const MAX_TOLD: usize = 10_000;
