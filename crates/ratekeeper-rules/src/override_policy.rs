//! Stored policies of overrides: the policy's name with a hash of the override's rules.
//!
//! Overrides of a policy that have the same rules share one stored policy. Their counts are not affected by changes of
//! the policy's rules. Server and library derive the same names, so they share counts.

use std::fmt::Write;

use ratekeeper_core::{
    AlgorithmSpec, Align, Effect, OnStoreFailure, Period, Policy, PolicyError, Refill, Rule, bounds::MAX_NAME_BYTES,
};

/// The stored policy of an override of this policy with these rules or this effect. It has the policy's speed.
pub fn override_policy(policy: &Policy, rules: &[Rule], effect: Effect) -> Result<Policy, PolicyError> {
    let text = effect.name().map_or_else(|| rules_text(rules), |name| format!("{name}\n"));
    let hash = text.bytes().fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    let mut kept = policy.name().len().min(MAX_NAME_BYTES - 17);
    while !policy.name().is_char_boundary(kept) {
        kept -= 1;
    }
    let name = format!("{}~{hash:016x}", &policy.name()[..kept]);
    with_override(policy, rules, effect)?.renamed(&name)
}

/// The policy with the rules or the effect of an override, under the policy's name.
pub fn with_override(policy: &Policy, rules: &[Rule], effect: Effect) -> Result<Policy, PolicyError> {
    match (effect, rules) {
        (Effect::Limit, []) => Policy::new(policy.name(), []), // an error, as for a policy
        (Effect::Limit, rules) => policy.with_rules(rules.iter().cloned()),
        (effect, _) => Policy::with_effect(policy.name(), effect)?.in_domain(policy.domain()),
    }
}

/// The rules as text, one line each. Stored names contain a hash of it, so it must not change between versions.
fn rules_text(rules: &[Rule]) -> String {
    let mut text = String::new();
    for rule in rules {
        let variant = match rule.algorithm() {
            AlgorithmSpec::TokenBucket { refill: Refill::Stepwise } => "stepwise".to_owned(),
            AlgorithmSpec::LeakyBucket { shaped: true } => "shaped".to_owned(),
            AlgorithmSpec::FixedWindow { align: Align::FirstRequest } => "first_request".to_owned(),
            AlgorithmSpec::FixedWindow { align: Align::Calendar(offset) } => {
                format!("calendar{:+}", offset.as_minutes())
            }
            AlgorithmSpec::FixedWindow { align: Align::Local(calendar) } => {
                let (week, month) = (calendar.first_weekday() as u8, calendar.first_month_day());
                format!("local:{week}:{month}:{}", calendar.zone())
            }
            AlgorithmSpec::SlidingCounter { buckets } => buckets.to_string(),
            AlgorithmSpec::Concurrency { lease } => lease.as_micros().to_string(),
            AlgorithmSpec::AutoBlock { block, grow, at_most } => {
                format!("{}:{grow}:{}", block.as_micros(), at_most.as_micros())
            }
            _ => "-".to_owned(),
        };
        let quota = rule.quota();
        let period = match quota.period() {
            Period::Span(span) => span.as_micros().to_string(),
            Period::Month => "month".to_owned(),
            Period::Year => "year".to_owned(),
        };
        let flags =
            [("shadow", rule.is_shadow()), ("disabled", !rule.is_enabled()), ("count_refused", rule.counts_refused())];
        let flags: Vec<&str> = flags.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
        let on_failure = match rule.failure_answer() {
            OnStoreFailure::Open => "open",
            OnStoreFailure::Closed => "closed",
            OnStoreFailure::Local => "local",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} {variant} {} {period} {} {on_failure} [{}] {}",
            rule.algorithm().name(),
            quota.limit(),
            quota.burst_or_limit(),
            flags.join(","),
            rule.name()
        );
    }
    text
}

/// Parameters of FNV-1a, whose result is the same in every process and version.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use ratekeeper_core::{Quota, Speed};

    use super::*;

    /// A constant, because processes of different versions share a store.
    #[test]
    fn the_stored_name_is_the_same_in_every_version() {
        let policy =
            Policy::new("per-user", [Rule::gcra("r", Quota::per_minute(1))]).unwrap().in_domain("api").unwrap();
        let rules = [
            Rule::token_bucket("burst", Quota::per_second(10).burst(30)).shadow(true),
            Rule::sliding_log("daily", Quota::per_day(1_000)).on_store_failure(OnStoreFailure::Closed),
        ];
        let text =
            "token_bucket - 10 1000000 30 local [shadow] burst\nsliding_log - 1000 86400000000 1000 closed [] daily\n";
        assert_eq!(rules_text(&rules), text);
        assert_eq!(override_policy(&policy, &rules, Effect::Limit).unwrap().name(), "per-user~217217960d6c5801");
    }

    #[test]
    fn the_speed_is_that_of_the_policy() {
        let policy = Policy::new("per-user", [Rule::gcra("r", Quota::per_minute(1))]).unwrap();
        let policy = policy.in_domain("api").unwrap().with_speed(Speed::prepaid());
        let rules = [Rule::token_bucket("burst", Quota::per_second(10))];
        assert_eq!(override_policy(&policy, &rules, Effect::Limit).unwrap().speed(), Speed::prepaid());
    }

    #[test]
    fn rules_that_differ_in_anything_are_stored_apart() {
        let plain = || Rule::token_bucket("r", Quota::per_second(10));
        let different = [
            plain(),
            Rule::token_bucket_stepwise("r", Quota::per_second(10)),
            plain().shadow(true),
            plain().enabled(false),
            plain().count_refused(true),
            plain().on_store_failure(OnStoreFailure::Open),
            Rule::token_bucket("r", Quota::per_second(10).burst(11)),
            Rule::token_bucket("r", Quota::per_second(11)),
            Rule::token_bucket("r", Quota::per_minute(10)),
            Rule::token_bucket("s", Quota::per_second(10)),
            Rule::leaky_bucket("r", Quota::per_second(10)),
            Rule::leaky_bucket_shaped("r", Quota::per_second(10)),
            Rule::fixed_window("r", Quota::per_second(10)),
            Rule::fixed_window_aligned("r", Quota::per_second(10), Align::FirstRequest),
            Rule::sliding_counter_with("r", Quota::per_second(10), 4),
            Rule::sliding_counter_with("r", Quota::per_second(10), 5),
        ];
        let texts: std::collections::HashSet<String> =
            different.iter().map(|rule| rules_text(std::slice::from_ref(rule))).collect();
        assert_eq!(texts.len(), different.len());
    }
}
