//! Parts of a permit, and how many of them a rate has brought by a time.
//!
//! Usually a permit has `per` parts, of which every microsecond brings `rate`. If that makes 2^50 or more of the whole
//! capacity, a permit has as many parts as keep both the capacity and the limit below 2^50, and by time `t` as many whole
//! parts have come as the rate brings since the epoch.

/// A quota's parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    parts: i128,
    /// Parts per period, and the period in µs.
    rate: i128,
    per: i128,
}

impl Grid {
    pub(super) fn new(capacity: u64, rate: u64, per: u64) -> Self {
        let (capacity, rate, per) = (i128::from(capacity), i128::from(rate), i128::from(per));
        let (mut common, mut rest) = (rate, per);
        while rest > 0 {
            (common, rest) = (rest, common % rest);
        }
        if capacity * (per / common) < MOST {
            return Self { parts: per, rate: rate * per, per };
        }
        let parts = (MOST - 1) / capacity.max(rate);
        Self { parts, rate: rate * parts, per }
    }

    pub(super) fn parts(self, permits: u64) -> i128 {
        i128::from(permits) * self.parts
    }

    /// Whole parts that have come since the epoch.
    pub(super) fn by(self, instant: u64) -> i128 {
        i128::from(instant) * self.rate / self.per
    }
}

const MOST: i128 = 1 << 50;
