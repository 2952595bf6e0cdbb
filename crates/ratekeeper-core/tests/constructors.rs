//! Every refusal of a constructor names the field, the value found and what would do instead.
//!
//! Nothing is refused while a rule is being described; [`Policy::new`] weighs the whole. So each mistake is made here
//! once, through the front door, and the words that reach the person who made it are checked.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

use std::time::Duration;

use ratekeeper_core::{
    AlgorithmSpec, Align, Period, Policy, PolicyError, Quota, Rule, Span, UtcOffset,
    bounds::{MAX_BUCKETS, MAX_LEASES, MAX_LOG_LIMIT, MAX_NAME_BYTES, MAX_PERIOD, MAX_PERMITS, MAX_RULES},
};
use ratekeeper_testkit::random::Random;

/// The message, after checking that the structured error names the same field and that the rule and policy are named.
#[track_caller]
fn refused(rule: Rule, field: &str) -> String {
    let name = rule.name().to_owned();
    let error = Policy::new("api", [rule]).expect_err("the rule should be refused");
    let PolicyError::Rule { policy, index: 0, error: inner } = &error else {
        panic!("expected a rule's error, found {error:?}");
    };
    assert_eq!((policy.as_str(), inner.rule.as_str()), ("api", name.as_str()));
    assert_eq!(inner.problem.field, field);
    let message = error.to_string();
    for part in
        [format!("policy \"api\": rule \"{name}\": {field} is {}, ", inner.problem.found), inner.problem.remedy.clone()]
    {
        assert!(message.contains(&part), "{message:?} lacks {part:?}");
    }
    message
}

#[track_caller]
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

/// One rule of every algorithm with this quota.
fn every_algorithm(quota: Quota) -> Vec<Rule> {
    vec![
        Rule::token_bucket("r", quota),
        Rule::gcra("r", quota),
        Rule::token_bucket_stepwise("r", quota),
        Rule::leaky_bucket("r", quota),
        Rule::leaky_bucket_shaped("r", quota),
        Rule::fixed_window("r", quota),
        Rule::fixed_window_aligned("r", quota, Align::FirstRequest),
        Rule::sliding_log("r", quota),
        Rule::sliding_counter("r", quota),
    ]
}

#[test]
fn a_limit_of_zero_is_refused() {
    for rule in every_algorithm(Quota::per_second(0)) {
        says(&refused(rule, "limit"), &["limit is 0", "refuses every request", "use 1 or more"]);
    }
    says(&refused(Rule::concurrency("r", 0, Duration::from_secs(1)), "limit"), &["limit is 0", "use 1 or more"]);
}

#[test]
fn a_limit_beyond_exact_counting_is_refused_with_the_largest_that_is_not() {
    for rule in every_algorithm(Quota::per_second(MAX_PERMITS + 1)) {
        says(&refused(rule, "limit"), &[&(MAX_PERMITS + 1).to_string(), "use at most"]);
    }
    says(&refused(Rule::fixed_window("r", Quota::per_second(u64::MAX)), "limit"), &[&u64::MAX.to_string()]);
    assert!(Policy::new("api", [Rule::fixed_window("r", Quota::per_second(MAX_PERMITS))]).is_ok());
}

#[test]
fn a_log_holds_only_so_many_entries() {
    let message = refused(Rule::sliding_log("r", Quota::per_second(MAX_LOG_LIMIT + 1)), "limit");
    says(&message, &[&(MAX_LOG_LIMIT + 1).to_string(), &format!("at most {MAX_LOG_LIMIT}"), "sliding_counter"]);
    assert!(Policy::new("api", [Rule::sliding_log("r", Quota::per_second(MAX_LOG_LIMIT))]).is_ok());
}

#[test]
fn only_so_many_may_hold_at_once() {
    let holders = |limit| Rule::concurrency("r", limit, Duration::from_secs(1));
    says(&refused(holders(MAX_LEASES + 1), "limit"), &[&(MAX_LEASES + 1).to_string(), &MAX_LEASES.to_string()]);
    assert!(Policy::new("api", [holders(MAX_LEASES)]).is_ok());
}

