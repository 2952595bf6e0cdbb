//! The rate of demand of one key in one process. It decides how many permits are asked for.

use ratekeeper_core::Span;

use super::{HolderConfig, LocalTime};

/// The rate of demand: that of the last turn, or the mean with the turns before if it fell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    pub(super) from: LocalTime,
    pub(super) permits: u64,
    per_second: u64,
    is_hot: bool,
    /// The demand of two turns, or 0 for a key that is not hot; and half of it.
    pub(super) target: u64,
    pub(super) refill_below: u64,
}

impl Rate {
    pub(super) fn new(now: LocalTime) -> Self {
        Self { from: now, ..Self::default() }
    }

    #[inline]
    pub(super) fn add(&mut self, permits: u64, now: LocalTime, config: &HolderConfig) {
        self.permits += permits;
        let span = now.since(self.from);
        if span >= config.turn {
            self.turn_over(span, now, config);
        }
    }

    pub(super) fn turn_over(&mut self, span: Span, now: LocalTime, config: &HolderConfig) {
        let last = self.permits.saturating_mul(1_000_000) / span.as_micros().max(1);
        self.per_second = if last > self.per_second { last } else { u64::midpoint(self.per_second, last) };
        (self.from, self.permits) = (now, 0);
        let threshold = if self.is_hot { config.hot_per_second / 2 } else { config.hot_per_second };
        self.is_hot = self.per_second >= threshold;
        let permits = self.per_second.saturating_mul(2 * config.turn.as_micros()) / 1_000_000;
        self.target = if self.is_hot && permits >= MIN_TARGET { permits } else { 0 };
        self.refill_below = self.target.div_ceil(2);
    }
}

/// Fewer permits are not worth an allotment.
const MIN_TARGET: u64 = 4;
