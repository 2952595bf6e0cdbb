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

use tollgate_core::{
    LeaseId, Micros,
    algorithm::{Algorithm, CounterState, Lease, LeaseState, Limiting, LogState, Meter, Schedule, State},
    bounds::MAX_LEVEL,
};

/// What the store said of one rule.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RuleWord {
    /// Permits that would still have passed.
    pub(crate) remaining: u64,
    /// Time until the key is at rest.
    pub(crate) reset_after: Micros,
}

/// The holder of permits that other processes hold, or that are not known in detail.
pub(super) const UNKNOWN_HOLDER: LeaseId = LeaseId((1 << 52) - 1);

/// The strictest state under `share` that `word`, given at `at` about `whole`, allows.
pub(super) fn recall(whole: &Limiting, share: &Limiting, word: RuleWord, at: Micros) -> State {
    if word.reset_after == Micros::ZERO {
        return State::default();
    }
    let limit = share.limit();
    let free = scaled_down(word.remaining, limit, whole.limit());
    let used = limit.saturating_sub(free);
    let rests_at = at + word.reset_after;
    match share {
        Limiting::Bucket(it) => {
            let Limiting::Bucket(whole) = whole else { return State::default() };
            let by_time = word.reset_after.0.saturating_mul(whole.drain());
            let by_permits = whole.capacity().saturating_sub(word.remaining * whole.unit());
            let level = if word.remaining > 0 { by_time.min(by_permits) } else { by_time };
            let scaled = (u128::from(level) * u128::from(it.capacity())).div_ceil(u128::from(whole.capacity()));
            let used = u64::try_from(scaled).unwrap_or(MAX_LEVEL).min(MAX_LEVEL);
            State::Meter(Meter { at, used })
        }
        Limiting::Stepwise(it) => {
            let ticks = word.reset_after.0.div_ceil(it.per().0);
            let tick = rests_at - Micros(ticks.saturating_mul(it.per().0));
            let used = if free > 0 { used } else { used.max(ticks.saturating_mul(it.lump()).min(MAX_LEVEL)) };
            State::Meter(Meter { at: tick, used })
        }
        Limiting::Window(it) => {
            let (start, windows) = match it.schedule() {
                Schedule::FirstRequest(per) => {
                    let windows = if free > 0 { 1 } else { word.reset_after.0.div_ceil(per.0) };
                    (rests_at - Micros(windows.saturating_mul(per.0)), windows)
                }
                Schedule::Epoch(_) | Schedule::Calendar(_) if free > 0 => {
                    (it.used(&Meter::default(), rests_at - Micros(1)).1, 1)
                }
                Schedule::Epoch(per) => {
                    let start = it.used(&Meter::default(), at).1;
                    (start, (rests_at - start).0.div_ceil(per.0))
                }
                Schedule::Calendar(_) => {
                    let start = it.used(&Meter::default(), at).1;
                    let (mut ends, mut windows) = (it.end(start), 1);
                    while ends < rests_at && windows < MOST_WINDOWS {
                        (ends, windows) = (it.end(ends), windows + 1);
                    }
                    (start, windows)
                }
            };
            let used = if free > 0 { used } else { limit.saturating_mul(windows).min(MAX_LEVEL) };
            State::Meter(Meter { at: start, used })
        }
        Limiting::Log(it) => {
            let pair = (rests_at - it.window(), used);
            State::Log(Box::new(LogState::restore(at, 0, [pair])))
        }
        Limiting::Counter(it) => {
            let start = rests_at - it.window() - it.slice();
            let pair = (start.0 / it.slice().0, used);
            State::Counter(Box::new(CounterState::restore(at, [pair])))
        }
        Limiting::Leases(_) => {
            let lease = Lease { id: UNKNOWN_HOLDER, permits: used, until: rests_at };
            State::Leases(Box::new(LeaseState::restore(at, vec![lease])))
        }
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
    use tollgate_core::{Policy, Take, Verb};
    use tollgate_testkit::random::{Kind, Random};

    /// Whatever the state was, a state rebuilt from its numbers admits nothing sooner than the state itself, now and at
    /// any later moment.
    #[test]
    fn a_recalled_state_is_never_looser() {
        for seed in 0..6_000 {
            let mut random = Random::new(seed);
            let kind = random.pick(&Kind::ALL);
            let policy = Policy::new("p", [random.rule("r", kind)]).unwrap();
            let limiting = policy.rules()[0].limiting();
            let mut subject = policy.fresh();
            let mut now = random.beginning();
            let spans = [1, 1_000, 1_000_000];
            for step in 0..random.between(1, 12) {
                now = now + random.pause(&spans);
                let cost = random.cost(limiting.limit(), 1);
                let take = random.take(cost, &spans).held_as(LeaseId(step + 1));
                let _ = policy.decide(&mut subject, &Verb::Take(take), now);
            }
            let told = policy.decide(&mut subject, &Verb::Peek, now).decision.rules[0];
            let word = RuleWord { remaining: told.remaining, reset_after: told.reset_after };
            let mut recalled = policy.fresh();
            recalled.states[0] = recall(limiting, limiting, word, now);
            let mut later = now;
            for _ in 0..8 {
                let cost = random.between(1, limiting.limit());
                let take = Verb::Take(Take::within(cost, Micros::DAY));
                let truth = policy.decide(&mut subject.clone(), &take, later).decision;
                let strict = policy.decide(&mut recalled.clone(), &take, later).decision;
                assert!(
                    !strict.is_allowed() || truth.is_allowed() && truth.wait() <= strict.wait(),
                    "seed {seed} {kind:?}: {truth:?} {strict:?}\n{subject:?}\n{recalled:?}"
                );
                later = later + random.pause(&[word.reset_after.0 / 3 + 1, 1_000]);
            }
        }
    }

    /// A share of a recalled state never has more free than its part of the whole.
    #[test]
    fn shares_of_a_recalled_state_sum_to_no_more_than_the_whole() {
        for seed in 0..3_000 {
            let mut random = Random::new(seed);
            let kind = random.pick(&[Kind::TokenBucket, Kind::Stepwise, Kind::Epoch, Kind::Log, Kind::Counter]);
            let rule = random.rule("r", kind);
            let nodes = random.between(2, 4);
            let share = crate::fallback::share(&rule, nodes);
            let (whole, part) = (rule.limiting().unwrap(), share.limiting().unwrap());
            if part.limit() * nodes > whole.limit() {
                continue; // fewer permits than nodes: each keeps one
            }
            let at = Micros(1_700_000_000_000_000);
            let mut subject = State::default();
            let cost = random.between(1, whole.limit());
            whole.charge(&mut subject, tollgate_core::algorithm::Charge { cost, at, lease: LeaseId(1) }, at);
            let now = at + random.pause(&[1_000, 1_000_000]);
            let look = whole.look(&subject, now);
            let word = RuleWord { remaining: look.remaining, reset_after: look.rests_at - now };
            let recalled = part.look(&recall(&whole, &part, word, now), now);
            assert!(recalled.remaining * nodes <= look.remaining, "seed {seed} {kind:?}: {look:?} {recalled:?}");
        }
    }
}
