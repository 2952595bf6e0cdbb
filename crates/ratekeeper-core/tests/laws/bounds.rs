//! Laws 1 and 2: never over, never under.
//!
//! The bounds are those stated in the algorithm files, checked over every pair of admissions and computed from the rule
//! alone.

use ratekeeper_core::{AlgorithmSpec, Align, Period, Refill, Rule, Span, Timestamp, algorithm::AnyAlgorithm};
use ratekeeper_testkit::{
    gate::Gate,
    random::{Kind, Random},
};

/// Permits admitted at a time; negative ones were refunded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) at: u64,
    pub(crate) permits: i128,
}

/// Whether a history respects the bound of a rule; if not, where it does not.
pub(crate) fn within_bound(rule: &Rule, history: &[Flow]) -> Result<(), String> {
    let mut flows = history.to_vec();
    flows.sort_by_key(|flow| flow.at);
    for first in 0..flows.len() {
        let mut permits = 0;
        for last in first..flows.len() {
            permits += flows[last].permits;
            let span = flows[last].at - flows[first].at;
            // The end of a span is a take: a later refund cannot justify it.
            let excess = if flows[last].permits > 0 { over(rule, &flows, first, last, permits) } else { false };
            if excess {
                let named = rule.name();
                return Err(format!("{named}: {permits} permits in {span} us from {}: {flows:?}", flows[first].at));
            }
        }
    }
    Ok(())
}

fn over(rule: &Rule, flows: &[Flow], first: usize, last: usize, permits: i128) -> bool {
    let quota = rule.quota();
    let (limit, burst) = (i128::from(quota.limit()), i128::from(quota.burst_or_limit()));
    let per = i128::from(longest(rule).as_micros());
    let (from, until) = (i128::from(flows[first].at), i128::from(flows[last].at));
    let span = until - from;
    // A rounded rate is exact to a microsecond.
    let tick = i128::from(is_rounded(rule));
    match rule.algorithm() {
        AlgorithmSpec::TokenBucket { refill: Refill::Continuous } | AlgorithmSpec::LeakyBucket { shaped: false } => {
            permits * per > burst * per + limit * (span + tick)
        }
        AlgorithmSpec::TokenBucket { refill: Refill::Stepwise } => permits > burst + limit * (span / per + 1),
        // An even outflow: by the time the last one goes, all before it have dripped through.
        AlgorithmSpec::LeakyBucket { shaped: true } => (permits - flows[last].permits) * per > limit * (span + tick),
        AlgorithmSpec::FixedWindow { align: Align::Epoch } => from / per == until / per && permits > limit,
        AlgorithmSpec::FixedWindow { .. } => span < i128::from(shortest(rule).as_micros()) && permits > 2 * limit,
        AlgorithmSpec::SlidingLog | AlgorithmSpec::SlidingCounter { .. } | AlgorithmSpec::Concurrency { .. } => {
            span < per && permits > limit
        }
        other => panic!("no bound is stated for {other:?}"),
    }
}

/// Whether its rate is rounded.
pub(crate) fn is_rounded(rule: &Rule) -> bool {
    matches!(rule.compile(), Ok(AnyAlgorithm::Bucket(bucket)) if bucket.is_rounded())
}

/// The window of a rule at its longest.
pub(crate) fn longest(rule: &Rule) -> Span {
    match rule.quota().period() {
        Period::Span(span) => span,
        Period::Month => Span::from_micros(31 * Span::DAY.as_micros()),
        Period::Year => Span::from_micros(366 * Span::DAY.as_micros()),
    }
}

/// And at its shortest.
pub(crate) fn shortest(rule: &Rule) -> Span {
    match rule.quota().period() {
        Period::Span(span) => span,
        Period::Month => Span::from_micros(28 * Span::DAY.as_micros()),
        Period::Year => Span::from_micros(365 * Span::DAY.as_micros()),
    }
}

/// Permits admitted to a client that retries for one permit after each `retry_after`, for this long.
fn admitted_on_demand(rule: &Rule, start: Timestamp, span: Span) -> u64 {
    let mut gate = Gate::new(rule.clone()).starting_at(start);
    let mut admitted = 0;
    for asked in 0.. {
        assert!(asked < 1_000_000, "{rule:?} admits every request, or none");
        if gate.now > start + span {
            break;
        }
        let decision = gate.take(1);
        if decision.is_allowed() {
            admitted += 1;
        } else {
            gate.advance(decision.verdict.retry_after_span().expect("one permit is never too many"));
        }
    }
    admitted
}

/// The stated bound for a client that keeps retrying.
fn promised_on_demand(rule: &Rule, start: Timestamp, span: Span) -> Option<u64> {
    let quota = rule.quota();
    let (limit, burst, per) = (quota.limit(), quota.burst_or_limit(), longest(rule).as_micros());
    let start_in_window = start.as_micros() % per;
    match rule.algorithm() {
        // Every drop falls on a whole microsecond, so each may be up to one late.
        AlgorithmSpec::LeakyBucket { shaped: true } => {
            let queued = u128::from(burst - 1) * u128::from(per);
            let fallen = (u128::from(limit) * u128::from(span.as_micros()) + queued) / u128::from(per + limit);
            Some(u64::try_from(fallen).unwrap())
        }
        AlgorithmSpec::TokenBucket { refill: Refill::Continuous } | AlgorithmSpec::LeakyBucket { shaped: false } => {
            // A bucket so small that it is full again within a microsecond loses what drips into it beyond that.
            let spills = u128::from(burst) * u128::from(per) < u128::from(per) + u128::from(limit);
            let dripped = u128::from(limit) * u128::from(span.as_micros()) / u128::from(per);
            (!spills).then(|| burst + u64::try_from(dripped).unwrap())
        }
        AlgorithmSpec::TokenBucket { refill: Refill::Stepwise } => {
            Some(burst + limit.min(burst) * (span.as_micros() / per))
        }
        AlgorithmSpec::FixedWindow { align: Align::Epoch } => {
            Some(limit * (1 + (start_in_window + span.as_micros()) / per))
        }
        AlgorithmSpec::FixedWindow { align: Align::Calendar(_) } => Some(limit * (1 + span.as_micros() / per)),
        AlgorithmSpec::SlidingCounter { buckets } => {
            let slice = per.div_ceil(u64::from(buckets));
            Some(limit * (1 + span.as_micros() / (per + slice)))
        }
        // Exact: every window brings the whole limit again.
        _ => Some(limit * (1 + span.as_micros() / per)),
    }
}

#[test]
fn steady_demand_gets_all_that_was_promised() {
    let mut random = Random::new(2);
    for kind in Kind::ALL {
        for _ in 0..200 {
            let rule = random.rule("demand", kind);
            let start = random.beginning();
            let span = Span::from_micros(
                longest(&rule).as_micros() * random.between(1, 3) + random.below(longest(&rule).as_micros()),
            );
            let Some(promised) = promised_on_demand(&rule, start, span) else { continue };
            let admitted = admitted_on_demand(&rule, start, span);
            assert!(admitted >= promised, "{rule:?} from {start} for {span}: {admitted} of {promised}");
        }
    }
}
