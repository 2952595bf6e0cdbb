//! `/api/overrides`: lists, sets and removes overrides, the rules for single keys, with an optional expiry.
//!
//! Bound: at most [`MAX_OVERRIDES`] overrides set here; at most [`MAX_LISTED`] in a reply, including those of rule
//! files.

use ratekeeper_core::{Effect, Period, Rule, Span, Store, bounds::MAX_KEY_BYTES};
use ratekeeper_rules::parse_duration;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json;
use crate::{
    engine::Engine,
    http::{HttpResponse, Problem},
    inline_rules,
    request::RequestError,
    rulebook::Override,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PutOverride<'a> {
    domain: String,
    policy: String,
    key: String,
    #[serde(borrow, default)]
    rules: Option<&'a RawValue>,
    #[serde(default)]
    deny: bool,
    #[serde(default)]
    unlimited: bool,
    #[serde(default)]
    expires_in: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoveOverride {
    domain: String,
    policy: String,
    key: String,
}

/// An override as JSON.
#[derive(Debug, Serialize)]
pub(super) struct OverrideView {
    domain: String,
    policy: String,
    key: String,
    rules: Vec<String>,
    expires_in_seconds: Option<u64>,
    /// `file` or `admin`.
    from: &'static str,
}

/// The overrides in force, with those of the admin port in place of those of rule files.
pub(super) fn list(engine: &Engine) -> Vec<OverrideView> {
    let now = engine.store().now();
    let is_in_force = |one: &Override| one.until.is_none_or(|until| until > now);
    let by_admin: Vec<Override> = engine.admin_overrides().into_iter().filter(is_in_force).collect();
    let same = |one: &Override| by_admin.iter().any(|other| one.is_for_key_of(other));
    let in_files: Vec<Override> =
        engine.file_overrides().into_iter().filter(|one| is_in_force(one) && !same(one)).collect();
    let all = in_files.into_iter().map(|one| (one, "file")).chain(by_admin.into_iter().map(|one| (one, "admin")));
    all.take(MAX_LISTED)
        .map(|(one, from)| OverrideView {
            from,
            rules: match one.effect.name() {
                Some(effect) => vec![effect.to_owned()],
                None => one.rules.iter().map(|rule| format!("{} {}", rule.name(), rule.quota())).collect(),
            },
            expires_in_seconds: one.until.map(|until| until.since(now).as_secs_ceil()),
            domain: one.domain,
            policy: one.policy,
            key: one.key,
        })
        .collect()
}

/// Sets an override.
pub(super) fn put(engine: &Engine, bytes: &[u8]) -> Result<HttpResponse, Problem> {
    let put: PutOverride<'_> = serde_json::from_slice(bytes).map_err(|error| {
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
    if engine.admin_overrides().len() >= MAX_OVERRIDES {
        return Err(Problem::bad_request(format!("there are {MAX_OVERRIDES} overrides already; use a policy instead")));
    }
    let (rules, effect) = rules(&put)?;
    let until = match &put.expires_in {
        None => None,
        Some(text) => match parse_duration(text) {
            Ok(Period::Span(span)) if span > Span::ZERO => Some(engine.store().now() + span),
            Ok(_) => return Err(Problem::bad_request("expires_in should be a span such as 1h or 7d")),
            Err(problem) => return Err(Problem::bad_request(format!("expires_in is \"{text}\", {problem}"))),
        },
    };
    let PutOverride { domain, policy, key, .. } = put;
    tracing::warn!(domain, policy, "an override was set");
    let done = engine.add_override(Override { domain, policy, key, rules, effect, until });
    done.map_err(|error| Problem::from(RequestError::from(error)))?;
    Ok(json(&list(engine)))
}

/// Parses the rules with the parser of rule files, so that errors have the same messages.
fn rules(put: &PutOverride<'_>) -> Result<(Vec<Rule>, Effect), Problem> {
    let fields = [
        put.rules.map(|rules| format!(",\"rules\":{}", rules.get())),
        put.deny.then(|| ",\"deny\":true".to_owned()),
        put.unlimited.then(|| ",\"unlimited\":true".to_owned()),
    ];
    let fields = fields.into_iter().flatten().collect::<String>();
    inline_rules::of_policy(&put.domain, &put.policy, &fields).map_err(Problem::bad_request)
}

/// Removes an override of the admin port.
pub(super) fn remove(engine: &Engine, bytes: &[u8]) -> Result<HttpResponse, Problem> {
    let RemoveOverride { domain, policy, key } = serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad_request(format!("{error}; name the domain, the policy and the key")))?;
    let found =
        engine.remove_override(&domain, &policy, &key).map_err(|error| Problem::from(RequestError::from(error)))?;
    if !found {
        let in_file =
            engine.file_overrides().iter().any(|one| (&one.domain, &one.policy, &one.key) == (&domain, &policy, &key));
        let problem = if in_file {
            "the override of this key is in a rule file; change it there"
        } else {
            "this key has no override"
        };
        return Err(Problem::bad_request(problem));
    }
    Ok(json(&list(engine)))
}

/// Overrides set on the admin port at once. Each set of rules is a policy that the store keeps.
const MAX_OVERRIDES: usize = 1_000;
/// Overrides in one reply; bounds its size.
const MAX_LISTED: usize = 10_000;
