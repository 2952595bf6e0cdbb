//! What a server's clock shows, estimated from its answers.
//!
//! An answer that tells the server's time was written some time between our question and its arrival, so it pins the
//! difference between the two clocks down to the length of that trip. The shortest trip says it best; an old one says
//! less and less, since clocks drift. An answer that contradicts the estimate means that the server's clock was set.

use std::time::{Duration, Instant};

use tollgate_core::Micros;

/// One server's clock, as seen from here.
#[derive(Debug, Default)]
pub(super) struct ServerClock {
    best: Option<Sample>,
}

/// One answer that told the time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// What the server's clock showed …
    server: Micros,
    /// … at this moment of ours, give or take `doubt`.
    at: Instant,
    doubt: Duration,
}

impl ServerClock {
    /// Takes in an answer that told the server's time.
    pub(super) fn hear(&mut self, server: Micros, asked: Instant, answered: Instant) {
        let doubt = answered.saturating_duration_since(asked) / 2;
        let new = Sample { server, at: asked + doubt, doubt };
        let keeps = self.best.is_some_and(|old| old.agrees_with(&new) && old.doubt_at(new.at) < new.doubt);
        if !keeps {
            self.best = Some(new);
        }
    }

    /// What the server's clock shows at a moment of ours, which may lie ahead. Nothing if it never told.
    pub(super) fn at(&self, moment: Instant) -> Option<Micros> {
        self.best.map(|sample| sample.reckon(moment))
    }

    /// How far off the estimate may be by now.
    pub(super) fn doubt(&self, now: Instant) -> Option<Duration> {
        self.best.map(|sample| sample.doubt_at(now))
    }
}

impl Sample {
    fn reckon(&self, moment: Instant) -> Micros {
        let ahead = Micros::from_duration(moment.saturating_duration_since(self.at));
        let behind = Micros::from_duration(self.at.saturating_duration_since(moment));
        self.server + ahead - behind
    }

    fn doubt_at(&self, moment: Instant) -> Duration {
        self.doubt + moment.saturating_duration_since(self.at) / DRIFT
    }

    fn agrees_with(&self, new: &Sample) -> bool {
        let reckoned = self.reckon(new.at).get();
        let apart = Duration::from_micros(reckoned.abs_diff(new.server.get()));
        apart <= self.doubt_at(new.at) + new.doubt + GRAIN
    }
}

/// Clocks gain or lose less than one part in so many. Quartz and NTP stay within 500 parts per million.
const DRIFT: u32 = 1000;
/// The server's clock is told in whole microseconds, and may be read a little before the script that tells it.
const GRAIN: Duration = Duration::from_micros(2);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const NOON: u64 = 1_800_000_000_000_000;

    fn heard(start: Instant, ask_ms: u32, answer_ms: u32, server_ms: u64) -> (Micros, Instant, Instant) {
        (Micros(NOON + server_ms * 1000), start + MS * ask_ms, start + MS * answer_ms)
    }

    fn clock(answers: &[(Micros, Instant, Instant)]) -> ServerClock {
        let mut clock = ServerClock::default();
        for &(server, asked, answered) in answers {
            clock.hear(server, asked, answered);
        }
        clock
    }

    #[test]
    fn a_clock_never_heard_is_unknown() {
        assert_eq!(ServerClock::default().at(Instant::now()), None);
    }

    #[test]
    fn the_middle_of_the_trip_is_the_servers_time() {
        let start = Instant::now();
        let clock = clock(&[heard(start, 0, 10, 100)]);
        assert_eq!(clock.at(start + MS * 5), Some(Micros(NOON + 100_000)));
        assert_eq!(clock.at(start + MS * 25), Some(Micros(NOON + 120_000)));
        assert_eq!(clock.at(start), Some(Micros(NOON + 95_000)));
        assert_eq!(clock.doubt(start + MS * 5), Some(MS * 5));
    }

    #[test]
    fn the_fastest_trip_is_believed_and_a_slow_one_does_not_spoil_it() {
        let start = Instant::now();
        let fast = heard(start, 0, 2, 50);
        // A slow trip of which all the time was lost on the way back: off by 20 ms, and within its doubt.
        let slow = heard(start, 10, 50, 61);
        assert_eq!(clock(&[fast, slow]).at(start + MS * 101), Some(Micros(NOON + 150_000)));
        assert_eq!(clock(&[slow, fast]).at(start + MS * 101), Some(Micros(NOON + 150_000)));
    }

    #[test]
    fn an_old_answer_gives_way_to_a_new_one() {
        let start = Instant::now();
        // After 10 s the first may be off by 11 ms; the second is sure within 5.
        let clock = clock(&[heard(start, 0, 2, 1), heard(start, 10_000, 10_010, 10_008)]);
        assert_eq!(clock.at(start + MS * 10_005), Some(Micros(NOON + 10_008_000)));
    }

    #[test]
    fn a_clock_that_was_set_is_followed_at_once_both_ways() {
        let start = Instant::now();
        for told in [500_000, 0] {
            let clock = clock(&[heard(start, 0, 2, 100_000), heard(start, 10, 50, told)]);
            assert_eq!(clock.at(start + MS * 30), Some(Micros(NOON + told * 1000)), "set to {told}");
        }
    }
}
