//! Header fields of a decision: `RateLimit`, `RateLimit-Policy`, `Retry-After` and their predecessors.
//!
//! The standard is still a draft, so every style of fields is written here and selected by one [`HeaderStyle`]. The
//! default style is draft-ietf-httpapi-ratelimit-headers-11: two structured-field lists (RFC 9651), one item per rule.
//!
//! ```text
//! RateLimit-Policy: "burst";q=200;w=2, "daily";q=10000;w=86400     quota and window of each rule
//! RateLimit:        "burst";r=199;t=1, "daily";r=9999;t=86400      permits left, and for how long no more than these
//! Retry-After:      1                                              on a denial: seconds after which the request passes
//! ```
//!
//! A client that obeys the fields passes: waits are rounded up to whole seconds, remaining permits are rounded down. A denial
//! lists only the rules that deny, so no `t` exceeds `Retry-After`. Shadow rules do not appear. Under a concurrency rule the
//! certain time is that of leases that expire; with an [estimate](crate::HoldTimes), the fields have the estimate instead.
//!
//! ```
//! use ratekeeper_core::{Policy, Quota, Rule, Take, Timestamp, Verb};
//! use ratekeeper_http::{HeaderStyle, RateLimitFields};
//!
//! let policy = Policy::new("api", [Rule::token_bucket("burst", Quota::per_minute(60).burst(2))])?;
//! let fields = RateLimitFields::new(&policy, HeaderStyle::Ietf); // once per policy
//!
//! let mut key = policy.fresh();
//! let decision = policy.decide(&mut key, 1, &Verb::Take(Take::now()), Timestamp::from_secs(1_700_000_000)).decision;
//! let mut lines = Vec::new();
//! fields.for_each(&decision, |name, value| lines.push(format!("{name}: {value}")));
//! assert_eq!(lines, [r#"ratelimit-policy: "burst";q=60;w=60"#, r#"ratelimit: "burst";r=1;t=1"#]);
//! # Ok::<(), ratekeeper_core::PolicyError>(())
//! ```

mod parameters;
mod structured;
mod style;

use std::fmt::Write;

use http::{HeaderMap, HeaderName, HeaderValue, header::Entry};
use ratekeeper_core::{DecidedBy, Decision, Policy, ReadyRule, RuleDecision, Source, Span, Verdict};

use parameters::RuleParameters;
pub use style::{HeaderStyle, UnknownHeaderStyle};

/// Quota and window of each rule.
pub const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// Permits left, per rule.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The header fields of a policy's decisions. What does not depend on the decision is formatted once.
#[derive(Clone, Debug)]
pub struct RateLimitFields {
    style: HeaderStyle,
    /// In the order of the decisions' rules.
    rules: Vec<RuleItem>,
    policy: Option<HeaderValue>,
}

/// A rule as an item of the lists.
#[derive(Clone, Debug)]
struct RuleItem {
    name: String,
    /// The name as a structured-field string, quotes included.
    quoted: String,
    parameters: RuleParameters,
    shadow: bool,
}

impl RateLimitFields {
    /// Prepares the fields for decisions of this policy.
    pub fn new(policy: &Policy, style: HeaderStyle) -> Self {
        Self::of_rules(policy.rules().iter().map(|rule| RuleItem::new(rule.name().to_owned(), rule)).collect(), style)
    }

