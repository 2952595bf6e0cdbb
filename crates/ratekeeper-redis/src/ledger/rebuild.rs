//! Algorithm states rebuilt from the numbers of a decision.
//!
//! A decision of the store states, per rule, how many permits remain and when the key is at rest. That is less than the
//! stored state, so the state built here is the strictest that these numbers allow: it never holds less, and nothing in
//! it lapses earlier. For a share of a limit the used part is scaled down with the limit, and what is free rounds down.
//!
//! | algorithm | from the numbers |
//! |---|---|
//! | bucket | a level that drains in `reset_after`, at most what `remaining` leaves |
//! | stepwise | ticks counted back from the moment of rest |
//! | fixed window | the window that ends at the moment of rest |
//! | log, counter | all permits at the latest moment that `reset_after` allows |
//! | concurrency | one lease without a known holder, until the last one ends |

use ratekeeper_core::{
    LeaseId, Span, Timestamp,
    algorithm::{Algorithm, AnyAlgorithm, CounterState, Lease, LeaseState, LogState, Meter, Schedule, State},
    bounds::MAX_LEVEL,
};

/// What the store reported of one rule.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RuleReport {
    /// Permits that would still have passed.
    pub(crate) remaining: u64,
    /// Time until the key is at rest.
    pub(crate) reset_after: Span,
}

/// The holder of permits that other processes hold, or that are not known in detail.
pub(super) const UNKNOWN_HOLDER: LeaseId = LeaseId((1 << 52) - 1);

/// The strictest state under `share` that `report`, given at `at` about `whole`, allows.
pub(super) fn rebuild(whole: &AnyAlgorithm, share: &AnyAlgorithm, report: RuleReport, at: Timestamp) -> State {
    if report.reset_after == Span::ZERO {
        return State::default();
    }
    let limit = share.limit();
    let free = scaled_down(report.remaining, limit, whole.limit());
    let used = limit.saturating_sub(free);
    let reset_at = at + report.reset_after;
    match share {
        AnyAlgorithm::Bucket(it) => {
            let AnyAlgorithm::Bucket(whole) = whole else { return State::default() };
            let by_time = whole.drained(at, at + report.reset_after);
            let by_permits = whole.capacity().saturating_sub(report.remaining * whole.unit());
            let level = if report.remaining > 0 { by_time.min(by_permits) } else { by_time };
            let scaled = (u128::from(level) * u128::from(it.capacity())).div_ceil(u128::from(whole.capacity()));
            let used = u64::try_from(scaled).unwrap_or(MAX_LEVEL).min(MAX_LEVEL);
            State::Meter(Meter { at, used })
        }
        AnyAlgorithm::Stepwise(it) => {
            let ticks = report.reset_after.as_micros().div_ceil(it.per().as_micros());
            let tick = reset_at - Span::from_micros(ticks.saturating_mul(it.per().as_micros()));
            let used = if free > 0 { used } else { used.max(ticks.saturating_mul(it.lump()).min(MAX_LEVEL)) };
            State::Meter(Meter { at: tick, used })
        }
        AnyAlgorithm::Window(it) => {
            let (start, windows) = match it.schedule() {
                Schedule::FirstRequest(per) => {
                    let windows = if free > 0 { 1 } else { report.reset_after.as_micros().div_ceil(per.as_micros()) };
                    (reset_at - Span::from_micros(windows.saturating_mul(per.as_micros())), windows)
                }
                Schedule::Epoch(_) | Schedule::Calendar(_) | Schedule::Local(_) if free > 0 => {
                    (it.used(&Meter::default(), reset_at - Span::from_micros(1)).1, 1)
                }
                Schedule::Epoch(per) => {
                    let start = it.used(&Meter::default(), at).1;
                    (start, reset_at.since(start).as_micros().div_ceil(per.as_micros()))
                }
                Schedule::Calendar(_) | Schedule::Local(_) => {
                    let start = it.used(&Meter::default(), at).1;
                    let (mut ends, mut windows) = (it.end(start), 1);
                    while ends < reset_at && windows < MOST_WINDOWS {
                        (ends, windows) = (it.end(ends), windows + 1);
                    }
                    (start, windows)
                }
            };
            let used = if free > 0 { used } else { limit.saturating_mul(windows).min(MAX_LEVEL) };
            State::Meter(Meter { at: start, used })
        }
        AnyAlgorithm::Log(it) => {
            let pair = (reset_at - it.window(), used);
            State::Log(Box::new(LogState::restore(at, 0, [pair])))
        }
        AnyAlgorithm::Counter(it) => {
            let start = reset_at - it.window() - it.slice();
            let pair = (start.as_micros() / it.slice().as_micros(), used);
            State::Counter(Box::new(CounterState::restore(at, [pair])))
        }
        AnyAlgorithm::Leases(_) => {
            let lease = Lease { id: UNKNOWN_HOLDER, permits: used, until: reset_at };
            State::Leases(Box::new(LeaseState::restore(at, vec![lease])))
        }
        AnyAlgorithm::AutoBlock(_) => State::default(),
    }
}

