//! Any stretch of time in at most a thousand bins: when they do not reach, every two become one twice as wide.

use tollgate_core::Micros;

/// What happened when, as finely as there is room for.
#[derive(Debug)]
pub(crate) struct Timeline {
    start: Option<Micros>,
    /// Of a bin, in microseconds.
    width: u64,
    bins: Vec<Bin>,
    rules: usize,
    /// The first bin that has not been passed yet.
    passed: usize,
    last: Micros,
}

/// One bin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bin {
    /// Permits that went.
    pub(crate) admitted: u64,
    /// Permits that were asked for and refused.
    pub(crate) refused: u64,
    /// The most that each rule's window held.
    pub(crate) fullness: Vec<u64>,
}

impl Timeline {
    pub(crate) fn new(rules: usize) -> Self {
        Self { start: None, width: 1, bins: Vec::new(), rules, passed: 0, last: Micros::ZERO }
    }

    pub(crate) fn admitted(&mut self, at: Micros, permits: u64) {
        self.bin(at).admitted += permits;
    }

    pub(crate) fn refused(&mut self, at: Micros, permits: u64) {
        self.bin(at).refused += permits;
    }

    pub(crate) fn fullness(&mut self, rule: usize, at: Micros, permits: u64) {
        let fullness = &mut self.bin(at).fullness[rule];
        *fullness = permits.max(*fullness);
    }

    /// The beginnings of the bins up to a moment that nobody has passed yet: a window that only empties is fullest there.
    pub(crate) fn pass_until(&mut self, moment: Micros) -> impl Iterator<Item = Micros> + use<> {
        self.bin(moment);
        let (start, width) = (self.start(), self.width);
        let from = self.passed;
        let until = usize::try_from((moment - start).0 / width).unwrap_or(0) + 1;
        self.passed = until.max(from);
        (from..until).map(move |index| start + Micros(index as u64 * width))
    }

    /// When the first thing happened.
    pub(crate) fn start(&self) -> Micros {
        self.start.unwrap_or_default()
    }

    /// When the last thing happened, or is going to; `None` if nothing did.
    pub(crate) fn last(&self) -> Option<Micros> {
        self.start.map(|_| self.last)
    }

    /// Width of a bin.
    pub(crate) fn width(&self) -> Micros {
        Micros(self.width)
    }

    /// From the first thing that happened to the last.
    pub(crate) fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// The bin of a moment, which is never before the first one.
    fn bin(&mut self, at: Micros) -> &mut Bin {
        let start = *self.start.get_or_insert(at);
        self.last = self.last.max(at);
        while (at - start).0 / self.width >= MOST_BINS as u64 {
            self.widen();
        }
        let index = usize::try_from((at - start).0 / self.width).unwrap_or(0);
        if index >= self.bins.len() {
            self.bins.resize_with(index + 1, || Bin { fullness: vec![0; self.rules], ..Bin::default() });
        }
        &mut self.bins[index]
    }

    fn widen(&mut self) {
        self.width *= 2;
        self.passed = self.passed.div_ceil(2);
        let mut halves = std::mem::take(&mut self.bins).into_iter();
        while let Some(mut bin) = halves.next() {
            if let Some(other) = halves.next() {
                bin.absorb(&other);
            }
            self.bins.push(bin);
        }
    }
}

impl Bin {
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.admitted += other.admitted;
        self.refused += other.refused;
        for (mine, theirs) in self.fullness.iter_mut().zip(&other.fullness) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// About as many as a plot has pixels.
const MOST_BINS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_stretch_fits_and_nothing_is_lost() {
        let mut timeline = Timeline::new(1);
        for second in 0..100_000 {
            timeline.admitted(Micros::from_secs(second), 1);
            timeline.fullness(0, Micros::from_secs(second), second % 7);
        }
        timeline.refused(Micros::from_secs(5), 9);
        let bins = timeline.bins();
        assert!(bins.len() <= MOST_BINS && bins.len() > MOST_BINS / 3, "{}", bins.len());
        assert_eq!(bins.iter().map(|bin| bin.admitted).sum::<u64>(), 100_000);
        assert_eq!(bins.iter().map(|bin| bin.refused).sum::<u64>(), 9);
        assert!(bins.iter().all(|bin| bin.fullness[0] == 6));
    }

    #[test]
    fn every_bin_is_passed_once() {
        let mut timeline = Timeline::new(0);
        assert_eq!(timeline.pass_until(Micros(10)).count(), 1);
        assert_eq!(timeline.pass_until(Micros(13)).count(), 3);
        assert_eq!(timeline.pass_until(Micros(13)).count(), 0);
    }
}
