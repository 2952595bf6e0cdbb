//! What a run has seen: how many answers, in which time, how late each.

use std::time::Duration;

/// The outcome of one run.
#[derive(Default)]
pub(crate) struct Seen {
    /// Microseconds of every answer; sorted when the run is over.
    late: Vec<u32>,
    took: Duration,
}

impl Seen {
    pub(crate) fn new(mut late: Vec<u32>, took: Duration) -> Self {
        late.sort_unstable();
        Self { late, took }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.late.len() as f64 / self.took.as_secs_f64().max(0.001)
    }

    pub(crate) fn quantile(&self, part: f64) -> u32 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
        let place = (self.late.len() as f64 * part) as usize;
        self.late.get(place).copied().unwrap_or(0)
    }

    pub(crate) fn keep_better(&mut self, other: Self) {
        if other.rate() > self.rate() {
            *self = other;
        }
    }
}
