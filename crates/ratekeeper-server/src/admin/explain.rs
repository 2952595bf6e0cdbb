//! `POST /api/explain`: which policy matches a key or descriptor, its state, and when its next request would pass.
//!
//! On the admin port only: it shows the state of any key, which the tokens of the data ports do not cover.

use std::collections::BTreeMap;

use ratekeeper_core::{Decision, Policy, Take, Verb};
use serde::{Deserialize, Serialize};

use super::json;
use crate::{
    engine::{Engine, ExplainedSubject},
    http::{HttpResponse, Problem},
    request::{Descriptor, Request, Subject},
};

/// The body of `POST /api/explain`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainRequest {
    /// Not needed if the rule files have one domain.
    #[serde(default)]
    domain: Option<String>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    descriptor: BTreeMap<String, String>,
    #[serde(default)]
    cost: Option<u64>,
}

/// The reply.
#[derive(Debug, Serialize)]
struct ExplainView {
    domain: String,
    /// The explanation in words, the same as `ratekeeper explain` prints.
    text: String,
    subjects: Vec<SubjectView>,
}

#[derive(Debug, Serialize)]
struct SubjectView {
    /// `decided`, or why no rule decides.
    resolution: &'static str,
    policy: Option<String>,
    key: String,
    cost: u64,
    #[serde(flatten)]
    decision: Option<DecisionView>,
}

#[derive(Debug, Serialize)]
struct DecisionView {
    at_us: u64,
    verdict: &'static str,
    wait_us: u64,
    retry_after_us: Option<u64>,
    remaining: u64,
    limit: u64,
    rules: Vec<RuleView>,
}

#[derive(Debug, Serialize)]
struct RuleView {
    name: String,
    verdict: &'static str,
    remaining: u64,
    limit: u64,
    retry_after_us: Option<u64>,
    reset_after_us: u64,
    shadow: bool,
}

pub(super) async fn run(engine: &Engine, bytes: &[u8]) -> Result<HttpResponse, Problem> {
    let request: ExplainRequest = serde_json::from_slice(bytes).map_err(|error| {
        let example = r#"{"domain":"api","descriptor":{"user":"42"}}"#;
        Problem::bad_request(format!("{error}; send JSON such as {example}"))
    })?;
    let book = engine.rulebook();
    let domain = match (&request.domain, book.domains().as_slice()) {
        (Some(domain), _) => domain.clone(),
        (None, [only]) => (*only).to_owned(),
        (None, domains) => {
            let domains = domains.join(", ");
            return Err(Problem::bad_request(format!("give the domain; the rule files have {domains}")));
        }
    };
    let mut entries: Vec<(&str, &str)> = request.descriptor.iter().map(|(key, value)| (&**key, &**value)).collect();
    book.arrange(&domain, &mut entries);
    let descriptor = match (&request.key, entries.is_empty()) {
        (Some(key), true) => Descriptor::Key(key),
        (None, false) => Descriptor::Entries(&entries),
        _ => return Err(Problem::bad_request("give a key or a descriptor, and not both")),
    };
    let subjects = [Subject { descriptor, cost: request.cost, ..Subject::key("") }];
    let asked = Request { domain: &domain, subjects: &subjects, verb: Verb::Take(Take::now()) };
    let explained = engine.explain(&asked).await?;
    let text = explained.iter().map(|subject| subject.text.as_str()).collect::<Vec<_>>().join("\n");
    Ok(json(&ExplainView { domain, text, subjects: explained.into_iter().map(subject_view).collect() }))
}

fn subject_view(subject: ExplainedSubject) -> SubjectView {
    SubjectView {
        resolution: subject.resolution.name(),
        policy: subject.policy,
        key: subject.key,
        cost: subject.cost,
        decision: subject.decision.map(|(policy, decision)| decision_view(&policy, &decision)),
    }
}

fn decision_view(policy: &Policy, decision: &Decision) -> DecisionView {
    let rules = policy.rules().iter().zip(decision.rules.iter()).map(|(rule, decided)| RuleView {
        name: rule.name().to_owned(),
        verdict: decided.verdict.name(),
        remaining: decided.remaining,
        limit: decided.limit,
        retry_after_us: decided.verdict.retry_after_span().map(|span| span.as_micros()),
        reset_after_us: decided.reset_after.as_micros(),
        shadow: decided.shadow,
    });
    DecisionView {
        at_us: decision.decided_at.as_micros(),
        verdict: decision.verdict.name(),
        wait_us: decision.verdict.wait().as_micros(),
        retry_after_us: decision.verdict.retry_after_span().map(|span| span.as_micros()),
        remaining: decision.remaining(),
        limit: decision.limit(),
        rules: rules.collect(),
    }
}
