//! The numbers of a rule in one line, in the words of the rule file.

use ratekeeper_core::{AlgorithmSpec, Align, Refill, Rule, Weekday};

/// `token_bucket 100 per 1s, burst 200`
pub fn numbers(rule: &Rule) -> String {
    let (algorithm, quota) = (rule.algorithm(), rule.quota());
    let per = format!("{} {} per {}", algorithm.name(), quota.limit(), quota.period());
    let burst = quota.burst_or_limit();
    let mut written = match algorithm {
        AlgorithmSpec::TokenBucket { refill: Refill::Continuous } => format!("{per}, burst {burst}"),
        AlgorithmSpec::TokenBucket { refill: Refill::Stepwise } => format!("{per}, burst {burst}, stepwise"),
        AlgorithmSpec::LeakyBucket { shaped: false } => format!("{per}, capacity {burst}"),
        AlgorithmSpec::LeakyBucket { shaped: true } => format!("{per}, capacity {burst}, shaped"),
        AlgorithmSpec::FixedWindow { align: Align::Epoch } => per,
        AlgorithmSpec::FixedWindow { align: Align::FirstRequest } => format!("{per} from the first request"),
        AlgorithmSpec::FixedWindow { align: Align::Calendar(offset) } => format!("{per} of the calendar, UTC{offset}"),
        AlgorithmSpec::FixedWindow { align: Align::Local(calendar) } => {
            let week = match calendar.first_weekday() {
                Weekday::Monday => String::new(),
                day => format!(", weeks from {}", day.name()),
            };
            let month = match calendar.first_month_day() {
                1 => String::new(),
                day => format!(", months from day {day}"),
            };
            format!("{per} of the calendar, {}{week}{month}", calendar.zone())
        }
        AlgorithmSpec::SlidingCounter { buckets } => format!("{per} in {buckets} buckets"),
        AlgorithmSpec::Concurrency { lease } => {
            format!("{} {} at once, lease {lease}", algorithm.name(), quota.limit())
        }
        AlgorithmSpec::AutoBlock { block, grow, at_most } => {
            let grows = if grow > 1 {
                format!(", each {grow} times as long as the last, at most {at_most}")
            } else {
                String::new()
            };
            format!(
                "blocks for {block} after {} denials within {}{grows}; denials are written",
                quota.limit(),
                quota.period()
            )
        }
        _ => per,
    };
    if rule.is_shadow() {
        written.push_str(", shadow");
    }
    if !rule.is_enabled() {
        written.push_str(", disabled");
    }
    written
}
