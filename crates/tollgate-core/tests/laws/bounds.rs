//! Laws 1 and 2: never over, never under.
//!
//! The bounds are those the algorithms state in their own files, checked the long way round: over every pair of
//! admissions, and from nothing but the rule as it was written down.

use tollgate_core::{Algorithm, Align, Micros, Period, Refill, Rule};
use tollgate_testkit::{
    gate::Gate,
    random::{Kind, Random},
};

/// Permits that went at a moment; negative ones were given back then.
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
            // The end of a span is a take: what is given back later cannot excuse it.
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
    let per = i128::from(longest(rule).0);
    let (from, until) = (i128::from(flows[first].at), i128::from(flows[last].at));
    let span = until - from;
    match rule.algorithm() {
        Algorithm::TokenBucket { refill: Refill::Continuous } | Algorithm::LeakyBucket { shaped: false } => {
            permits * per > burst * per + limit * span
        }
        Algorithm::TokenBucket { refill: Refill::Stepwise } => permits > burst + limit * (span / per + 1),
        // An even outflow: by the time the last one goes, all before it have dripped through.
        Algorithm::LeakyBucket { shaped: true } => (permits - flows[last].permits) * per > limit * span,
        Algorithm::FixedWindow { align: Align::Epoch } => from / per == until / per && permits > limit,
        Algorithm::FixedWindow { .. } => span < i128::from(shortest(rule).0) && permits > 2 * limit,
        Algorithm::SlidingLog | Algorithm::SlidingCounter { .. } | Algorithm::Concurrency { .. } => {
            span < per && permits > limit
        }
        other => panic!("no bound is stated for {other:?}"),
    }
}

/// The window of a rule at its longest.
pub(crate) fn longest(rule: &Rule) -> Micros {
    match rule.quota().period() {
        Period::Span(span) => span,
        Period::Month => Micros(31 * Micros::DAY.0),
    }
}

/// And at its shortest.
pub(crate) fn shortest(rule: &Rule) -> Micros {
    match rule.quota().period() {
        Period::Span(span) => span,
        Period::Month => Micros(28 * Micros::DAY.0),
    }
}

/// Admitted to somebody who asks for one permit whenever told to, for so long.
fn admitted_on_demand(rule: &Rule, start: Micros, span: Micros) -> u64 {
    let mut gate = Gate::new(rule.clone()).starting_at(start);
    let mut admitted = 0;
    for asked in 0.. {
        assert!(asked < 1_000_000, "{rule:?} lets everybody pass, or nobody");
        if gate.now > start + span {
            break;
        }
        let decision = gate.take(1);
        if decision.is_allowed() {
            admitted += 1;
        } else {
            gate.advance(decision.retry_after().expect("one permit is never too many"));
        }
    }
    admitted
}

/// What the design promises to somebody who keeps asking.
fn promised_on_demand(rule: &Rule, start: Micros, span: Micros) -> Option<u64> {
    let quota = rule.quota();
    let (limit, burst, per) = (quota.limit(), quota.burst_or_limit(), longest(rule).0);
    let start_in_window = start.0 % per;
    match rule.algorithm() {
        // Every drop falls on a whole microsecond, so each may be up to one late.
        Algorithm::LeakyBucket { shaped: true } => {
            let queued = u128::from(burst - 1) * u128::from(per);
            let fallen = (u128::from(limit) * u128::from(span.0) + queued) / u128::from(per + limit);
            Some(u64::try_from(fallen).unwrap())
        }
        Algorithm::TokenBucket { refill: Refill::Continuous } | Algorithm::LeakyBucket { shaped: false } => {
            // A bucket so small that it is full again within a microsecond loses what drips into it beyond that.
            let spills = u128::from(burst) * u128::from(per) < u128::from(per) + u128::from(limit);
            let dripped = u128::from(limit) * u128::from(span.0) / u128::from(per);
            (!spills).then(|| burst + u64::try_from(dripped).unwrap())
        }
        Algorithm::TokenBucket { refill: Refill::Stepwise } => Some(burst + limit.min(burst) * (span.0 / per)),
        Algorithm::FixedWindow { align: Align::Epoch } => Some(limit * (1 + (start_in_window + span.0) / per)),
        Algorithm::FixedWindow { align: Align::Calendar(_) } => Some(limit * (1 + span.0 / per)),
        Algorithm::SlidingCounter { buckets } => {
            let slice = per.div_ceil(u64::from(buckets));
            Some(limit * (1 + span.0 / (per + slice)))
        }
        // Exact: every window brings the whole limit again.
        _ => Some(limit * (1 + span.0 / per)),
    }
}

#[test]
fn steady_demand_gets_all_that_was_promised() {
    let mut random = Random::new(2);
    for kind in Kind::ALL {
        for _ in 0..200 {
            let rule = random.rule("demand", kind);
            let start = random.beginning();
            let span = Micros(longest(&rule).0 * random.between(1, 3) + random.below(longest(&rule).0));
            let Some(promised) = promised_on_demand(&rule, start, span) else { continue };
            let admitted = admitted_on_demand(&rule, start, span);
            assert!(admitted >= promised, "{rule:?} from {start} for {span}: {admitted} of {promised}");
        }
    }
}
