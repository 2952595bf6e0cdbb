//! Definition of a policy's rules as text, and its fingerprint in stored values.
//!
//! A stored value has numbers without names, so reading it requires the rules it was written under. Every process stores
//! the definition of its rules on the server, under their fingerprint. A process that reads a value with another
//! fingerprint reads that definition and migrates the state. One rule per line, its name last:
//!
//! ```text
//!   token_bucket continuous 100 1000000 200 burst
//!   sliding_log - 10000 86400000000 - daily
//! ```
//!
//! Shadow mode and `on_store_failure` are not part of it: they do not change the state.

use std::fmt::Write;

use ratekeeper_core::{
    AlgorithmSpec, Align, LocalCalendar, OnStoreFailure, Period, Policy, Quota, Refill, Rule, Span, UtcOffset, Weekday,
    Zone,
};
use sha2::{Digest, Sha256};

/// A policy's rules as text.
pub(crate) fn definition(policy: &Policy) -> String {
    let mut out = String::new();
    for ready in policy.rules() {
        let rule = ready.rule();
        let variant = match rule.algorithm() {
            AlgorithmSpec::TokenBucket { refill: Refill::Continuous } => "continuous".to_owned(),
            AlgorithmSpec::TokenBucket { refill: Refill::Stepwise } => "stepwise".to_owned(),
            AlgorithmSpec::LeakyBucket { shaped } => if shaped { "shaped" } else { "meter" }.to_owned(),
            AlgorithmSpec::FixedWindow { align: Align::Epoch } => "epoch".to_owned(),
            AlgorithmSpec::FixedWindow { align: Align::FirstRequest } => "first_request".to_owned(),
            AlgorithmSpec::FixedWindow { align: Align::Calendar(offset) } => offset.as_minutes().to_string(),
            AlgorithmSpec::FixedWindow { align: Align::Local(calendar) } => {
                let (week, month) = (calendar.first_weekday() as u8, calendar.first_month_day());
                format!("local:{week}:{month}:{}", calendar.zone())
            }
            AlgorithmSpec::SlidingCounter { buckets } => buckets.to_string(),
            AlgorithmSpec::AutoBlock { block, grow, at_most } => {
                format!("{}:{grow}:{}", block.as_micros(), at_most.as_micros())
            }
            _ => NONE.to_owned(),
        };
        let quota = rule.quota();
        let per = match quota.period() {
            Period::Span(span) => span.as_micros().to_string(),
            Period::Month => MONTH.to_owned(),
            Period::Year => YEAR.to_owned(),
        };
        let burst = if quota.names_burst() { quota.burst_or_limit().to_string() } else { NONE.to_owned() };
        let algorithm = rule.algorithm().name();
        let _ = writeln!(out, "{algorithm} {variant} {} {per} {burst} {}", quota.limit(), rule.name());
    }
    out
}

/// The policy of a definition; `None` if the text is not one.
pub(crate) fn parse(text: &str) -> Option<Policy> {
    let rules = text.lines().map(read_rule).collect::<Option<Vec<Rule>>>()?;
    // A policy without rules has an empty definition and no state.
    Policy::new("stored definition", rules).ok()
}