/// `part` of `whole`, as a part of `share`, rounded down.
fn scaled_down(part: u64, share: u64, whole: u64) -> u64 {
    let scaled = u128::from(part) * u128::from(share) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX).min(share)
}

/// Reservations reach 100 days ahead, and a day is the shortest window of a calendar.
const MOST_WINDOWS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use ratekeeper_core::{Policy, Take, Verb};
    use ratekeeper_testkit::random::{Kind, Random};

    /// Whatever the state was, a state rebuilt from its numbers admits nothing sooner than the state itself, now and at
    /// any later moment.
    #[test]
    fn a_rebuilt_state_is_never_looser() {
        for seed in 0..6_000 {
            let mut random = Random::new(seed);
            let kind = random.pick(&Kind::ALL);
            let policy = Policy::new("p", [random.rule("r", kind)]).unwrap();
            let limiting = policy.rules()[0].algorithm();
            let mut subject = policy.fresh();
            let mut now = random.beginning();
            let spans = [1, 1_000, 1_000_000];
            for step in 0..random.between(1, 12) {
                now = now + random.pause(&spans);
                let cost = random.cost(limiting.limit(), 1);
                let take = random.take(&spans).with_lease(LeaseId(step + 1));
                let _ = policy.decide(&mut subject, cost, &Verb::Take(take), now);
            }
            let look = policy.decide(&mut subject, 0, &Verb::Peek, now).decision.rules[0];
            let report = RuleReport { remaining: look.remaining, reset_after: look.reset_after };
            let mut rebuilt = policy.fresh();
            rebuilt.states[0] = rebuild(limiting, limiting, report, now);
            let mut later = now;
            for _ in 0..8 {
                let cost = random.between(1, limiting.limit());
                let take = Verb::Take(Take::within(Span::DAY));
                let truth = policy.decide(&mut subject.clone(), cost, &take, later).decision;
                let strict = policy.decide(&mut rebuilt.clone(), cost, &take, later).decision;
                assert!(
                    !strict.is_allowed() || truth.is_allowed() && truth.verdict.wait() <= strict.verdict.wait(),
                    "seed {seed} {kind:?}: {truth:?} {strict:?}\n{subject:?}\n{rebuilt:?}"
                );
                later = later + random.pause(&[report.reset_after.as_micros() / 3 + 1, 1_000]);
            }
        }
    }

    /// A share of a rebuilt state never has more free than its part of the whole.
    #[test]
    fn shares_of_a_rebuilt_state_sum_to_no_more_than_the_whole() {
        for seed in 0..3_000 {
            let mut random = Random::new(seed);
            let kind = random.pick(&[Kind::TokenBucket, Kind::Stepwise, Kind::Epoch, Kind::Log, Kind::Counter]);
            let rule = random.rule("r", kind);
            let nodes = random.between(2, 4);
            let share = crate::local_rules::share(&rule, nodes);
            let (whole, part) = (rule.compile().unwrap(), share.compile().unwrap());
            if part.limit() * nodes > whole.limit() {
                continue; // fewer permits than nodes: each keeps one
            }
            let at = Timestamp::from_micros(1_700_000_000_000_000);
            let mut subject = State::default();
            let cost = random.between(1, whole.limit());
            whole.charge(&mut subject, ratekeeper_core::algorithm::Charge { cost, at, lease: LeaseId(1) }, at);
            let now = at + random.pause(&[1_000, 1_000_000]);
            let look = whole.look(&subject, now);
            let report = RuleReport { remaining: look.remaining, reset_after: look.reset_at.since(now) };
            let rebuilt = part.look(&rebuild(&whole, &part, report, now), now);
            assert!(rebuilt.remaining * nodes <= look.remaining, "seed {seed} {kind:?}: {look:?} {rebuilt:?}");
        }
    }
}
