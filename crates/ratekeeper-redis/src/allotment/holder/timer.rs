//! The timer's side of a holder: when it reports, returns, or needs the timer no more.

use ratekeeper_core::Span;

use super::{Holder, HolderConfig, LocalTime, half, times};

/// What the holder needs from its timer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    /// Nothing for now.
    None,
    /// A call that reports what was used.
    Report,
    /// A call that reports and returns everything.
    Return,
    /// Nothing is held, and nothing is left to report: the timer may forget the key.
    Idle,
}

impl Holder {
    /// What is due; asked every half turn.
    pub(crate) fn tick(&mut self, now: LocalTime, config: &HolderConfig) -> Action {
        let span = now.since(self.rate.from);
        if span >= config.turn {
            self.rate.turn_over(span, now, config);
        }
        if self.in_flight.is_some() {
            return Action::None;
        }
        if now >= self.usable_until {
            self.expire(now);
            // The store has charged everything at the end.
            self.acknowledged = self.used;
            let is_idle = now.since(self.last_demand) > times(config.turn, 2);
            return if is_idle { Action::Idle } else { Action::None };
        }
        let is_idle = now.since(self.last_demand) > times(config.turn, 2);
        let is_reportable = self.used > self.acknowledged;
        if self.is_recalled || (is_idle && (self.held > 0 || is_reportable)) {
            Action::Return
        } else if is_reportable && now >= self.report_at(config) {
            Action::Report
        } else {
            Action::None
        }
    }

    /// Every one and a half turns. After a short grant the next call for permits reports as well, so it may come first.
    fn report_at(&self, config: &HolderConfig) -> LocalTime {
        let due = self.asked_at + Span::from_micros(config.turn.as_micros() * 3 / 2);
        due.max(self.short_until + half(config.turn))
    }
}
