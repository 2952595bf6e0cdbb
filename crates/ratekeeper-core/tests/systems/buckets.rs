//! Buckets: tokens that drip or come in lumps, and water that leaks or queues.

use ratekeeper_core::{Quota, Rule, Span, Timestamp};
use ratekeeper_testkit::gate::{Expect, Gate};

use crate::{ms, secs};

// Section 3: token bucket.

#[test]
fn token_bucket_idle_ten_seconds_gives_ten_and_the_eleventh_waits_one() {
    let mut gate = Gate::new(Rule::token_bucket("bucket", Quota::per_second(1).burst(10)));
    gate.take(10).expect_allow();
    gate.advance(secs(10));
    for _ in 0..10 {
        gate.take(1).expect_allow();
    }
    assert_eq!(gate.take(1).expect_deny(), secs(1));
}

#[test]
fn token_bucket_wait_is_rounded_up() {
    let mut gate = Gate::new(Rule::token_bucket("bucket", Quota::per_second(3).burst(1)));
    gate.take(1).expect_allow();
    assert_eq!(gate.take(1).expect_deny(), Span::from_micros(333_334));
}

#[test]
fn token_bucket_continuous_accrues_fractions_that_stepwise_does_not() {
    let quota = Quota::per_second(5).burst(10);
    let mut drops = Gate::new(Rule::token_bucket("bucket", quota));
    let mut lumps = Gate::new(Rule::token_bucket_stepwise("bucket", quota));
    drops.take(10).expect_allow();
    lumps.take(10).expect_allow();
    assert_eq!(drops.advance(ms(999)).peek().remaining(), 4);
    assert_eq!(lumps.advance(ms(999)).peek().remaining(), 0);
}

#[test]
fn token_bucket_stepwise_none_at_999_ms_and_five_at_1000() {
    let mut gate = Gate::new(Rule::token_bucket_stepwise("bucket", Quota::per_second(5).burst(10)));
    gate.take(10).expect_allow();
    gate.advance(ms(999));
    assert_eq!(gate.peek().remaining(), 0);
    assert_eq!(gate.take(1).expect_deny(), ms(1));
    gate.advance(ms(1));
    assert_eq!(gate.peek().remaining(), 5);
    gate.take(5).expect_allow();
    gate.take(1).expect_deny();
}

#[test]
fn token_bucket_stepwise_idle_ten_seconds_is_full_and_no_fuller() {
    let mut gate = Gate::new(Rule::token_bucket_stepwise("bucket", Quota::per_second(1).burst(10)));
    gate.take(10).expect_allow();
    gate.advance(secs(10));
    gate.take(10).expect_allow();
    assert_eq!(gate.take(1).expect_deny(), secs(1));
}

#[test]
fn token_bucket_has_no_second_burst_at_the_turn_of_a_second() {
    let mut gate =
        Gate::new(Rule::token_bucket("bucket", Quota::per_second(10))).starting_at(Timestamp::from_millis(5_999));
    gate.take(10).expect_allow();
    gate.advance(ms(1)).take(10).expect_deny();
    assert_eq!(gate.peek().remaining(), 0);
}

#[test]
fn token_bucket_refusal_does_not_postpone_the_refill() {
    let mut gate = Gate::new(Rule::token_bucket("bucket", Quota::per_second(1)));
    gate.take(1).expect_allow();
    for _ in 0..9 {
        gate.advance(ms(100)).take(1).expect_deny();
    }
    gate.advance(ms(100)).take(1).expect_allow();
}

#[test]
fn token_bucket_key_is_as_good_as_new_once_it_is_full() {
    let mut gate = Gate::new(Rule::token_bucket("bucket", Quota::per_second(1).burst(10)));
    assert_eq!(gate.take(4).reset_after_span(), secs(4));
    gate.advance(secs(4));
    assert_eq!((gate.peek().reset_after_span(), gate.peek().remaining()), (Span::ZERO, 10));
}

// Section 4: leaky bucket.

#[test]
fn leaky_meter_passes_while_the_water_fits() {
    let mut gate = Gate::new(Rule::leaky_bucket("leaky", Quota::per_second(10).capacity(4)));
    gate.take(3).expect_allow();
    assert_eq!(gate.take(2).expect_deny(), ms(100));
    // Half a permit has drained: the level is 2.5, so 1 of the 4 is whole and free.
    assert_eq!(gate.advance(ms(50)).peek().remaining(), 1);
    assert_eq!(gate.take(2).expect_deny(), ms(50));
    gate.advance(ms(50)).take(2).expect_allow();
}

#[test]
fn leaky_shaped_waits_0_100_200_300_and_denies_when_the_queue_is_full() {
    let mut gate = Gate::new(Rule::leaky_bucket_shaped("leaky", Quota::per_second(10).capacity(4)));
    let waits: Vec<Span> = (0..4).map(|_| gate.take(1).expect_allow()).collect();
    assert_eq!(waits, [ms(0), ms(100), ms(200), ms(300)]);
    assert_eq!(gate.take(1).expect_deny(), ms(100));
    gate.advance(ms(100));
    assert_eq!(gate.take(1).expect_allow(), ms(300));
}

#[test]
fn leaky_shaped_outflow_is_even_whatever_comes_in() {
    let mut gate = Gate::new(Rule::leaky_bucket_shaped("leaky", Quota::per_second(10).capacity(100)));
    let mut goes = Vec::new();
    for pause in [0, 0, 0, 950, 0, 3, 20, 0, 0, 0] {
        gate.advance(ms(pause));
        goes.push(gate.now + gate.take(1).expect_allow());
    }
    for pair in goes.windows(2) {
        assert!(pair[1].since(pair[0]) >= ms(100), "{goes:?}");
    }
}
