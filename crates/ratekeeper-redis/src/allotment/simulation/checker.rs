//! Checker: the uses of one key, at their true times, against the bound of each rule.
//!
//! | rule | the bound |
//! |---|---|
//! | bucket, leaky meter | a meter that drains at the rate never holds more than the capacity |
//! | stepwise | in a span shorter than n periods: capacity + n × lump |
//! | epoch and calendar windows | the limit in every window of the store's clock |
//! | windows from the first request | the limit in every window that starts with the first use after the one before |
//! | log, counter | the limit in any span as long as the window |
//!
//! A refund counts from the time at which the store carries it out, as without allotments. Where the algorithm finds
//! the refunded charge by its time, and where the holder takes back a use that no call has reported, the use is removed.

use ratekeeper_core::{
    Span, Timestamp,
    algorithm::{Algorithm, AnyAlgorithm, Bucket, Meter, Schedule, Stepwise, Window},
};

/// Permits that were used, or refunded if negative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// True time, in µs.
    pub(super) at: u64,
    /// The store's time.
    pub(super) store_at: Timestamp,
    /// Orders what happens in one microsecond.
    pub(super) order: usize,
    pub(super) permits: i64,
}

/// A refund that the store has carried out.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefundedUse {
    pub(super) at: u64,
    pub(super) store_at: Timestamp,
    /// Orders what happens in one microsecond.
    pub(super) order: usize,
    pub(super) permits: u64,
    /// The use that was refunded.
    pub(super) of: usize,
    /// Whether the store was given the time of the charge.
    pub(super) is_dated: bool,
}

/// The most permits by which the uses exceed the rule's bound in any window.
pub(super) fn excess(algorithm: &AnyAlgorithm, uses: &[Use], refunds: &[RefundedUse]) -> u64 {
    let mut all = uses.to_vec();
    let finds_charges = matches!(algorithm, AnyAlgorithm::Log(_) | AnyAlgorithm::Counter(_) | AnyAlgorithm::Window(_));
    // A refund without a time removes the latest charge. One with the time of that charge then finds another in its slice.
    let finds_charges = finds_charges && refunds.iter().all(|refund| refund.is_dated);
    for refund in refunds {
        let permits = refund.permits.cast_signed();
        // A use under another quota is not among them; what the store has kept of it is returned now.
        if finds_charges && refund.is_dated && all[refund.of].permits >= permits {
            all[refund.of].permits -= permits;
        } else {
            let RefundedUse { at, store_at, order, .. } = *refund;
            all.push(Use { at, store_at, order, permits: -permits });
        }
    }
    all.retain(|one| one.permits != 0);
    all.sort_by_key(|one| (one.at, one.order));
    match algorithm {
        AnyAlgorithm::Bucket(bucket) => over_bucket(bucket, &all),
        AnyAlgorithm::Stepwise(stepwise) => over_stepwise(stepwise, &all),
        AnyAlgorithm::Window(window) => match window.schedule() {
            Schedule::FirstRequest(period) => over_first_request(window.limit(), period, &all),
            _ => over_window(window, &all),
        },
        AnyAlgorithm::Log(log) => over_sliding(log.limit(), log.window().as_micros(), &all),
        AnyAlgorithm::Counter(counter) => over_sliding(counter.limit(), counter.window().as_micros(), &all),
        AnyAlgorithm::Leases(_) | AnyAlgorithm::AutoBlock(_) => 0,
    }
}

fn over_bucket(bucket: &Bucket, uses: &[Use]) -> u64 {
    let (drain, unit) = (bucket.drain().cast_signed(), bucket.unit().cast_signed());
    let (mut at, mut level, mut worst) = (0, 0_i64, 0_i64);
    for one in uses {
        level = (level - (one.at - at).cast_signed() * drain).max(0);
        level = (level + one.permits * unit).max(0);
        at = one.at;
        worst = worst.max(level - bucket.capacity().cast_signed());
    }
    worst.cast_unsigned().div_ceil(bucket.unit())
}

fn over_stepwise(stepwise: &Stepwise, uses: &[Use]) -> u64 {
    let per = stepwise.per().as_micros();
    let length = uses.last().map_or(0, |last| last.at - uses[0].at);
    let spans = 1..=length / per + 1;
    let over = spans.map(|n| over_sliding(stepwise.limit() + n * stepwise.lump(), n * per, uses));
    over.max().unwrap_or(0)
}

fn over_window(window: &Window, uses: &[Use]) -> u64 {
    let limit = window.limit().cast_signed();
    let mut counts: Vec<(Timestamp, i64)> = Vec::new();
    let mut worst = 0;
    for one in uses {
        let (_, start) = window.used(&Meter::default(), one.store_at);
        // After a step back the clock returns to an earlier window.
        let index = match counts.iter().rposition(|&(other, _)| other == start) {
            Some(index) => index,
            None => {
                counts.push((start, 0));
                counts.len() - 1
            }
        };
        counts[index].1 += one.permits;
        worst = worst.max(counts[index].1 - limit);
    }
    worst.cast_unsigned()
}

fn over_first_request(limit: u64, period: Span, uses: &[Use]) -> u64 {
    let (mut end, mut count, mut worst) = (0, 0_i64, 0_i64);
    for one in uses {
        if one.at >= end || count <= 0 {
            (end, count) = (one.at + period.as_micros(), 0);
        }
        count += one.permits;
        worst = worst.max(count - limit.cast_signed());
    }
    worst.cast_unsigned()
}

fn over_sliding(limit: u64, window: u64, uses: &[Use]) -> u64 {
    let (mut oldest, mut total, mut worst) = (0, 0_i64, 0_i64);
    for one in uses {
        total += one.permits;
        while uses[oldest].at + window <= one.at {
            total -= uses[oldest].permits;
            oldest += 1;
        }
        worst = worst.max(total - limit.cast_signed());
    }
    worst.cast_unsigned()
}
