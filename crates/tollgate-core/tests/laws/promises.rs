//! Giving back breaks no promise.
//!
//! Permits are refunded and reservations cancelled at random, and then it is counted what really went: what was
//! cancelled never did. A log, a counter or a window forgets a returned permit where it was; a bucket gains a token at
//! the moment it is returned, no earlier and no later.

use std::time::Duration;

use tollgate_core::{Algorithm, LeaseId, Micros, Quota, Refill, Rule, Take, Verb};
use tollgate_testkit::{
    gate::{Expect, Gate},
    random::{Kind, Random},
};

use crate::{
    bounds::{Flow, within_bound},
    episode::{Episode, play},
};

const SECOND: Micros = Micros::SECOND;
const LONG: Micros = Micros::HOUR;

/// One in so many of the steps that the agreement takes.
const SHARE: u64 = 4;

/// Permits admitted and perhaps given back since.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    at: Micros,
    cost: u64,
    /// Given back after they were due, when nobody was waiting: when, and after how many admissions.
    returned: Option<(Micros, usize)>,
    /// Never went: cancelled, or told to be unused.
    unused: bool,
}

fn no_promise_is_broken(name: &str, kinds_of: impl Fn(u64) -> Vec<Kind>) {
    play(name, SHARE, |seed| {
        let mut episode = Episode::new(seed, &kinds_of(seed));
        let mut admitted: Vec<Admitted> = Vec::new();
        for _ in 0..episode.length {
            let take = episode.next();
            let now = episode.gate.now;
            if episode.random.one_in(3) && !admitted.is_empty() {
                let chosen = episode.random.below(admitted.len() as u64);
                let given_back = give_back(&mut episode.gate, &mut admitted, usize::try_from(chosen).unwrap());
                episode.note(format!("before that, gave back {given_back:?}"));
            }
            let decision = episode.gate.ask(Verb::Take(take));
            episode.note(format!("{:?}", decision.verdict));
            if decision.is_allowed() && take.cost > 0 {
                let at = now + decision.wait();
                admitted.push(Admitted { at, cost: take.cost, returned: None, unused: false });
            }
        }
        for rule in &episode.rules {
            if let Err(breach) = within_bound(rule, &flows(rule, &admitted)) {
                panic!("{breach}\n{}", episode.story());
            }
        }
        episode.length
    });
}

/// Cancels a reservation, or refunds what went already. Each only once.
fn give_back(gate: &mut Gate, admitted: &mut [Admitted], chosen: usize) -> Option<Admitted> {
    let now = gate.now;
    let admissions = admitted.len();
    let waiting = admitted.iter().any(|other| !other.unused && other.at > now);
    let chosen = &mut admitted[chosen];
    if chosen.unused {
        return None;
    }
    let _ = gate.refund(chosen.cost, Some(chosen.at));
    chosen.unused = true;
    // While somebody waits, a bucket returns nothing but the last in line.
    chosen.returned = (chosen.at <= now && !waiting).then_some((now, admissions));
    Some(*chosen)
}

/// What a rule is to be judged by.
fn flows(rule: &Rule, admitted: &[Admitted]) -> Vec<Flow> {
    let refills = matches!(
        rule.algorithm(),
        Algorithm::TokenBucket { refill: Refill::Continuous | Refill::Stepwise } | Algorithm::LeakyBucket { .. }
    );
    let mut flows = Vec::new();
    for (order, &Admitted { at, cost, returned, unused }) in admitted.iter().enumerate() {
        let permits = i128::from(cost);
        match returned {
            // It cannot be told from the level whether the permit had dripped back already.
            Some((returned_at, after)) if refills => {
                flows.push((order, Flow { at: at.0, permits }));
                flows.push((after, Flow { at: returned_at.0, permits: -permits }));
            }
            _ if unused => {}
            _ => flows.push((order, Flow { at: at.0, permits })),
        }
    }
    // Within one moment, in the order it happened: what is given back comes before the admission that follows it.
    flows.sort_by_key(|(order, flow)| (flow.at, *order, flow.permits > 0));
    flows.into_iter().map(|(_, flow)| flow).collect()
}

macro_rules! promises {
    ($($name:ident: $kind:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            no_promise_is_broken(stringify!($name), |_| vec![Kind::$kind]);
        }
    )*};
}

promises! {
    giving_back_to_a_token_bucket_breaks_no_promise: TokenBucket,
    giving_back_to_a_stepwise_bucket_breaks_no_promise: Stepwise,
    giving_back_to_a_leaky_meter_breaks_no_promise: Leaky,
    giving_back_to_a_shaped_bucket_breaks_no_promise: Shaped,
    giving_back_to_an_epoch_window_breaks_no_promise: Epoch,
    giving_back_to_a_first_request_window_breaks_no_promise: FirstRequest,
    giving_back_to_a_calendar_window_breaks_no_promise: Calendar,
    giving_back_to_a_sliding_log_breaks_no_promise: Log,
    giving_back_to_a_sliding_counter_breaks_no_promise: Counter,
    giving_back_a_lease_breaks_no_promise: Concurrency,
}