    /// Prepares the fields for decisions that combine several policies. Each rule is named `policy/rule`, because two
    /// policies may have a rule of the same name.
    pub fn of_several<'a>(policies: impl IntoIterator<Item = &'a Policy>, style: HeaderStyle) -> Self {
        let rules = policies.into_iter().flat_map(|policy| {
            policy.rules().iter().map(|rule| RuleItem::new(format!("{}/{}", policy.name(), rule.name()), rule))
        });
        Self::of_rules(rules.collect(), style)
    }

    fn of_rules(rules: Vec<RuleItem>, style: HeaderStyle) -> Self {
        let mut value = String::new();
        for rule in rules.iter().filter(|rule| !rule.shadow) {
            rule.parameters.write_policy(&mut value, &rule.quoted);
        }
        // Quoted names are printable ASCII, so the value is valid. An empty list is written by omitting the field.
        let policy = HeaderValue::try_from(value).ok().filter(|value| !value.is_empty());
        Self { style, rules, policy }
    }

    /// The style of the fields.
    pub fn style(&self) -> HeaderStyle {
        self.style
    }

    /// Calls `put` with the name, in lower case, and the value of each field of this decision.
    pub fn for_each(&self, decision: &Decision, put: impl FnMut(&'static str, &str)) {
        self.for_each_with(decision, None, put);
    }

    /// [`for_each`](Self::for_each) with the [estimated wait](crate::HoldTimes) of a denial: `Retry-After` and `t` are at
    /// most that.
    pub fn for_each_with(
        &self,
        decision: &Decision,
        estimated_wait: Option<Span>,
        mut put: impl FnMut(&'static str, &str),
    ) {
        if self.style.is_ietf() {
            if let Some(policy) = self.policy.as_ref().and_then(|value| value.to_str().ok()) {
                put("ratelimit-policy", policy);
            }
            let remaining = self.ratelimit(decision, estimated_wait);
            if !remaining.is_empty() {
                put("ratelimit", &remaining);
            }
        }
        if let Some(numbers) = self.limit_remaining_reset(decision) {
            let mut put_all = |names: [&'static str; 3]| {
                names.into_iter().zip(numbers).for_each(|(name, number)| put(name, &number.to_string()));
            };
            if self.style.is_ietf_06() {
                put_all(["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"]);
            }
            if self.style.is_x() {
                put_all(["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]);
            }
        }
        if let Some(seconds) = retry_after_seconds_with(decision, estimated_wait) {
            put(RETRY_AFTER_NAME, &seconds.to_string());
        }
    }

    /// Adds the fields to a response that may have fields of another layer: lists are extended, the longer `Retry-After`
    /// wins, other numbers are kept.
    pub fn insert_into(&self, decision: &Decision, headers: &mut HeaderMap) {
        self.insert_into_with(decision, None, headers);
    }

    /// [`insert_into`](Self::insert_into) with the [estimated wait](crate::HoldTimes) of a denial.
    pub fn insert_into_with(&self, decision: &Decision, estimated_wait: Option<Span>, headers: &mut HeaderMap) {
        self.for_each_with(decision, estimated_wait, |name, value| {
            // Digits and quoted names are always valid.
            let Ok(value) = HeaderValue::try_from(value) else { return };
            match headers.entry(name) {
                Entry::Vacant(vacant) => drop(vacant.insert(value)),
                Entry::Occupied(mut present) if name == RETRY_AFTER_NAME => {
                    if seconds_of(present.get()).zip(seconds_of(&value)).is_some_and(|(old, new)| new > old) {
                        present.insert(value);
                    }
                }
                Entry::Occupied(mut present) if is_list(name) => present.append(value),
                Entry::Occupied(_) => {}
            }
        });
    }

    /// The names of the rules that deny, for `violated-policies` of a problem.
    pub fn violated<'a>(&'a self, decision: &'a Decision) -> impl Iterator<Item = &'a str> {
        let blocked = decision.decided_by == DecidedBy::Block;
        self.visible(decision)
            .filter(move |(_, rule)| blocked || !rule.is_allowed())
            .map(|(item, _)| item.name.as_str())
    }

    /// The rules that are not in shadow mode, with their decisions. If the policy has changed since these fields were
    /// prepared, the shorter of the two lists counts.
    fn visible<'a>(&'a self, decision: &'a Decision) -> impl Iterator<Item = (&'a RuleItem, &'a RuleDecision)> {
        self.rules.iter().zip(decision.rules.iter()).filter(|(item, rule)| !item.shadow && !rule.shadow)
    }

    fn ratelimit(&self, decision: &Decision, estimated_wait: Option<Span>) -> String {
        let mut value = String::new();
        if decision.source == Source::Open {
            return value; // Not counted, so the remaining permits are unknown.
        }
        let blocked = match (decision.decided_by, decision.verdict) {
            (DecidedBy::Block, Verdict::Deny { retry_after }) => Some(retry_after),
            _ => None,
        };
        for (item, rule) in self.visible(decision) {
            let (remaining, window) = match blocked {
                Some(retry_after) => (0, Some(retry_after)),
                None if !decision.is_allowed() && rule.is_allowed() => continue,
                None => (rule.remaining, item.parameters.effective_window(rule)),
            };
            structured::separate(&mut value);
            // Writing to a string cannot fail.
            let _ = write!(value, "{};r={remaining}", item.quoted);
            if let Some(window) = window {
                let window = estimated_wait.map_or(window, |estimate| window.min(estimate.max(Span::SECOND)));
                let _ = write!(value, ";t={}", window.as_secs_ceil());
            }
        }
        value
    }

    /// Limit, remaining permits and seconds until the initial state, for styles that describe one rule only. `None` if no
    /// visible rule decided.
    fn limit_remaining_reset(&self, decision: &Decision) -> Option<[u64; 3]> {
        let is_visible = match decision.decided_by {
            DecidedBy::Nothing => false,
            DecidedBy::Rule(index) => decision.rules.get(index).is_some_and(|rule| !rule.shadow),
            DecidedBy::Block => true,
        };
        if !is_visible || decision.source == Source::Open || !(self.style.is_ietf_06() || self.style.is_x()) {
            return None;
        }
        let reset = decision.reset_after_span().max(decision.verdict.retry_after_span().unwrap_or_default());
        Some([decision.limit(), decision.remaining(), reset.as_secs_ceil()])
    }
}

impl RuleItem {
    fn new(name: String, rule: &ReadyRule) -> Self {
        let quoted = structured::quoted(&name);
        Self { name, quoted, parameters: RuleParameters::of(rule), shadow: rule.is_shadow() }
    }
}

/// Whole seconds after which a denied request passes, at least 1; `None` if it was allowed or can never pass.
pub fn retry_after_seconds(decision: &Decision) -> Option<u64> {
    retry_after_seconds_with(decision, None)
}

/// [`retry_after_seconds`] with the [estimated wait](crate::HoldTimes) of a denial, which is the value if there is one.
pub fn retry_after_seconds_with(decision: &Decision, estimated_wait: Option<Span>) -> Option<u64> {
    match decision.verdict {
        Verdict::Deny { retry_after } => Some(estimated_wait.unwrap_or(retry_after).as_secs_ceil().max(1)),
        Verdict::Allow { .. } | Verdict::Never => None,
    }
}

fn is_list(name: &str) -> bool {
    name == RATELIMIT || name == RATELIMIT_POLICY
}

fn seconds_of(value: &HeaderValue) -> Option<u64> {
    value.to_str().ok()?.trim().parse().ok()
}

const RETRY_AFTER_NAME: &str = "retry-after";

#[cfg(test)]
mod tests;