fn read_rule(line: &str) -> Option<Rule> {
    let mut words = line.splitn(6, ' ');
    let (algorithm, variant, limit) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    let (per, burst, name) = (words.next()?, words.next()?, words.next()?);
    let (mut quota, per) = match per {
        MONTH => (Quota::per_month(limit), Span::ZERO),
        YEAR => (Quota::per_year(limit), Span::ZERO),
        span => {
            let span = Span::from_micros(span.parse().ok()?);
            (Quota::per_micros(limit, span), span)
        }
    };
    if burst != NONE {
        quota = quota.burst(burst.parse().ok()?);
    }
    let algorithm = match (algorithm, variant) {
        ("token_bucket", "continuous") => AlgorithmSpec::TokenBucket { refill: Refill::Continuous },
        ("token_bucket", "stepwise") => AlgorithmSpec::TokenBucket { refill: Refill::Stepwise },
        ("leaky_bucket", variant) => AlgorithmSpec::LeakyBucket { shaped: variant == "shaped" },
        ("fixed_window", "epoch") => AlgorithmSpec::FixedWindow { align: Align::Epoch },
        ("fixed_window", "first_request") => AlgorithmSpec::FixedWindow { align: Align::FirstRequest },
        ("fixed_window", variant) if variant.starts_with("local:") => {
            let mut parts = variant.splitn(4, ':').skip(1);
            let (week, month) = (parts.next()?.parse::<usize>().ok()?, parts.next()?.parse().ok()?);
            let calendar = LocalCalendar::new(Zone::named(parts.next()?)?);
            let calendar = calendar.week_start(*Weekday::ALL.get(week)?).month_day(month);
            AlgorithmSpec::FixedWindow { align: Align::Local(calendar) }
        }
        ("fixed_window", minutes) => {
            AlgorithmSpec::FixedWindow { align: Align::Calendar(UtcOffset::minutes(minutes.parse().ok()?)) }
        }
        ("sliding_log", _) => AlgorithmSpec::SlidingLog,
        ("sliding_counter", buckets) => AlgorithmSpec::SlidingCounter { buckets: buckets.parse().ok()? },
        ("concurrency", _) => AlgorithmSpec::Concurrency { lease: per },
        ("auto_block", variant) => {
            let mut numbers = variant.splitn(3, ':').map(|number| number.parse().ok());
            let mut next = || numbers.next().flatten();
            let (block, grow, at_most) = (next()?, next()?, next()?);
            let (block, at_most) = (Span::from_micros(block), Span::from_micros(at_most));
            AlgorithmSpec::AutoBlock { block, grow, at_most }
        }
        _ => return None,
    };
    let rule = Rule::new(name, quota, algorithm);
    Some(match algorithm {
        AlgorithmSpec::AutoBlock { .. } => rule.on_store_failure(OnStoreFailure::Open),
        _ => rule,
    })
}

/// The first 40 bits of the definition's SHA-256.
pub(crate) fn fingerprint(definition: &str) -> u64 {
    let digest = Sha256::digest(definition.as_bytes());
    digest[..5].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

const NONE: &str = "-";
const MONTH: &str = "month";
const YEAR: &str = "year";

#[cfg(test)]
mod tests {
    use super::*;
    use ratekeeper_testkit::random::{Kind, Random};

    #[test]
    fn every_definition_can_be_parsed() {
        let mut random = Random::new(7);
        for _ in 0..2_000 {
            let kinds: Vec<Kind> =
                (0..random.between(1, 4)).map(|_| random.pick(&Kind::ALL)).chain([Kind::Local]).collect();
            let rules = kinds.iter().enumerate().map(|(index, kind)| random.rule(&format!("rule no {index}"), *kind));
            let policy = Policy::new("p", rules.collect::<Vec<_>>()).unwrap();
            let text = definition(&policy);
            let back = parse(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(back.rules(), policy.rules(), "{text}");
            assert_eq!(fingerprint(&definition(&back)), fingerprint(&text));
        }
    }

    #[test]
    fn shadow_mode_is_not_part_of_the_definition() {
        let rule = Rule::token_bucket("a", Quota::per_second(5));
        let plain = Policy::new("p", [rule.clone()]).unwrap();
        let shadow = Policy::new("q", [rule.shadow(true)]).unwrap();
        assert_eq!(definition(&plain), definition(&shadow));
        let other = Policy::new("p", [Rule::token_bucket("a", Quota::per_second(6))]).unwrap();
        assert_ne!(fingerprint(&definition(&plain)), fingerprint(&definition(&other)));
    }

    #[test]
    fn malformed_definitions_are_refused() {
        for text in ["nonsense", "token_bucket continuous x 1 - a", "quantum_bucket - 1 1 - a", "sliding_log - 0 1 - a"]
        {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