#[test]
fn giving_back_to_several_rules_breaks_no_promise() {
    no_promise_is_broken("several", |seed| {
        let mut random = Random::new(seed ^ 0x5EED);
        (0..random.between(2, 3)).map(|_| random.pick(&Kind::ALL)).collect()
    });
}

// The stories behind the law.

/// The example of the design: capacity 1, one a second, reservations at 1 s and 2 s.
#[test]
fn cancelling_the_first_of_two_reservations_gives_nobody_its_place() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(1)));
    gate.take(1).expect_allow();
    assert_eq!(gate.take_within(1, LONG).expect_allow(), SECOND);
    assert_eq!(gate.take_within(1, LONG).expect_allow(), Micros::from_secs(2));
    let _ = gate.refund(1, Some(gate.now + SECOND));
    // A newcomer goes behind the one who waits for the second second, not together with it.
    assert_eq!(gate.take_within(1, LONG).expect_allow(), Micros::from_secs(3));
}

#[test]
fn cancelling_the_last_reservation_gives_its_place_to_the_next() {
    let mut random = Random::new(10);
    for kind in Kind::ALL {
        for _ in 0..200 {
            let rule = random.rule("r", kind);
            let mut gate = Gate::new(rule.clone());
            let limit = rule.quota().burst_or_limit();
            gate.take(limit).expect_allow();
            let first = gate.take_within(limit, LONG);
            let last = gate.take_within(limit, LONG);
            let (true, true) = (first.is_allowed(), last.is_allowed()) else { continue };
            let _ = gate.refund(limit, Some(gate.now + last.wait()));
            let next = gate.take_within(limit, LONG).expect_allow();
            // A bucket keeps the fraction of a microsecond it was rounded by.
            assert!(next <= last.wait() + Micros(1), "{rule:?}: {next} after {}", last.wait());
            assert!(next >= first.wait(), "{rule:?}");
        }
    }
}

#[test]
fn a_refund_never_lifts_a_key_above_full() {
    for kind in Kind::ALL {
        let rule = Random::new(11).rule("r", kind);
        let limit = rule.quota().burst_or_limit();
        let mut gate = Gate::new(rule.clone());
        let _ = gate.refund(limit, None);
        gate.take(1).expect_allow();
        let _ = gate.refund(10 * limit, None);
        assert_eq!(gate.peek().remaining(), limit, "{rule:?}");
        gate.take(limit).expect_allow();
        assert_eq!(gate.peek().remaining(), 0, "{rule:?}");
    }
}

#[test]
fn a_refund_at_once_undoes_the_take() {
    for kind in Kind::ALL {
        let rule = Random::new(12).rule("r", kind);
        let limit = rule.quota().burst_or_limit();
        for at in [None, Some(tollgate_testkit::gate::START)] {
            let mut gate = Gate::new(rule.clone());
            gate.take(limit).expect_allow();
            let _ = gate.refund(limit, at);
            assert_eq!(gate.peek().remaining(), limit, "{rule:?}");
        }
    }
}

#[test]
fn a_refund_of_a_past_take_while_somebody_waits_counts_as_spent_in_a_bucket() {
    for rule in [
        Rule::token_bucket("r", Quota::per_second(1)),
        Rule::token_bucket("r", Quota::per_second(1)).stepwise(),
        Rule::leaky_bucket("r", Quota::per_second(1)),
        Rule::fixed_window("r", Quota::per_second(1)),
    ] {
        let mut gate = Gate::new(rule.clone());
        gate.take(1).expect_allow();
        let waits = gate.take_within(1, LONG).expect_allow();
        let _ = gate.refund(1, None);
        let _ = gate.refund(1, Some(gate.now));
        let behind = gate.take_within(1, LONG).expect_allow();
        assert_eq!(behind - waits, SECOND, "{rule:?}");
    }
}

#[test]
fn the_log_returns_a_past_take_even_while_somebody_waits() {
    let mut gate = Gate::new(Rule::sliding_log("r", Quota::per_second(2)));
    gate.take(2).expect_allow();
    let first = gate.now;
    gate.advance(Micros::from_millis(100));
    let wait = gate.take_within(1, LONG).expect_allow();
    let _ = gate.refund(2, Some(first));
    // The two never went; the waiter did not move, and one more fits beside it.
    assert_eq!(gate.take_within(1, LONG).expect_allow(), wait);
    assert_eq!(gate.take_within(1, LONG).expect_allow(), wait + SECOND);
}

#[test]
fn cancelling_from_the_back_returns_every_reservation_of_a_bucket() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(3).burst(1)));
    gate.take(1).expect_allow();
    let waits: Vec<Micros> = (0..4).map(|_| gate.take_within(1, LONG).expect_allow()).collect();
    for wait in waits.into_iter().rev() {
        let _ = gate.refund(1, Some(gate.now + wait));
    }
    // Only the first take, the one that went, is left; a few fractions of a microsecond aside.
    let wait = gate.take(1).expect_deny();
    assert!(wait <= Micros(333_334 + 4), "{wait}");
}

