//! The holder of one key's allotment in one process.
//!
//! Events go in with the local time, answers and actions come out. The holder uses its permits only before
//! `asked + (end − store time) × (1 − 1/1000) − 1`, by its clock: the store granted them not before it was asked, and the two
//! clocks differ by less than one part in a thousand. No clocks are synchronized.
//!
//! Sizes and times decide how many calls are made and how many permits lie unused. Safety does not depend on them.

mod call;
mod config;
mod rate;
mod timer;

use ratekeeper_core::{Span, Timestamp, bounds::MAX_TIME, store_api::MOST_OPEN};

use self::{call::SentCall, rate::Rate};
pub(crate) use self::{config::HolderConfig, timer::Action};

/// A time of this process's monotonic clock, in µs. The clock counts while the machine is suspended.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct LocalTime(pub(crate) u64);

impl LocalTime {
    pub(crate) fn since(self, earlier: Self) -> Span {
        Span::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Span> for LocalTime {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.as_micros()))
    }
}

/// How a take was answered without the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Served {
    /// By a held permit. `refill` asks for a call in the background.
    Granted { refill: bool },
    /// Denied, as the store has denied it before.
    Denied(Denial),
    /// Not at all: the store has to decide.
    Ask,
}

/// A denial that is repeated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Denial {
    /// Requests of at least this cost are denied.
    pub(crate) cost: u64,
    /// Until when.
    pub(crate) until: LocalTime,
    /// When it would pass, as far as is known; not before `until`.
    pub(crate) free_at: LocalTime,
}

/// Permits that takes may use without the holder, and the terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HolderOpening {
    pub(crate) permits: u64,
    /// They may be used before this.
    pub(crate) take_until: LocalTime,
    /// How takes are denied that they do not cover.
    pub(crate) denial: Option<Denial>,
    /// A store time, and the local time at which the call that returned it was made.
    pub(crate) stated: Timestamp,
    pub(crate) asked: LocalTime,
}

/// Permits granted to this process for one key, and what it knows of the key.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    id: u64,
    seq: u64,
    held: u64,
    /// Running total of used permits, and how much of it the store has acknowledged.
    used: u64,
    acknowledged: u64,
    /// The running total of the last call: the store may have charged as much.
    sent: u64,
    /// The held permits may be used before this.
    usable_until: LocalTime,
    /// The end of the allotment by the store's clock.
    end: Timestamp,
    last_use: Option<LocalTime>,
    /// A store time, and the local time at which the call that returned it was made.
    anchor: Option<(Timestamp, LocalTime)>,
    denial: Option<Denial>,
    /// After a grant that was smaller than asked for, no more is asked for until then.
    short_until: LocalTime,
    /// A refill that was asked for is not asked for again before this.
    refill_again_at: LocalTime,
    /// The store has asked for everything back.
    is_recalled: bool,
    rate: Rate,
    last_demand: LocalTime,
    asked_at: LocalTime,
    in_flight: Option<SentCall>,
    counts: HolderCounts,
}

/// Permits of a holder by what became of them: granted = used + returned + expired + lost + held.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct HolderCounts {
    pub(crate) granted: u64,
    pub(crate) used: u64,
    pub(crate) returned: u64,
    pub(crate) expired: u64,
    /// Held when the store stated that the allotment had ended.
    pub(crate) lost: u64,
}

impl Holder {
    /// A holder without permits. `id` is random, so that no two holders share one.
    pub(crate) fn new(id: u64, now: LocalTime) -> Self {
        Self {
            id: id & MAX_ID,
            seq: 0,
            held: 0,
            used: 0,
            acknowledged: 0,
            sent: 0,
            usable_until: LocalTime(0),
            end: Timestamp::EPOCH,
            last_use: None,
            anchor: None,
            denial: None,
            short_until: LocalTime(0),
            refill_again_at: LocalTime(0),
            is_recalled: false,
            rate: Rate::new(now),
            last_demand: now,
            asked_at: LocalTime(0),
            in_flight: None,
            counts: HolderCounts::default(),
        }
    }

    /// A take without a wait.
    #[inline]
    pub(crate) fn take(&mut self, cost: u64, now: LocalTime, config: &HolderConfig) -> Served {
        self.note_demand(cost, now, config);
        self.serve(cost, now, config)
    }

    /// A take whose demand was counted before: it has waited for the reply to a call.
    #[inline]
    pub(crate) fn serve(&mut self, cost: u64, now: LocalTime, config: &HolderConfig) -> Served {
        if cost <= self.held && now < self.usable_until && cost > 0 && cost <= config.largest_cost {
            self.held -= cost;
            self.used += cost;
            self.counts.used += cost;
            self.last_use = Some(now);
            return Served::Granted { refill: self.held < self.rate.refill_below && self.wants_refill(now, config) };
        }
        match self.denial {
            Some(denial) if now < denial.until && cost >= denial.cost && cost > 0 => Served::Denied(denial),
            _ => Served::Ask,
        }
    }

