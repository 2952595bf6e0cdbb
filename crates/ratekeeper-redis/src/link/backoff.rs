//! Backoff between connection attempts: exponential with jitter, capped so that recovery takes less than a second.

use std::time::{Duration, Instant};

use super::{random::Random, settings::LinkSettings};

/// The pauses between connection attempts to one node.
#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    /// Attempts since the last connection that lasted.
    tries: u32,
    random: Random,
}

impl Backoff {
    pub(super) fn new(settings: &LinkSettings, random: Random) -> Self {
        Self { min: settings.redial_min, max: settings.redial_max.max(settings.redial_min), tries: 0, random }
    }

    /// The pause before the next attempt; zero before the first.
    pub(super) fn pause(&mut self) -> Duration {
        let tries = self.tries;
        self.tries = tries.saturating_add(1);
        if tries == 0 {
            return Duration::ZERO;
        }
        // Full jitter above `min`: clients that lost the server together do not return together.
        let most = self.min.saturating_mul(2_u32.saturating_pow(tries)).min(self.max);
        self.random.between(self.min, most)
    }

    /// A connection opened at `since` is lost. If it lasted longer than the longest pause, the count restarts. A server
    /// that accepts connections only to close them is therefore not reconnected to without a pause.
    pub(super) fn lost(&mut self, since: Instant, now: Instant) {
        if now.saturating_duration_since(since) > self.max {
            self.tries = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff() -> Backoff {
        Backoff::new(&LinkSettings::default(), Random::seeded(7))
    }

    #[test]
    fn the_first_attempt_is_immediate_and_pauses_stay_within_bounds() {
        let mut backoff = backoff();
        assert_eq!(backoff.pause(), Duration::ZERO);
        let pauses: Vec<_> = (0..1000).map(|_| backoff.pause()).collect();
        let (least, most) = (Duration::from_millis(100), Duration::from_millis(500));
        assert!(pauses.iter().all(|pause| (least..=most).contains(pause)));
        assert!(pauses.iter().any(|pause| *pause > Duration::from_millis(450)), "grows to the upper end");
        assert!(pauses.iter().any(|pause| *pause < Duration::from_millis(150)), "full jitter");
    }

    #[test]
    fn only_a_connection_that_lasted_is_replaced_without_a_pause() {
        let mut backoff = backoff();
        let start = Instant::now();
        backoff.pause();
        backoff.lost(start, start + Duration::from_millis(10));
        assert!(backoff.pause() > Duration::ZERO);
        backoff.lost(start, start + Duration::from_secs(2));
        assert_eq!(backoff.pause(), Duration::ZERO);
    }
}
