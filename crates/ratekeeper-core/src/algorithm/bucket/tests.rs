//! Fast path and reciprocal of the bucket.

use super::*;

/// The fast path has the same result as the general path.
#[test]
fn try_quickly_equals_weigh_charge_and_look() {
    let mut random = 7_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 11) % below
    };
    for round in 0..300_000 {
        let (permits, limit) = (1 + next(50), 1 + next(30));
        let per = Span::from_micros([1_000, 1_000_000, 60_000_000][usize::try_from(round % 3).unwrap()]);
        let bucket = Bucket::new(permits, limit, per, false).unwrap();
        // Sometimes above the capacity, as after a penalty or a change of the quota.
        let state = Meter { at: Timestamp::from_micros(1 << 40), used: next(bucket.capacity * 5 / 4 + 2) };
        let now = state.at + Span::from_micros(next(per.as_micros() * 3));
        let cost = 1 + next(permits);

        let (mut quick, mut slow) = (state, state);
        let tried = bucket.try_quickly(&mut quick, cost, now).unwrap();
        let weighed = bucket.weigh(&state, cost, now);
        if weighed.free_at == now {
            bucket.charge(&mut slow, Charge { cost, at: now, lease: Default::default() }, now);
        }
        let look = bucket.look(&slow, now);
        let reset_after = look.reset_at.since(now);
        assert_eq!(tried, Tried { retry_after: weighed.free_at.since(now), remaining: look.remaining, reset_after });
        assert_eq!(quick, slow, "{bucket:?} {state:?} {cost} at {now}");
    }
}

/// The factor replaces a division, so it must give the same quotient for every unit and level.
#[test]
fn whole_permits_are_exactly_the_quotient() {
    let mut random = 1_u64;
    let mut next = |bits: u32| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> (64 - bits)
    };
    for _ in 0..1_000_000 {
        let per = Span::from_micros(next(48).max(1) >> next(5));
        let Some(bucket) = Bucket::new(1, next(20).max(1), per.max(Span::from_micros(1)), false) else { continue };
        let whole = next(22).saturating_mul(bucket.unit);
        for units in [next(52), whole, whole.saturating_sub(1), whole.saturating_add(1), 0, MAX_LEVEL] {
            let units = units.min(MAX_LEVEL);
            assert_eq!(bucket.whole_permits(units), units / bucket.unit, "{units} ÷ {}", bucket.unit);
        }
    }
}