#[test]
fn a_period_of_zero_is_no_time_at_all() {
    for rule in every_algorithm(Quota::per_micros(1, Span::ZERO)) {
        says(&refused(rule, "per"), &["per is 0s", "no time at all", "such as"]);
    }
    for rule in every_algorithm(Quota::per(1, Duration::ZERO)) {
        refused(rule, "per");
    }
}

#[test]
fn a_period_longer_than_we_count_is_refused() {
    let too_long = Span::from_micros(MAX_PERIOD.as_micros() + 1);
    for rule in every_algorithm(Quota::per_micros(1, too_long)) {
        says(&refused(rule, "per"), &[&too_long.to_string(), "at most 3257d"]);
    }
    for rule in every_algorithm(Quota::per(1, Duration::MAX)) {
        refused(rule, "per");
    }
    assert!(Policy::new("api", [Rule::sliding_log("r", Quota::per_micros(1, MAX_PERIOD))]).is_ok());
    let advised = Quota::per_micros(1, Span::from_micros(3_257 * Span::DAY.as_micros()));
    assert!(Policy::new("api", [Rule::sliding_log("r", advised)]).is_ok(), "the advice is good");
}

#[test]
fn a_lease_of_zero_or_for_ever_is_refused_under_its_own_name() {
    says(&refused(Rule::concurrency("r", 1, Duration::ZERO), "lease"), &["lease is 0s", "use a span"]);
    says(&refused(Rule::concurrency("r", 1, Duration::MAX), "lease"), &["lease is", "at most"]);
}

#[test]
fn a_burst_of_zero_is_refused_under_the_name_it_was_given() {
    let quota = Quota::per_second(10).burst(0);
    for rule in [Rule::token_bucket("r", quota), Rule::gcra("r", quota), Rule::token_bucket_stepwise("r", quota)] {
        says(&refused(rule, "burst"), &["burst is 0", "use 1 or more"]);
    }
    let quota = Quota::per_second(10).capacity(0);
    for rule in [Rule::leaky_bucket("r", quota), Rule::leaky_bucket_shaped("r", quota)] {
        says(&refused(rule, "capacity"), &["capacity is 0", "use 1 or more"]);
    }
}

#[test]
fn a_burst_beyond_exact_units_is_refused() {
    let too_many = Quota::per_second(1).burst(MAX_PERMITS + 1);
    says(&refused(Rule::token_bucket("r", too_many), "burst"), &[&(MAX_PERMITS + 1).to_string()]);
    // 2^40 permits of a million units each do not fit below 2^50.
    let too_fine = Quota::per_second(1).burst(MAX_PERMITS);
    says(&refused(Rule::token_bucket("r", too_fine), "burst"), &[&MAX_PERMITS.to_string(), ";"]);
    says(&refused(Rule::leaky_bucket("r", too_fine), "capacity"), &[&MAX_PERMITS.to_string(), ";"]);
    let never_full = Quota::per_micros(1, MAX_PERIOD).burst(MAX_PERMITS);
    says(&refused(Rule::token_bucket_stepwise("r", never_full), "burst"), &["refill", "lower it"]);
}

/// The largest burst that fits, and the next one that does not: the bound is where it is said to be.
#[test]
fn the_bound_on_units_is_exact() {
    let most = (1_u64 << 50) / 1_000_000;
    assert!(Policy::new("api", [Rule::token_bucket("r", Quota::per_second(1).burst(most))]).is_ok());
    refused(Rule::token_bucket("r", Quota::per_second(1).burst(most + 1)), "burst");
}

#[test]
fn a_burst_is_refused_where_the_algorithm_has_no_use_for_it() {
    let quota = Quota::per_second(10).burst(20);
    for (rule, name) in [
        (Rule::fixed_window("r", quota), "fixed_window"),
        (Rule::sliding_log("r", quota), "sliding_log"),
        (Rule::sliding_counter("r", quota), "sliding_counter"),
        (Rule::new("r", quota, AlgorithmSpec::Concurrency { lease: Span::SECOND }), "concurrency"),
    ] {
        says(&refused(rule, "burst"), &["burst is 20", "no use for", "leave it out", name]);
    }
}

