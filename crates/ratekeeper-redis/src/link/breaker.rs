//! Circuit breaker of one node.
//!
//! A server that accepts calls and answers none costs every caller a whole deadline. After a run of failures the breaker
//! opens and calls fail at once, while the reconnect task probes the node. After enough good probes it closes.
//!
//! ```text
//! closed ── failures ──▶ open ── good probe ──▶ half-open ── enough good probes ──▶ closed
//!                          ▲ ◀──── failed probe ────┘
//! ```
//!
//! No clock and no I/O: events come in with their time, changes of state come out.

use std::time::{Duration, Instant};

use super::{random::Random, settings::BreakerSettings};

/// The circuit breaker of one node.
#[derive(Debug)]
pub(super) struct Breaker {
    settings: BreakerSettings,
    state: State,
    random: Random,
}

#[derive(Debug)]
enum State {
    Closed(Tally),
    /// Calls fail; the next probe is due at `probe_at`.
    Open {
        probe_at: Instant,
    },
    /// `answers` good probes in a row; the next one is due at once.
    HalfOpen {
        answers: u32,
    },
}

/// An observation about a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// A call had a reply, possibly an error.
    Answered,
    /// A call had no reply, or one that says the node is unavailable.
    Failed,
    /// A probe succeeded.
    Probed,
    /// A probe failed.
    ProbeFailed,
}

/// A change of state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Change {
    Opened,
    Closed,
}

impl Breaker {
    pub(super) fn new(settings: BreakerSettings, random: Random) -> Self {
        Self { settings, state: State::Closed(Tally::default()), random }
    }

    /// Whether calls may be sent.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// When the next probe is due; `None` while closed.
    pub(super) fn probe_at(&self, now: Instant) -> Option<Instant> {
        match self.state {
            State::Closed(_) => None,
            State::Open { probe_at } => Some(probe_at),
            State::HalfOpen { .. } => Some(now),
        }
    }

    /// Processes an event.
    pub(super) fn on(&mut self, event: Event, now: Instant) -> Option<Change> {
        match (&mut self.state, event) {
            (State::Closed(tally), Event::Answered | Event::Probed) => tally.answered(now),
            (State::Closed(tally), Event::Failed | Event::ProbeFailed) => {
                tally.failed(now);
                if tally.is_unhealthy(&self.settings) {
                    // One short pause may have failed many concurrent calls, so the first probe comes soon.
                    let soon = self.random.between(self.settings.probe_min / 5, self.settings.probe_min / 2);
                    self.state = State::Open { probe_at: now + soon };
                    return Some(Change::Opened);
                }
            }
            // Calls that were sent before the breaker opened say nothing new.
            (_, Event::Answered | Event::Failed) => {}
            (State::Open { .. } | State::HalfOpen { .. }, Event::ProbeFailed) => self.state = self.open(now),
            (State::Open { .. }, Event::Probed) => return self.half_open(1),
            (State::HalfOpen { answers }, Event::Probed) => {
                let answers = answers.saturating_add(1);
                return self.half_open(answers);
            }
        }
        None
    }

    fn open(&mut self, now: Instant) -> State {
        let pause = self.random.between(self.settings.probe_min, self.settings.probe_max);
        State::Open { probe_at: now + pause }
    }

    fn half_open(&mut self, answers: u32) -> Option<Change> {
        if answers < self.settings.answers_to_close {
            self.state = State::HalfOpen { answers };
            return None;
        }
        self.state = State::Closed(Tally::default());
        Some(Change::Closed)
    }
}

/// Outcomes of the last second, in tenths of a second, and the number of failures since the last success.
#[derive(Debug, Default)]
struct Tally {
    failures_in_a_row: u32,
    tenths: [Tenth; TENTHS],
    /// The current tenth and its start.
    newest: usize,
    began: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tenth {
    calls: u32,
    failures: u32,
}

impl Tally {
    fn answered(&mut self, now: Instant) {
        self.failures_in_a_row = 0;
        self.tenth(now).calls += 1;
    }

    fn failed(&mut self, now: Instant) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let tenth = self.tenth(now);
        tenth.calls += 1;
        tenth.failures += 1;
    }

    fn is_unhealthy(&self, settings: &BreakerSettings) -> bool {
        let (calls, failures) = self.tenths.iter().fold((0_u64, 0_u64), |(calls, failures), tenth| {
            (calls + u64::from(tenth.calls), failures + u64::from(tenth.failures))
        });
        let is_mostly_failing = failures * 100 >= calls * u64::from(settings.failing_share);
        self.failures_in_a_row >= settings.failures_in_a_row
            || calls >= u64::from(settings.calls_to_judge) && is_mostly_failing
    }

    /// The tenth that `now` falls into. Tenths older than a second are cleared.
    fn tenth(&mut self, now: Instant) -> &mut Tenth {
        let began = *self.began.get_or_insert(now);
        let passed = now.saturating_duration_since(began).as_millis() / TENTH.as_millis();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        if passed > 0 {
            for _ in 0..usize::try_from(passed).unwrap_or(TENTHS).min(TENTHS) {
                self.newest = (self.newest + 1) % TENTHS;
                self.tenths[self.newest] = Tenth::default();
            }
            self.began = Some(began + TENTH.saturating_mul(passed));
        }
        &mut self.tenths[self.newest]
    }
}

const TENTHS: usize = 10;
const TENTH: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