    /// The permits that takes may use without the holder until its next event, and on what terms. Their use is reported
    /// with [`note_uses`](Self::note_uses) before any other event. A take that would ask for a refill, or
    /// that ends a turn of the rate, is left to the holder. `None` if it has to answer all takes.
    pub(crate) fn opening(&self, now: LocalTime, config: &HolderConfig) -> Option<HolderOpening> {
        let (stated, asked) = self.anchor?;
        let turn_ends = self.rate.from + config.turn;
        let refills_at = match self.in_flight {
            Some(_) => LocalTime(u64::MAX),
            None => self.short_until.max(self.refill_again_at),
        };
        let is_usable = now < self.usable_until && config.largest_cost > 0;
        let reserve = if now < refills_at { 0 } else { self.rate.refill_below };
        let mut take_until = self.usable_until.min(turn_ends);
        if now < refills_at {
            take_until = take_until.min(refills_at);
        }
        let permits = if is_usable { self.held.saturating_sub(reserve).min(MOST_OPEN) } else { 0 };
        // The holder answers by its other permits first.
        let denial = self.denial.filter(|denial| now < denial.until && (!is_usable || permits == self.held));
        let denial = denial.map(|denial| Denial { until: denial.until.min(turn_ends), ..denial });
        let is_open = permits > 0 || denial.is_some();
        is_open.then_some(HolderOpening { permits, take_until, denial, stated, asked })
    }

    /// What was answered on the terms of the last [`opening`](Self::opening): `used` permits of it, and denied requests for
    /// `denied` permits. None of it was later than `now`.
    pub(crate) fn note_uses(&mut self, used: u64, denied: u64, now: LocalTime) {
        if used > 0 {
            self.held -= used;
            self.used += used;
            self.counts.used += used;
            self.last_use = Some(now);
        }
        if used + denied > 0 {
            // A turn of the rate ends with a take that the holder answers.
            self.rate.permits += used + denied;
            self.last_demand = now;
        }
    }

    /// Demand that the holder does not serve, but which counts for its rate.
    pub(crate) fn note_demand(&mut self, cost: u64, now: LocalTime, config: &HolderConfig) {
        self.last_demand = now;
        self.rate.add(cost, now, config);
    }

    /// Returns permits of a use that no call has reported yet. `false` if the store has to be asked.
    pub(crate) fn give_back(&mut self, cost: u64, now: LocalTime) -> bool {
        self.denial = None;
        if now >= self.usable_until || self.used.saturating_sub(self.sent) < cost {
            return false;
        }
        self.used -= cost;
        self.held += cost;
        self.counts.used -= cost;
        true
    }

    /// Stops using the held permits; the next call returns them.
    pub(crate) fn recall(&mut self) {
        self.is_recalled |= self.held > 0;
        self.counts.returned += self.held;
        self.held = 0;
    }

    /// Forgets remembered denials, because permits were returned.
    pub(crate) fn clear_denial(&mut self) {
        self.denial = None;
    }

    /// The time of the last request.
    pub(crate) fn last_demand(&self) -> LocalTime {
        self.last_demand
    }

    /// Drops all permits, because the clock cannot be trusted.
    pub(crate) fn forget(&mut self) {
        self.counts.expired += self.held;
        (self.held, self.usable_until, self.denial) = (0, LocalTime(0), None);
    }

    /// Permits held now.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// What became of its permits.
    pub(crate) fn counts(&self) -> HolderCounts {
        self.counts
    }

    /// The store's time, as an estimate that is not too early.
    pub(crate) fn latest_store_time(&self, at: LocalTime) -> Timestamp {
        match self.anchor {
            None => MAX_TIME,
            Some((stated, asked)) => latest_store_time(stated, asked, at),
        }
    }

    /// Asks for a refill once, and again after a turn if no call was made.
    fn wants_refill(&mut self, now: LocalTime, config: &HolderConfig) -> bool {
        let is_due = self.in_flight.is_none() && now >= self.short_until && now >= self.refill_again_at;
        if is_due {
            self.refill_again_at = now + config.turn;
        }
        is_due
    }

    fn expire(&mut self, now: LocalTime) {
        if now >= self.usable_until && self.held > 0 {
            self.counts.expired += self.held;
            self.held = 0;
        }
    }
}

fn times(span: Span, factor: u64) -> Span {
    Span::from_micros(span.as_micros().saturating_mul(factor))
}

fn half(span: Span) -> Span {
    Span::from_micros(span.as_micros() / 2)
}

/// A span of the store's clock, as it takes at least by ours.
fn shortened(span: Span) -> Span {
    Span::from_micros(span.as_micros() - span.as_micros() / DRIFT)
}

/// The store's time, as an estimate that is not too early: it was `stated` in the reply to a call that was made at `asked`.
#[inline]
pub(crate) fn latest_store_time(stated: Timestamp, asked: LocalTime, at: LocalTime) -> Timestamp {
    let span = at.since(asked);
    stated + span + Span::from_micros(span.as_micros() / DRIFT + 1)
}

/// Two clocks gain or lose less than one part in this many on each other.
const DRIFT: u64 = 1_000;
/// Ids have 40 bits.
const MAX_ID: u64 = (1 << 40) - 1;

#[cfg(test)]
mod tests;