#[test]
fn slices_are_as_many_as_the_window_can_have() {
    let counter = |buckets| Rule::sliding_counter_with("r", Quota::per_second(10), buckets);
    says(&refused(counter(0), "buckets"), &["buckets is 0", "use 1 to 1000"]);
    says(&refused(counter(MAX_BUCKETS + 1), "buckets"), &["buckets is 1001", "use 1 to 1000"]);
    assert!(Policy::new("api", [counter(MAX_BUCKETS)]).is_ok());
    let tiny = |buckets| Rule::sliding_counter_with("r", Quota::per_micros(10, Span::from_micros(5)), buckets);
    says(&refused(tiny(6), "buckets"), &["buckets is 6", "use 1 to 5"]);
    assert!(Policy::new("api", [tiny(5)]).is_ok());
}

#[test]
fn only_the_calendar_knows_what_a_month_is() {
    for rule in every_algorithm(Quota::per_month(10)) {
        says(&refused(rule, "per"), &["per is 1mo", "align: calendar", "30d"]);
    }
    let calendar = Rule::fixed_window_aligned("r", Quota::per_month(10), Align::Calendar(UtcOffset::UTC));
    assert!(Policy::new("api", [calendar]).is_ok());
}

#[test]
fn the_calendar_knows_days_weeks_and_months_only() {
    let calendar = |quota| Rule::fixed_window_aligned("r", quota, Align::Calendar(UtcOffset::hours(-5)));
    for quota in [
        Quota::per_hour(10),
        Quota::per_second(10),
        Quota::per_micros(10, Span::from_micros(2 * Span::DAY.as_micros())),
    ] {
        says(&refused(calendar(quota), "per"), &["no calendar period", "1d", "1w", "1mo"]);
    }
    for quota in [Quota::per_day(10), Quota::per_week(10), Quota::per_month(10)] {
        assert!(Policy::new("api", [calendar(quota)]).is_ok());
    }
}

#[test]
fn an_offset_lies_within_eighteen_hours() {
    let at = |minutes| Rule::fixed_window_aligned("r", Quota::per_day(1), Align::Calendar(UtcOffset::minutes(minutes)));
    for minutes in [18 * 60 + 1, -18 * 60 - 1, i32::MAX, i32::MIN] {
        let found = UtcOffset::minutes(minutes).to_string();
        says(&refused(at(minutes), "utc_offset"), &[&found]);
    }
    for minutes in [18 * 60, -18 * 60] {
        assert!(Policy::new("api", [at(minutes)]).is_ok());
    }
}

#[test]
fn a_rule_needs_a_name_that_people_can_read() {
    let named = |name: &str| Rule::sliding_log(name, Quota::per_second(1));
    says(&refused(named(""), "name"), &["name is empty", "use 1 to 128 bytes"]);
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    says(&refused(named(&long), "name"), &["129 bytes long", "use 1 to 128 bytes"]);
    for odd in ["a\nb", "tab\t", "\0", "del\u{7f}"] {
        says(&refused(named(odd), "name"), &["control characters", "printable"]);
    }
    assert!(Policy::new("api", [named(&"x".repeat(MAX_NAME_BYTES))]).is_ok());
    assert!(Policy::new("api", [named("kürzer als 128 Bytes ✓")]).is_ok());
}

#[test]
fn a_policy_and_a_domain_need_names_too() {
    let rule = || Rule::sliding_log("r", Quota::per_second(1));
    for bad in [String::new(), "x".repeat(MAX_NAME_BYTES + 1), "a\u{1b}b".into()] {
        let policy = Policy::new(&bad, [rule()]).expect_err("a bad name");
        says(&policy.to_string(), &["policy name", "use 1 to 128 bytes"]);
        let domain = Policy::new("api", [rule()]).unwrap().in_domain(&bad).expect_err("a bad domain");
        says(&domain.to_string(), &["domain is", "use 1 to 128 bytes"]);
    }
}

#[test]
fn a_policy_needs_rules_and_not_too_many() {
    let none = Policy::new("api", []).expect_err("no rules");
    assert_eq!(none, PolicyError::NoRules { policy: "api".into() });
    says(&none.to_string(), &["policy \"api\" has no rules", "add one"]);

    let many = |count| (0..count).map(|index| Rule::sliding_log(format!("r{index}"), Quota::per_second(1)));
    let error = Policy::new("api", many(MAX_RULES + 1)).expect_err("too many");
    assert_eq!(error, PolicyError::TooManyRules { policy: "api".into(), found: MAX_RULES + 1, max: MAX_RULES });
    says(&error.to_string(), &["policy \"api\"", "33 rules", "32 is the most"]);
    assert!(Policy::new("api", many(MAX_RULES)).is_ok());
}