#[test]
fn cancelling_from_the_back_returns_every_reservation_of_a_shaped_bucket() {
    let mut gate = Gate::new(Rule::leaky_bucket("r", Quota::per_second(10)).shaped());
    let waits: Vec<Micros> = (0..4).map(|_| gate.take(1).expect_allow()).collect();
    for wait in waits.into_iter().rev() {
        let _ = gate.refund(1, Some(gate.now + wait));
    }
    assert_eq!(gate.peek().remaining(), 10);
}

#[test]
fn a_refund_from_an_ended_window_frees_nothing_in_this_one() {
    let mut gate = Gate::new(Rule::fixed_window("r", Quota::per_second(10))).starting_at(Micros::from_secs(1_000));
    gate.take(5).expect_allow();
    let first = gate.now;
    gate.advance(SECOND).take(5).expect_allow();
    let _ = gate.refund(5, Some(first));
    assert_eq!(gate.peek().remaining(), 5);
}

#[test]
fn a_refund_without_a_moment_leaves_the_waiting_holder_its_place() {
    let mut gate = Gate::new(Rule::concurrency("r", 1, Duration::from_secs(10)));
    gate.hold(1, 1).expect_allow();
    let wait = gate.ask(Verb::Take(Take::within(1, LONG).held_as(LeaseId(2)))).expect_allow();
    assert_eq!(wait, Micros::from_secs(10));
    gate.advance(Micros::from_secs(5));
    let _ = gate.refund(1, None);
    gate.advance(Micros::from_secs(5));
    // Number 2 goes now, as promised; nobody else may.
    gate.hold(1, 3).expect_deny();
}

#[test]
fn a_heartbeat_does_not_outlive_a_promise_made_on_the_lease() {
    let mut gate = Gate::new(Rule::concurrency("r", 1, Duration::from_secs(10)));
    gate.hold(1, 1).expect_allow();
    let wait = gate.ask(Verb::Take(Take::within(1, LONG).held_as(LeaseId(2)))).expect_allow();
    assert_eq!(wait, Micros::from_secs(10));
    gate.advance(Micros::from_secs(5));
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(1))).lease, Some(LeaseId(1)));
    gate.advance(Micros::from_secs(5));
    // 2 begins now; so 1 must no longer hold anything, and is told so.
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(1))).lease, None);
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(2))).lease, Some(LeaseId(2)));
}

#[test]
fn a_deadline_on_a_shaped_rule_is_told_the_whole_wait() {
    let mut gate = Gate::new(Rule::leaky_bucket("r", Quota::per_second(10).capacity(5)).shaped());
    for _ in 0..5 {
        gate.take(1).expect_allow();
    }
    let retry = gate.take_within(1, Micros::ZERO).expect_deny();
    assert_eq!(retry, Micros::from_millis(500));
    gate.advance(retry).take_within(1, Micros::ZERO).expect_allow();
}

#[test]
fn a_take_that_has_gone_is_not_last_in_line_however_close_somebody_waits() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(2).burst(3)));
    gate.take(3).expect_allow();
    gate.advance(Micros::from_millis(400));
    // A tenth of a second is missing, much less than the half that a permit takes.
    let waits = gate.take_within(1, LONG).expect_allow();
    assert_eq!(waits, Micros::from_millis(100));
    let _ = gate.refund(1, Some(gate.now));
    assert_eq!(gate.take_within(1, LONG).expect_allow(), Micros::from_millis(600));
}

/// A counter knows its reservations only by the slice. When one of two in a slice is cancelled, the other still waits
/// until its moment within the slice, and until then nothing under it may be given back.
#[test]
fn cancelling_one_of_two_in_a_slice_leaves_the_other_its_promise() {
    let counter = Rule::sliding_counter("counter", Quota::per_micros(6, Micros::from_secs(10))).buckets(3);
    let bucket = Rule::token_bucket("bucket", Quota::per_second(1).burst(5));
    // A slice of a third of ten seconds, rounded up, begins here.
    let start = Micros(3_333_334 * 500_000_000);
    let mut gate = Gate::of([counter, bucket]).starting_at(start);
    gate.take(5).expect_allow();
    gate.advance(Micros::from_secs(6));
    let first = gate.take_within(2, LONG).expect_allow();
    let second = gate.take_within(1, LONG).expect_allow();
    assert_eq!((first, second), (Micros(7_333_334), Micros(7_333_334)));
    let goes = gate.now + first;
    let _ = gate.refund(1, Some(goes));
    gate.advance(Micros::from_secs(5));
    let _ = gate.refund(5, Some(start));
    // Two go now, as promised, so the bucket of five has three left for this moment.
    let mut gate = gate.starting_at(goes);
    gate.take(4).expect_deny();
    gate.take(3).expect_allow();
}
