//! Estimate of a server's clock, from replies that carry its time.
//!
//! The server read its clock between the request and the arrival of the reply, so the offset of the clocks is known
//! within half the round trip. The shortest round trip gives the best estimate; its error bound grows with age, since
//! clocks drift. A reply outside the bound means that the server's clock was set, and replaces the estimate.

use std::time::{Duration, Instant};

use ratekeeper_core::{Span, Timestamp};

/// The estimate of one server's clock.
#[derive(Debug, Default)]
pub(super) struct ServerClock {
    best: Option<Sample>,
}

/// One reply that carried the time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The server's time …
    server: Timestamp,
    /// … at this local instant, within `error` of it.
    at: Instant,
    error: Duration,
}

impl ServerClock {
    /// Processes a reply that carried the server's time.
    pub(super) fn observe(&mut self, server: Timestamp, asked: Instant, answered: Instant) {
        let error = answered.saturating_duration_since(asked) / 2;
        let new = Sample { server, at: asked + error, error };
        let is_better = self.best.is_some_and(|old| old.agrees_with(&new) && old.error_at(new.at) < new.error);
        if !is_better {
            self.best = Some(new);
        }
    }

    /// The server's time at a local instant, past or future. `None` before the first reply.
    pub(super) fn at(&self, instant: Instant) -> Option<Timestamp> {
        self.best.map(|sample| sample.extrapolate(instant))
    }

    /// The error bound of the estimate at `now`.
    pub(super) fn error_bound(&self, now: Instant) -> Option<Duration> {
        self.best.map(|sample| sample.error_at(now))
    }
}

impl Sample {
    fn extrapolate(&self, instant: Instant) -> Timestamp {
        let ahead = Span::from_duration(instant.saturating_duration_since(self.at));
        let behind = Span::from_duration(self.at.saturating_duration_since(instant));
        self.server + ahead - behind
    }

    fn error_at(&self, instant: Instant) -> Duration {
        self.error + instant.saturating_duration_since(self.at) / DRIFT
    }

    fn agrees_with(&self, new: &Sample) -> bool {
        let expected = self.extrapolate(new.at).as_micros();
        let apart = Duration::from_micros(expected.abs_diff(new.server.as_micros()));
        apart <= self.error_at(new.at) + new.error + GRAIN
    }
}

/// Two clocks drift apart by less than one part in `DRIFT`. Quartz under NTP stays within 500 parts per million.
const DRIFT: u32 = 1000;
/// The server's time has whole microseconds, and may be read slightly before the script that returns it runs.
const GRAIN: Duration = Duration::from_micros(2);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const NOON: u64 = 1_800_000_000_000_000;

    fn reply(start: Instant, ask_ms: u32, answer_ms: u32, server_ms: u64) -> (Timestamp, Instant, Instant) {
        (Timestamp::from_micros(NOON + server_ms * 1000), start + MS * ask_ms, start + MS * answer_ms)
    }

    fn clock(replies: &[(Timestamp, Instant, Instant)]) -> ServerClock {
        let mut clock = ServerClock::default();
        for &(server, asked, answered) in replies {
            clock.observe(server, asked, answered);
        }
        clock
    }

    #[test]
    fn a_clock_is_unknown_before_the_first_reply() {
        assert_eq!(ServerClock::default().at(Instant::now()), None);
    }

    #[test]
    fn the_server_read_its_clock_in_the_middle_of_the_round_trip() {
        let start = Instant::now();
        let clock = clock(&[reply(start, 0, 10, 100)]);
        assert_eq!(clock.at(start + MS * 5), Some(Timestamp::from_micros(NOON + 100_000)));
        assert_eq!(clock.at(start + MS * 25), Some(Timestamp::from_micros(NOON + 120_000)));
        assert_eq!(clock.at(start), Some(Timestamp::from_micros(NOON + 95_000)));
        assert_eq!(clock.error_bound(start + MS * 5), Some(MS * 5));
    }

    #[test]
    fn the_shortest_round_trip_wins_over_a_later_slow_one() {
        let start = Instant::now();
        let fast = reply(start, 0, 2, 50);
        // A slow round trip, all of it on the way back: off by 20 ms, within its error bound.
        let slow = reply(start, 10, 50, 61);
        assert_eq!(clock(&[fast, slow]).at(start + MS * 101), Some(Timestamp::from_micros(NOON + 150_000)));
        assert_eq!(clock(&[slow, fast]).at(start + MS * 101), Some(Timestamp::from_micros(NOON + 150_000)));
    }

    #[test]
    fn an_old_sample_is_replaced_once_its_error_bound_is_larger() {
        let start = Instant::now();
        // After 10 s the error bound of the first is 11 ms, that of the second 5 ms.
        let clock = clock(&[reply(start, 0, 2, 1), reply(start, 10_000, 10_010, 10_008)]);
        assert_eq!(clock.at(start + MS * 10_005), Some(Timestamp::from_micros(NOON + 10_008_000)));
    }

    #[test]
    fn a_clock_that_was_set_is_followed_at_once_both_ways() {
        let start = Instant::now();
        for set_to in [500_000, 0] {
            let clock = clock(&[reply(start, 0, 2, 100_000), reply(start, 10, 50, set_to)]);
            assert_eq!(
                clock.at(start + MS * 30),
                Some(Timestamp::from_micros(NOON + set_to * 1000)),
                "set to {set_to}"
            );
        }
    }
}
