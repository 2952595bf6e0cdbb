//! Histogram over time with at most 1024 bins: when they do not suffice, neighbours are merged and the width doubles.

use ratekeeper_core::{Span, Timestamp};

/// Permits over time.
#[derive(Debug)]
pub(crate) struct Timeline {
    start: Option<Timestamp>,
    /// Width of a bin in microseconds.
    width: u64,
    bins: Vec<Bin>,
    rules: usize,
    /// The first bin that was not visited yet.
    visited: usize,
    last: Timestamp,
}

/// One bin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bin {
    /// Permits granted.
    pub(crate) admitted: u64,
    /// Permits refused.
    pub(crate) refused: u64,
    /// The maximal content of the window of each rule.
    pub(crate) fullness: Vec<u64>,
}

impl Timeline {
    pub(crate) fn new(rules: usize) -> Self {
        Self { start: None, width: 1, bins: Vec::new(), rules, visited: 0, last: Timestamp::EPOCH }
    }

    pub(crate) fn admitted(&mut self, at: Timestamp, permits: u64) {
        self.bin(at).admitted += permits;
    }

    pub(crate) fn refused(&mut self, at: Timestamp, permits: u64) {
        self.bin(at).refused += permits;
    }

    pub(crate) fn fullness(&mut self, rule: usize, at: Timestamp, permits: u64) {
        let fullness = &mut self.bin(at).fullness[rule];
        *fullness = permits.max(*fullness);
    }

    /// The starts of the bins up to `moment` that have not been visited: a window that only empties is fullest there.
    pub(crate) fn advance_to(&mut self, moment: Timestamp) -> impl Iterator<Item = Timestamp> + use<> {
        self.bin(moment);
        let (start, width) = (self.start(), self.width);
        let from = self.visited;
        let until = usize::try_from(moment.since(start).as_micros() / width).unwrap_or(0) + 1;
        self.visited = until.max(from);
        (from..until).map(move |index| start + Span::from_micros(index as u64 * width))
    }

    /// Time of the first event.
    pub(crate) fn start(&self) -> Timestamp {
        self.start.unwrap_or_default()
    }

    /// Time of the last event, which may be a reservation; `None` without events.
    pub(crate) fn last(&self) -> Option<Timestamp> {
        self.start.map(|_| self.last)
    }

    /// Width of a bin.
    pub(crate) fn width(&self) -> Span {
        Span::from_micros(self.width)
    }

    /// The bins from the first event to the last.
    pub(crate) fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// The bin of a moment at or after the start.
    fn bin(&mut self, at: Timestamp) -> &mut Bin {
        let start = *self.start.get_or_insert(at);
        self.last = self.last.max(at);
        while at.since(start).as_micros() / self.width >= MAX_BINS as u64 {
            self.widen();
        }
        let index = usize::try_from(at.since(start).as_micros() / self.width).unwrap_or(0);
        if index >= self.bins.len() {
            self.bins.resize_with(index + 1, || Bin { fullness: vec![0; self.rules], ..Bin::default() });
        }
        &mut self.bins[index]
    }

    fn widen(&mut self) {
        self.width *= 2;
        self.visited = self.visited.div_ceil(2);
        let mut halves = std::mem::take(&mut self.bins).into_iter();
        while let Some(mut bin) = halves.next() {
            if let Some(other) = halves.next() {
                bin.merge(&other);
            }
            self.bins.push(bin);
        }
    }
}

impl Bin {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.admitted += other.admitted;
        self.refused += other.refused;
        for (own, other) in self.fullness.iter_mut().zip(&other.fullness) {
            *own = (*own).max(*other);
        }
    }
}

/// About the width of a plot in pixels.
const MAX_BINS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_span_fits_and_no_permits_are_lost() {
        let mut timeline = Timeline::new(1);
        for second in 0..100_000 {
            timeline.admitted(Timestamp::from_secs(second), 1);
            timeline.fullness(0, Timestamp::from_secs(second), second % 7);
        }
        timeline.refused(Timestamp::from_secs(5), 9);
        let bins = timeline.bins();
        assert!(bins.len() <= MAX_BINS && bins.len() > MAX_BINS / 3, "{}", bins.len());
        assert_eq!(bins.iter().map(|bin| bin.admitted).sum::<u64>(), 100_000);
        assert_eq!(bins.iter().map(|bin| bin.refused).sum::<u64>(), 9);
        assert!(bins.iter().all(|bin| bin.fullness[0] == 6));
    }

    #[test]
    fn every_bin_is_visited_once() {
        let mut timeline = Timeline::new(0);
        assert_eq!(timeline.advance_to(Timestamp::from_micros(10)).count(), 1);
        assert_eq!(timeline.advance_to(Timestamp::from_micros(13)).count(), 3);
        assert_eq!(timeline.advance_to(Timestamp::from_micros(13)).count(), 0);
    }
}
