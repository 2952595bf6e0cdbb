//! Validation of one rule: required fields, fields that its algorithm does not use, and its numbers.
//!
//! `ratekeeper-core` validates the numbers.

use ratekeeper_core::{
    AlgorithmSpec, Align, DEFAULT_BUCKETS, LocalCalendar, OnStoreFailure, Period, Quota, Refill, Rule, Span, UtcOffset,
    Weekday, Zone,
};

use super::failure_answer;
use crate::{
    duration,
    problem::{Report, Spot},
    spec::{AlgorithmWord, AlignWord, Count, DurationWord, RefillWord, RuleSpec, WeekdayWord},
};

/// The rule; `None` if a problem was reported.
pub(super) fn check(spec: &RuleSpec, spot: Spot<'_>, failure: OnStoreFailure, report: &mut Report) -> Option<Rule> {
    let before = report.count();
    report.missing(spot, "name", "the rule has no name; add one, such as `name: burst`");
    report.missing(spot, "limit", "the rule has no limit; add one, such as `limit: 100`");
    report.missing(spot, "algorithm", format!("the rule has no algorithm; use {ALGORITHMS}"));
    let word = spec.algorithm?;
    refuse_useless_fields(word, spot, report);
    if word == AlgorithmWord::Concurrency {
        let message =
            "concurrency needs a lease, after which a silent holder has let go; add one, such as `lease: 30s`";
        report.missing(spot, "lease", message);
    } else {
        report.missing(spot, "per", format!("{} needs a period; add one, such as `per: 1s`", word.word()));
    }
    blame_numbers(word, spec, spot, report);
    if report.count() > before {
        return None;
    }
    let rule = Rule::new(spec.name.as_deref()?, quota(spec)?, algorithm(word, spec, spot, report)?)
        .on_store_failure(spec.on_store_failure.map_or(failure, failure_answer))
        .shadow(spec.shadow.unwrap_or(false))
        .count_refused(spec.count_refused.unwrap_or(false))
        .enabled(spec.enabled.unwrap_or(true));
    (report.count() == before).then_some(rule)
}

/// Reports all problems that core finds in the numbers. Core reports one field at a time. So a reported field gets a
/// valid placeholder and the rule is compiled again. Missing and unreadable fields start with a placeholder.
fn blame_numbers(word: AlgorithmWord, spec: &RuleSpec, spot: Spot<'_>, report: &mut Report) {
    let calendar = spec.align == Some(AlignWord::Calendar);
    let harmless = DurationWord(Period::Span(if calendar { Span::DAY } else { Span::SECOND }));
    let mut probe = spec.clone();
    probe.name.get_or_insert_with(|| "rule".to_owned());
    probe.limit.get_or_insert(Count(1));
    if word == AlgorithmWord::Concurrency {
        probe.per = None;
        probe.lease.get_or_insert(harmless);
    } else {
        probe.lease = None;
        probe.per.get_or_insert(harmless);
    }
    // Fields that the algorithm does not use have been reported.
    if !matches!(word, AlgorithmWord::TokenBucket | AlgorithmWord::Gcra) {
        probe.burst = None;
    }
    if word != AlgorithmWord::LeakyBucket {
        probe.capacity = None;
    }
    let mut blamed = Vec::new();
    for _ in 0..MOST_NUMBERS {
        let (Some(quota), Some(algorithm)) = (quota(&probe), algorithm(word, &probe, spot, report)) else { return };
        let Err(error) = Rule::new(probe.name.as_deref().unwrap_or_default(), quota, algorithm).compile() else {
            return;
        };
        let mut problem = error.problem;
        // The placeholder is invalid, too; the field has been reported.
        if blamed.contains(&problem.field) {
            return;
        }
        blamed.push(problem.field);
        if problem.field == "per" && problem.found != "1mo" && problem.found != "1y" {
            // In the notation of rule files: `1h30m` rather than `5400s`.
            problem.found = spec.per.map_or(problem.found, |span| duration::format_period(span.0));
        }
        spot.blame(problem.field, report, problem.to_string());
        match problem.field {
            "name" => probe.name = Some("rule".to_owned()),
            "limit" => probe.limit = Some(Count(1)),
            "per" => probe.per = Some(harmless),
            "lease" => probe.lease = Some(harmless),
            // The period may be too short for any number of slices.
            "buckets" => (probe.buckets, probe.per) = (None, Some(harmless)),
            "utc_offset" => probe.utc_offset = None,
            "week_start" => probe.week_start = None,
            "month_day" => probe.month_day = None,
            "burst" => probe.burst = Some(Count(1)),
            _ => probe.capacity = Some(Count(1)),
        }
    }
}

/// The quota of a rule. Concurrency has no period; its quota has the lease in that field.
fn quota(spec: &RuleSpec) -> Option<Quota> {
    let limit = spec.limit?.0;
    let period = spec.lease.or(spec.per)?.0;
    let quota = match period {
        Period::Span(span) => Quota::per_micros(limit, span),
        Period::Month => Quota::per_month(limit),
        Period::Year => Quota::per_year(limit),
    };
    Some(match spec.burst.or(spec.capacity) {
        Some(Count(burst)) => quota.burst(burst),
        None => quota,
    })
}