#[test]
fn two_rules_of_one_name_are_reported_with_their_position() {
    let rule = || Rule::sliding_log("same", Quota::per_second(1));
    let error = Policy::new("api", [rule(), rule().enabled(false)]).expect_err("a duplicate");
    assert_eq!(error, PolicyError::DuplicateRule { policy: "api".into(), index: 1, rule: "same".into() });
    says(&error.to_string(), &["policy \"api\"", "two rules are named \"same\"", "give each its own name"]);
}

#[test]
fn a_rule_that_is_not_enabled_is_checked_all_the_same() {
    refused(Rule::sliding_log("r", Quota::per_second(0)).enabled(false), "limit");
    refused(Rule::sliding_log("r", Quota::per_second(0)).shadow(true), "limit");
}

#[test]
fn a_mistake_in_a_later_rule_says_which() {
    let good = Rule::sliding_log("good", Quota::per_second(1));
    let error = Policy::new("api", [good, Rule::sliding_log("bad", Quota::per_second(0))]).expect_err("a mistake");
    assert!(matches!(error, PolicyError::Rule { index: 1, .. }), "{error:?}");
}

#[test]
fn replacing_a_rule_keeps_the_others_and_the_domain() {
    let rule = |name: &str, limit| Rule::sliding_log(name, Quota::per_second(limit));
    let policy = Policy::new("api", [rule("a", 1), rule("b", 2)]).unwrap().in_domain("shop").unwrap();
    let changed = policy.with_rule(rule("b", 3)).unwrap().with_rule(rule("c", 4)).unwrap();
    let limits: Vec<(&str, u64)> = changed.rules().iter().map(|it| (it.name(), it.rule().quota().limit())).collect();
    assert_eq!(limits, [("a", 1), ("b", 3), ("c", 4)]);
    assert_eq!((changed.domain(), changed.name()), ("shop", "api"));
    assert!(policy.with_rule(rule("a", 0)).is_err());
}

/// Limits up to 2^40, periods up to a year, bursts up to the limit: every algorithm accepts them, a log up to its bound.
#[test]
fn every_sensible_quota_is_accepted() {
    let mut random = Random::new(13);
    let year = 366 * Span::DAY.as_micros();
    let mut quotas = vec![
        Quota::per_micros(7_777, Span::from_micros(30 * Span::DAY.as_micros())),
        Quota::per_micros(12_345, Span::from_micros(30 * Span::DAY.as_micros())),
        Quota::per_day(100_003),
        Quota::per_micros(MAX_PERMITS, Span::from_micros(year)),
        Quota::per_micros(MAX_PERMITS, Span::from_micros(1)),
    ];
    for _ in 0..100_000 {
        let (limit, per) = (1 << random.below(41), 1 + random.below(year));
        let (limit, per) = (random.between(1, limit), per >> random.below(45));
        quotas.push(Quota::per_micros(limit, Span::from_micros(per.max(1))));
    }
    for quota in quotas {
        let burst = random.between(1, quota.limit());
        for rule in every_algorithm(quota) {
            let is_bucket =
                matches!(rule.algorithm(), AlgorithmSpec::TokenBucket { .. } | AlgorithmSpec::LeakyBucket { .. });
            let is_log = rule.algorithm() == AlgorithmSpec::SlidingLog;
            let narrow = matches!(rule.algorithm(), AlgorithmSpec::SlidingCounter { .. })
                && matches!(quota.period(), Period::Span(span) if span.as_micros() < 10);
            if (is_log && quota.limit() > MAX_LOG_LIMIT) || narrow {
                continue;
            }
            assert!(rule.compile().is_ok(), "{rule:?}");
            if is_bucket {
                let with_burst = Rule::new("r", quota.burst(burst), rule.algorithm());
                assert!(with_burst.compile().is_ok(), "{with_burst:?}");
            }
        }
    }
}
