//! Explanation of the next request of a key: which policy matches, the key's state, and what each rule would decide.
//!
//! The state is read from the store, and the decision is computed from a copy of it. Nothing is charged or stored.

use std::{fmt::Write, sync::Arc};

use ratekeeper_core::{Ask, Decision, Policy, Store, Take, Verb};
use ratekeeper_http::explain::{Explanation, shown};

use super::{Engine, Resolution, resolve::Resolved};
use crate::request::{Request, RequestError};

/// The explanation of one subject.
#[derive(Debug)]
pub struct ExplainedSubject {
    /// How the subject is resolved. Only `Decided` has a decision.
    pub resolution: Resolution,
    /// The policy or ban that matches.
    pub policy: Option<String>,
    /// The key that is counted.
    pub key: String,
    /// Permits that are asked for.
    pub cost: u64,
    /// The decision about the next request, if a policy decides.
    pub decision: Option<(Arc<Policy>, Decision)>,
    /// The explanation, in the words of `ratekeeper explain`.
    pub text: String,
}

impl Engine {
    /// Explains what the next request of each subject would be answered, one subject after the other. The verb of the
    /// request is ignored.
    pub async fn explain(&self, request: &Request<'_>) -> Result<Vec<ExplainedSubject>, RequestError> {
        request.check()?;
        let book = self.book();
        let mut resolved = Resolved::new(request, &book, self)?;
        let mut explained = Vec::new();
        for (answer, target) in std::mem::take(&mut resolved.subjects) {
            let policy = answer.policy_name().map(str::to_owned);
            let mut subject = ExplainedSubject {
                resolution: answer.resolution,
                policy,
                key: answer.key.to_string(),
                cost: answer.cost,
                decision: None,
                text: String::new(),
            };
            let domain = shown(request.domain);
            match target.and_then(|index| resolved.targets.get(index)) {
                Some(target) => {
                    let ask = Ask::new(&target.entry.stored, &target.key).cost(target.cost);
                    let Some(key) = self.inner.store.inspect(&ask).await? else {
                        return Err(RequestError::invalid("this store cannot show the state of a key"));
                    };
                    let (policy, verb) = (&target.entry.policy, Verb::Take(Take::now()));
                    let decision = policy.decide(&mut key.state.clone(), target.cost, &verb, key.at).decision;
                    let explanation = Explanation {
                        policy,
                        before: &key.state,
                        verb,
                        cost: target.cost,
                        at: key.at,
                        decision: &decision,
                    };
                    subject.text = format!(
                        "domain {domain}, policy {}, {}\n{}",
                        shown(policy.name()),
                        explanation.request(&target.key),
                        explanation.text()
                    );
                    if key.held > 0 {
                        // Writing to a string cannot fail.
                        let _ = writeln!(subject.text, "{} permits are held in advance", key.held);
                    }
                    subject.decision = Some((Arc::clone(policy), decision));
                }
                None => subject.text = format!("domain {domain}: {}\n", undecided(&subject)),
            }
            explained.push(subject);
        }
        Ok(explained)
    }
}

/// Why no rule decides.
fn undecided(subject: &ExplainedSubject) -> String {
    let policy = subject.policy.as_deref().map(shown).unwrap_or_default();
    match subject.resolution {
        Resolution::RefusedAlways => format!("limit {policy} refuses every request (requests_per_unit is 0)."),
        Resolution::Unlimited => "the rule file exempts the request (unlimited).".to_owned(),
        Resolution::Replaced => "another limit of the request replaces this one.".to_owned(),
        Resolution::Unmatched => "no policy matches; the request is allowed.".to_owned(),
        Resolution::UnknownDomain => "no rule file has this domain; the request is allowed.".to_owned(),
        Resolution::SwitchedOff if policy.is_empty() => {
            "a switch turns all limits off; the request is allowed.".to_owned()
        }
        Resolution::SwitchedOff => {
            format!("policy {policy} matches, and switches turn all its rules off; the request is allowed.")
        }
        // Not reachable: a decided subject has a target.
        Resolution::Decided => format!("policy {policy} decides."),
    }
}
