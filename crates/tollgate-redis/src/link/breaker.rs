//! Whether a node is worth asking.
//!
//! A sick server is worse than a dead one: it takes every question and answers none. After a run of failures the
//! breaker opens and callers are turned away at once, while somebody in the background asks the node how it is. When it
//! answers well, the breaker closes.
//!
//! ```text
//! closed ── failures ──▶ open ── a good answer ──▶ mending ── enough of them ──▶ closed
//!                          ▲ ◀──── a bad one ───────┘
//! ```
//!
//! No clock and no socket in here: events and their times come in, changes come out.

use std::time::{Duration, Instant};

use super::{random::Random, settings::BreakerSettings};

/// The judgement on one node.
#[derive(Debug)]
pub(super) struct Breaker {
    settings: BreakerSettings,
    state: State,
    random: Random,
}

#[derive(Debug)]
enum State {
    Closed(Tally),
    /// Sick; to be asked how it is at `probe_at`.
    Open {
        probe_at: Instant,
    },
    /// So many good answers since it was sick; to be asked again at once.
    Mending {
        answers: u32,
    },
}

/// What has been learnt of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// It answered a caller, if only to refuse.
    Answered,
    /// It left a caller without an answer, or said that it is unwell.
    Failed,
    /// It is well, said the one in the background.
    Probed,
    /// It is not.
    ProbeFailed,
}

/// What an event has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Change {
    Opened,
    Closed,
}

impl Breaker {
    pub(super) fn new(settings: BreakerSettings, random: Random) -> Self {
        Self { settings, state: State::Closed(Tally::default()), random }
    }

    /// Whether callers may ask the node.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// When the node should be asked how it is. Nothing while it is well.
    pub(super) fn probe_at(&self, now: Instant) -> Option<Instant> {
        match self.state {
            State::Closed(_) => None,
            State::Open { probe_at } => Some(probe_at),
            State::Mending { .. } => Some(now),
        }
    }

    /// Takes in an event.
    pub(super) fn on(&mut self, event: Event, now: Instant) -> Option<Change> {
        match (&mut self.state, event) {
            (State::Closed(tally), Event::Answered | Event::Probed) => tally.answered(now),
            (State::Closed(tally), Event::Failed | Event::ProbeFailed) => {
                tally.failed(now);
                if tally.is_sick(&self.settings) {
                    // Many callers at once may have met one short pause, so the first look comes soon.
                    let soon = self.random.between(self.settings.probe_min / 5, self.settings.probe_min / 2);
                    self.state = State::Open { probe_at: now + soon };
                    return Some(Change::Opened);
                }
            }
            // Callers let in before it opened tell old news.
            (_, Event::Answered | Event::Failed) => {}
            (State::Open { .. } | State::Mending { .. }, Event::ProbeFailed) => self.state = self.open(now),
            (State::Open { .. }, Event::Probed) => return self.mend(1),
            (State::Mending { answers }, Event::Probed) => {
                let answers = answers.saturating_add(1);
                return self.mend(answers);
            }
        }
        None
    }

    fn open(&mut self, now: Instant) -> State {
        let pause = self.random.between(self.settings.probe_min, self.settings.probe_max);
        State::Open { probe_at: now + pause }
    }

    fn mend(&mut self, answers: u32) -> Option<Change> {
        if answers < self.settings.answers_to_close {
            self.state = State::Mending { answers };
            return None;
        }
        self.state = State::Closed(Tally::default());
        Some(Change::Closed)
    }
}

/// The last second's outcomes, in tenths, and the run of failures at its end.
#[derive(Debug, Default)]
struct Tally {
    failures_in_a_row: u32,
    tenths: [Tenth; TENTHS],
    /// Which tenth was written last, and when it began.
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

    fn is_sick(&self, settings: &BreakerSettings) -> bool {
        let (calls, failures) = self.tenths.iter().fold((0_u64, 0_u64), |(calls, failures), tenth| {
            (calls + u64::from(tenth.calls), failures + u64::from(tenth.failures))
        });
        let is_mostly_failing = failures * 100 >= calls * u64::from(settings.failing_share);
        self.failures_in_a_row >= settings.failures_in_a_row
            || calls >= u64::from(settings.calls_to_judge) && is_mostly_failing
    }

    /// The tenth of a second that `now` falls into; tenths older than a second are forgotten on the way.
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
