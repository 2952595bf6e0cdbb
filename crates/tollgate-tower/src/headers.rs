//! A decision as header fields. All of them are written here, behind one switch, because the standard is still a draft.
//!
//! The fields are those of draft-ietf-httpapi-ratelimit-headers-11: two lists of structured-field strings (RFC 9651), one
//! item per rule.
//!
//! ```text
//! RateLimit-Policy: "burst";q=200;w=2, "daily";q=10000;w=86400     what is allowed at all
//! RateLimit:        "burst";r=199;t=1, "daily";r=9999;t=86400      what is left, and for how long at most that
//! Retry-After:      1                                              on a refusal: then it passes
//! ```
//!
//! Whoever obeys passes: waits are rounded up to whole seconds, what remains is rounded down. A refusal names only the
//! rules that refuse, so that no `t` runs longer than `Retry-After`. Rules that only watch are not shown to anybody.
//!
//! ```
//! use tollgate_core::{Micros, Policy, Quota, Rule, Take, Verb};
//! use tollgate_tower::headers::{HeaderStyle, RateLimitFields};
//!
//! let policy = Policy::new("api", [Rule::token_bucket("burst", Quota::per_minute(60).burst(2))])?;
//! let fields = RateLimitFields::new(&policy, HeaderStyle::Ietf); // once
//!
//! let mut key = policy.fresh();
//! let decision = policy.decide(&mut key, &Verb::Take(Take::now(1)), Micros::from_secs(1_700_000_000)).decision;
//! let mut told = Vec::new();
//! fields.for_each(&decision, |name, value| told.push(format!("{name}: {value}")));
//! assert_eq!(told, [r#"ratelimit-policy: "burst";q=60;w=60"#, r#"ratelimit: "burst";r=1;t=1"#]);
//! # Ok::<(), tollgate_core::PolicyError>(())
//! ```

mod pace;
mod structured;
mod style;

use std::fmt::Write;

use http::{HeaderMap, HeaderName, HeaderValue, header::Entry};
use tollgate_core::{DecidedBy, Decision, Policy, Source, Verdict};

use pace::Pace;
pub use style::{HeaderStyle, UnknownHeaderStyle};

/// What is allowed at all, one item per rule.
pub const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// What is left, one item per rule.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The fields of a policy's decisions, with everything worked out that does not change from one to the next.
#[derive(Clone, Debug)]
pub struct RateLimitFields {
    style: HeaderStyle,
    /// One per rule, in the order in which decisions tell them.
    rules: Vec<Shown>,
    policy: Option<HeaderValue>,
}

/// A rule as clients see it.
#[derive(Clone, Debug)]
struct Shown {
    name: String,
    /// The name as a structured-field string, quotes included.
    quoted: String,
    pace: Pace,
    shadow: bool,
}

impl RateLimitFields {
    /// Prepares the fields for decisions of this policy.
    pub fn new(policy: &Policy, style: HeaderStyle) -> Self {
        Self::of_rules(policy.rules().iter().map(|rule| Shown::new(rule.name().to_owned(), rule)).collect(), style)
    }