fn algorithm(word: AlgorithmWord, spec: &RuleSpec, spot: Spot<'_>, report: &mut Report) -> Option<AlgorithmSpec> {
    Some(match word {
        AlgorithmWord::TokenBucket | AlgorithmWord::Gcra => AlgorithmSpec::TokenBucket {
            refill: match spec.refill {
                Some(RefillWord::Stepwise) => Refill::Stepwise,
                Some(RefillWord::Continuous) | None => Refill::Continuous,
            },
        },
        AlgorithmWord::LeakyBucket => AlgorithmSpec::LeakyBucket { shaped: spec.shaped.unwrap_or(false) },
        AlgorithmWord::FixedWindow => AlgorithmSpec::FixedWindow { align: align(spec) },
        AlgorithmWord::SlidingLog => AlgorithmSpec::SlidingLog,
        AlgorithmWord::SlidingCounter => {
            let buckets = spec.buckets.map_or(u64::from(DEFAULT_BUCKETS), |count| count.0);
            match u32::try_from(buckets) {
                Ok(buckets) => AlgorithmSpec::SlidingCounter { buckets },
                Err(_) => {
                    let message =
                        format!("buckets is {buckets}, not a number of slices the window can have; use fewer");
                    spot.blame("buckets", report, message);
                    return None;
                }
            }
        }
        AlgorithmWord::Concurrency => match spec.lease?.0 {
            Period::Span(lease) => AlgorithmSpec::Concurrency { lease },
            period @ (Period::Month | Period::Year) => {
                let period = duration::format_period(period);
                let message = format!("lease is {period}, which only the calendar can measure; use a span such as 30d");
                spot.blame("lease", report, message);
                return None;
            }
        },
    })
}

fn align(spec: &RuleSpec) -> Align {
    match spec.align {
        Some(AlignWord::FirstRequest) => Align::FirstRequest,
        Some(AlignWord::Calendar) => {
            let offset = spec.utc_offset.map_or(UtcOffset::UTC, |offset| offset.0);
            if spec.zone.is_none() && spec.week_start.is_none() && spec.month_day.is_none() {
                return Align::Calendar(offset);
            }
            let zone = spec.zone.map_or_else(|| Zone::fixed(offset), |zone| zone.0);
            let calendar =
                LocalCalendar::new(zone).week_start(spec.week_start.map_or(Weekday::Monday, WeekdayWord::day));
            Align::Local(calendar.month_day(spec.month_day.map_or(1, |day| u8::try_from(day.0).unwrap_or(u8::MAX))))
        }
        Some(AlignWord::Epoch) | None => Align::Epoch,
    }
}

/// Reports fields that have no effect with this algorithm, because they indicate a wrong expectation.
fn refuse_useless_fields(word: AlgorithmWord, spot: Spot<'_>, report: &mut Report) {
    use AlgorithmWord::{Concurrency, FixedWindow, Gcra, LeakyBucket, SlidingCounter, TokenBucket};
    let bucket = matches!(word, TokenBucket | Gcra);
    let fields = [
        ("per", word != Concurrency),
        ("burst", bucket),
        ("refill", bucket),
        ("capacity", word == LeakyBucket),
        ("shaped", word == LeakyBucket),
        ("align", word == FixedWindow),
        ("utc_offset", word == FixedWindow),
        ("zone", word == FixedWindow),
        ("week_start", word == FixedWindow),
        ("month_day", word == FixedWindow),
        ("buckets", word == SlidingCounter),
        ("lease", word == Concurrency),
        ("count_refused", word != Concurrency),
    ];
    for (field, useful) in fields {
        if useful || !spot.has(field) {
            continue;
        }
        let way_out = match (field, word) {
            ("burst", LeakyBucket) => "call it capacity",
            ("capacity", TokenBucket | Gcra) => "call it burst",
            ("per", Concurrency) => "leave it out: holders are counted, not requests over time",
            ("count_refused", _) => "leave it out: a refused request holds nothing",
            ("burst", _) => "leave it out: the whole limit may come at once",
            _ => "leave it out",
        };
        spot.blame_key(field, report, format!("{} has no use for {field}; {way_out}", word.word()));
    }
    let calendar = spot.node.get("align").is_some_and(|align| align.quoted() == "\"calendar\"");
    for field in ["utc_offset", "zone", "week_start", "month_day"] {
        if word == FixedWindow && spot.has(field) && !calendar {
            let message = format!("{field} moves calendar windows only; add `align: calendar`, or leave it out");
            spot.blame_key(field, report, message);
        }
    }
    if spot.has("zone") && spot.has("utc_offset") {
        spot.blame_key("utc_offset", report, "the zone has its offsets; leave out one of them");
    }
}

/// Bounds the number of compilations; one per field that can be reported.
const MOST_NUMBERS: usize = 8;

const ALGORITHMS: &str = "token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_counter or concurrency, as `algorithm: token_bucket`";
