//! Rules that come with a request, read by the reader of rule files: the same fields, the same messages.

use ratekeeper_core::{Effect, Rule};
use ratekeeper_rules::{Format, read_str};

/// Reads a JSON list of rules. On a mistake, all messages with their fields, such as `rules[0].limit: …`.
pub(crate) fn of_json(rules: &str) -> Result<Vec<Rule>, String> {
    of_policy("inline", "inline", &format!(",\"rules\":{rules}")).map(|(rules, _)| rules)
}

/// Rules and effect of a policy with these fields: JSON, each after a comma.
pub(crate) fn of_policy(domain: &str, policy: &str, fields: &str) -> Result<(Vec<Rule>, Effect), String> {
    let (domain, policy) = (serde_json::Value::from(domain), serde_json::Value::from(policy));
    let text = format!(r#"{{"domain":{domain},"policies":[{{"name":{policy}{fields}}}]}}"#);
    let file = read_str("rules", &text, Format::Json).map_err(|problems| {
        let messages: Vec<String> =
            problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect();
        messages.join("; ").replace("policies[0].", "")
    })?;
    let rules = file.policies().iter().flat_map(|entry| entry.policy.rules()).map(|rule| rule.rule().clone());
    let effect = file.policies().first().map_or(Effect::Limit, |entry| entry.policy.effect());
    Ok((rules.collect(), effect))
}

/// The most bytes of rules in a request.
pub(crate) const MAX_RULES_BYTES: usize = 8 * 1024;