    /// Prepares them for decisions that several policies take together. Each rule goes by `policy/rule`, since two
    /// policies may well have a rule of the same name.
    pub fn of_several<'a>(policies: impl IntoIterator<Item = &'a Policy>, style: HeaderStyle) -> Self {
        let rules = policies.into_iter().flat_map(|policy| {
            policy.rules().iter().map(|rule| Shown::new(format!("{}/{}", policy.name(), rule.name()), rule))
        });
        Self::of_rules(rules.collect(), style)
    }

    fn of_rules(rules: Vec<Shown>, style: HeaderStyle) -> Self {
        let mut value = String::new();
        for rule in rules.iter().filter(|rule| !rule.shadow) {
            rule.pace.write_policy(&mut value, &rule.quoted);
        }
        // Only text that a header can carry gets this far; an empty list is said by leaving the field out.
        let policy = HeaderValue::try_from(value).ok().filter(|value| !value.is_empty());
        Self { style, rules, policy }
    }

    /// The style they are written in.
    pub fn style(&self) -> HeaderStyle {
        self.style
    }

    /// Hands over each field that this decision calls for, name in lower case first.
    pub fn for_each(&self, decision: &Decision, mut put: impl FnMut(&'static str, &str)) {
        if self.style.is_ietf() {
            if let Some(policy) = self.policy.as_ref().and_then(|value| value.to_str().ok()) {
                put("ratelimit-policy", policy);
            }
            let told = self.ratelimit(decision);
            if !told.is_empty() {
                put("ratelimit", &told);
            }
        }
        if let Some(numbers) = self.three_numbers(decision) {
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
        if let Some(seconds) = retry_after_seconds(decision) {
            put(RETRY_AFTER_NAME, &seconds.to_string());
        }
    }

    /// Adds the fields to a response. Lists another layer has written are added to; the more cautious of two
    /// `Retry-After` stands, and so do single numbers that are already there.
    pub fn insert_into(&self, decision: &Decision, headers: &mut HeaderMap) {
        self.for_each(decision, |name, value| {
            // What is put together here is digits, and names that have been made fit.
            let Ok(value) = HeaderValue::try_from(value) else { return };
            match headers.entry(name) {
                Entry::Vacant(vacant) => drop(vacant.insert(value)),
                Entry::Occupied(mut there) if name == RETRY_AFTER_NAME => {
                    if seconds_of(there.get()).zip(seconds_of(&value)).is_some_and(|(old, new)| new > old) {
                        there.insert(value);
                    }
                }
                Entry::Occupied(mut there) if is_list(name) => there.append(value),
                Entry::Occupied(_) => {}
            }
        });
    }

    /// The names of the rules that refuse, for a problem's `violated-policies`.
    pub fn violated<'a>(&'a self, decision: &'a Decision) -> impl Iterator<Item = &'a str> {
        let blocked = decision.decided_by == DecidedBy::Block;
        self.shown(decision).filter(move |(_, told)| blocked || !told.is_allowed()).map(|(rule, _)| rule.name.as_str())
    }

    /// Rules that take part, each with what it said. A policy may have changed since; then the shorter list counts.
    fn shown<'a>(
        &'a self,
        decision: &'a Decision,
    ) -> impl Iterator<Item = (&'a Shown, &'a tollgate_core::RuleDecision)> {
        self.rules.iter().zip(decision.rules.iter()).filter(|(rule, told)| !rule.shadow && !told.shadow)
    }

    fn ratelimit(&self, decision: &Decision) -> String {
        let mut value = String::new();
        if decision.source == Source::Open {
            return value; // Nobody counted, so nobody knows.
        }
        let blocked = match (decision.decided_by, decision.verdict) {
            (DecidedBy::Block, Verdict::Deny { retry_after }) => Some(retry_after),
            _ => None,
        };
        for (rule, told) in self.shown(decision) {
            let (remaining, window) = match blocked {
                Some(retry_after) => (0, Some(retry_after)),
                None if !decision.is_allowed() && told.is_allowed() => continue,
                None => (told.remaining, rule.pace.effective_window(told)),
            };
            structured::separate(&mut value);
            // Writing to a string cannot fail.
            let _ = write!(value, "{};r={remaining}", rule.quoted);
            if let Some(window) = window {
                let _ = write!(value, ";t={}", window.as_secs_ceil());
            }
        }
        value
    }

    /// Limit, remaining and seconds until all of it is back, for styles that can tell of one rule only.
    fn three_numbers(&self, decision: &Decision) -> Option<[u64; 3]> {
        let nobody_is_held = match decision.decided_by {
            DecidedBy::Nothing => true,
            DecidedBy::Rule(index) => decision.rules.get(index).is_none_or(|rule| rule.shadow),
            DecidedBy::Block => false,
        };
        if nobody_is_held || decision.source == Source::Open || !(self.style.is_ietf_06() || self.style.is_x()) {
            return None;
        }
        let reset = decision.reset_after().max(decision.retry_after().unwrap_or_default());
        Some([decision.limit(), decision.remaining(), reset.as_secs_ceil()])
    }
}

impl Shown {
    fn new(name: String, rule: &tollgate_core::ReadyRule) -> Self {
        let quoted = structured::quoted(&name);
        Self { name, quoted, pace: Pace::of(rule), shadow: rule.is_shadow() }
    }
}

/// Whole seconds after which a refused request passes, at least 1; `None` if it was not refused, or waiting cannot help.
pub fn retry_after_seconds(decision: &Decision) -> Option<u64> {
    match decision.verdict {
        Verdict::Deny { retry_after } => Some(retry_after.as_secs_ceil().max(1)),
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
#[path = "headers/tests.rs"]
mod tests;
