//! The rules of a policy written down, and the fingerprint that values carry of them.
//!
//! A value is numbers without names: it can only be read by somebody who knows the rules it was counted under. Each
//! process writes its rules down on the server, under their fingerprint; one that meets a value with another
//! fingerprint looks them up and carries the state over. One rule per line, its name last:
//!
//! ```text
//!   token_bucket continuous 100 1000000 200 burst
//!   sliding_log - 10000 86400000000 - daily
//! ```
//!
//! What only says how to answer (shadow, what to do when the store fails) is no part of it.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use tollgate_core::{Algorithm, Align, Micros, Period, Policy, Quota, Refill, Rule, UtcOffset};

/// A policy's rules as text.
pub(crate) fn write_down(policy: &Policy) -> String {
    let mut out = String::new();
    for ready in policy.rules() {
        let rule = ready.rule();
        let variant = match rule.algorithm() {
            Algorithm::TokenBucket { refill: Refill::Continuous } => "continuous".to_owned(),
            Algorithm::TokenBucket { refill: Refill::Stepwise } => "stepwise".to_owned(),
            Algorithm::LeakyBucket { shaped } => if shaped { "shaped" } else { "meter" }.to_owned(),
            Algorithm::FixedWindow { align: Align::Epoch } => "epoch".to_owned(),
            Algorithm::FixedWindow { align: Align::FirstRequest } => "first_request".to_owned(),
            Algorithm::FixedWindow { align: Align::Calendar(offset) } => offset.as_minutes().to_string(),
            Algorithm::SlidingCounter { buckets } => buckets.to_string(),
            _ => NONE.to_owned(),
        };
        let quota = rule.quota();
        let per = match quota.period() {
            Period::Span(span) => span.0.to_string(),
            Period::Month => MONTH.to_owned(),
        };
        let burst = if quota.names_burst() { quota.burst_or_limit().to_string() } else { NONE.to_owned() };
        let algorithm = rule.algorithm().name();
        let _ = writeln!(out, "{algorithm} {variant} {} {per} {burst} {}", quota.limit(), rule.name());
    }
    out
}

/// The policy that was written down, or none if this is not how we write.
pub(crate) fn read_back(text: &str) -> Option<Policy> {
    let rules = text.lines().map(read_rule).collect::<Option<Vec<Rule>>>()?;
    // Policies of which every rule is switched off have nothing to write down, and nothing to carry over.
    Policy::new("read back", rules).ok()
}

fn read_rule(line: &str) -> Option<Rule> {
    let mut words = line.splitn(6, ' ');
    let (algorithm, variant, limit) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    let (per, burst, name) = (words.next()?, words.next()?, words.next()?);
    let (mut quota, per) = match per {
        MONTH => (Quota::per_month(limit), Micros::ZERO),
        span => {
            let span = Micros(span.parse().ok()?);
            (Quota::per_micros(limit, span), span)
        }
    };
    if burst != NONE {
        quota = quota.burst(burst.parse().ok()?);
    }
    let algorithm = match (algorithm, variant) {
        ("token_bucket", "continuous") => Algorithm::TokenBucket { refill: Refill::Continuous },
        ("token_bucket", "stepwise") => Algorithm::TokenBucket { refill: Refill::Stepwise },
        ("leaky_bucket", variant) => Algorithm::LeakyBucket { shaped: variant == "shaped" },
        ("fixed_window", "epoch") => Algorithm::FixedWindow { align: Align::Epoch },
        ("fixed_window", "first_request") => Algorithm::FixedWindow { align: Align::FirstRequest },
        ("fixed_window", minutes) => {
            Algorithm::FixedWindow { align: Align::Calendar(UtcOffset::minutes(minutes.parse().ok()?)) }
        }
        ("sliding_log", _) => Algorithm::SlidingLog,
        ("sliding_counter", buckets) => Algorithm::SlidingCounter { buckets: buckets.parse().ok()? },
        ("concurrency", _) => Algorithm::Concurrency { lease: per },
        _ => return None,
    };
    Some(Rule::new(name, quota, algorithm))
}

/// Forty bits that tell one set of rules from another.
pub(crate) fn fingerprint(definition: &str) -> u64 {
    let digest = Sha256::digest(definition.as_bytes());
    digest[..5].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

const NONE: &str = "-";
const MONTH: &str = "month";

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_testkit::random::{Kind, Random};

    #[test]
    fn whatever_is_written_down_can_be_read_back() {
        let mut random = Random::new(7);
        for _ in 0..2_000 {
            let kinds: Vec<Kind> = (0..random.between(1, 4)).map(|_| random.pick(&Kind::ALL)).collect();
            let rules = kinds.iter().enumerate().map(|(index, kind)| random.rule(&format!("rule no {index}"), *kind));
            let policy = Policy::new("p", rules.collect::<Vec<_>>()).unwrap();
            let text = write_down(&policy);
            let back = read_back(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(back.rules(), policy.rules(), "{text}");
            assert_eq!(fingerprint(&write_down(&back)), fingerprint(&text));
        }
    }

    #[test]
    fn what_only_says_how_to_answer_leaves_no_trace() {
        let rule = Rule::token_bucket("a", Quota::per_second(5));
        let plain = Policy::new("p", [rule.clone()]).unwrap();
        let shadow = Policy::new("q", [rule.shadow(true)]).unwrap();
        assert_eq!(write_down(&plain), write_down(&shadow));
        let other = Policy::new("p", [Rule::token_bucket("a", Quota::per_second(6))]).unwrap();
        assert_ne!(fingerprint(&write_down(&plain)), fingerprint(&write_down(&other)));
    }

    #[test]
    fn what_is_not_ours_is_not_read() {
        for text in ["nonsense", "token_bucket continuous x 1 - a", "quantum_bucket - 1 1 - a", "sliding_log - 0 1 - a"]
        {
            assert!(read_back(text).is_none(), "{text}");
        }
    }
}
