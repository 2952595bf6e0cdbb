//! The holder of one key's allotment in one process.
//!
//! Events go in with the local time, answers and actions come out. The holder uses its permits only before
//! `asked + (end − store time) × (1 − 1/1000) − 1`, by its clock: the store granted them not before it was asked, and the two
//! clocks differ by less than one part in a thousand. No clocks are synchronized.
//!
//! Sizes and times decide how many calls are made and how many permits lie unused. Safety does not depend on them.

use ratekeeper_core::{
    Policy, Prepaid, Span, Timestamp,
    algorithm::Algorithm,
    bounds::MAX_TIME,
    store_api::{AllotmentCall, AllotmentReply},
};

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

/// The numbers of a policy's holders.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HolderConfig {
    /// The time between two calls at saturation is about half of this; see [`HolderConfig::pace`].
    pub(crate) turn: Span,
    /// How long an allotment lasts.
    pub(crate) hold: Span,
    /// The longest time for which a denial is repeated.
    pub(crate) remember: Span,
    /// Permits per second from which a key is hot; it stays hot down to half of that.
    pub(crate) hot_per_second: u64,
    /// A larger cost always asks the store.
    pub(crate) largest_cost: u64,
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

/// The call that waits for its reply.
#[derive(Clone, Copy, Debug)]
struct SentCall {
    seq: u64,
    asked: LocalTime,
    used: u64,
    keep: u64,
    want: u64,
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

/// The rate of demand: that of the last turn, or the mean with the turns before if it fell.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    from: LocalTime,
    permits: u64,
    per_second: u64,
    is_hot: bool,
    /// The demand of two turns, or 0 for a key that is not hot; and half of it.
    target: u64,
    refill_below: u64,
}

impl Rate {
    #[inline]
    fn add(&mut self, permits: u64, now: LocalTime, config: &HolderConfig) {
        self.permits += permits;
        let span = now.since(self.from);
        if span >= config.turn {
            self.turn_over(span, now, config);
        }
    }

    fn turn_over(&mut self, span: Span, now: LocalTime, config: &HolderConfig) {
        let last = self.permits.saturating_mul(1_000_000) / span.as_micros().max(1);
        self.per_second = if last > self.per_second { last } else { u64::midpoint(self.per_second, last) };
        (self.from, self.permits) = (now, 0);
        let threshold = if self.is_hot { config.hot_per_second / 2 } else { config.hot_per_second };
        self.is_hot = self.per_second >= threshold;
        let permits = self.per_second.saturating_mul(2 * config.turn.as_micros()) / 1_000_000;
        self.target = if self.is_hot && permits >= MIN_TARGET { permits } else { 0 };
        self.refill_below = self.target.div_ceil(2);
    }
}

impl HolderConfig {
    /// The numbers for a policy; `None` if it is not prepaid.
    pub(crate) fn of(policy: &Policy) -> Option<Self> {
        let prepaid: Prepaid = policy.prepaid()?;
        let turn = policy.turn(prepaid.turn);
        let hold = if prepaid.hold == Span::ZERO { times(turn, 10) } else { prepaid.hold.max(times(turn, 2)) };
        let enforced = policy.rules().iter().filter(|rule| !rule.is_shadow());
        let limit = enforced.map(|rule| rule.algorithm().limit()).min().unwrap_or_default();
        Some(Self {
            turn,
            hold,
            remember: prepaid.remember,
            hot_per_second: prepaid.hot_per_second,
            largest_cost: limit / 4,
        })
    }
}

impl HolderConfig {
    /// The time from a short grant to the next call: half a turn. Short turns are of small bursts, of which calls every half
    /// turn would have little to grant; so up to [`MIN_PACE`] it is a turn and a quarter, if denials last that long.
    fn pace(&self) -> Span {
        let longer = Span::from_micros(self.turn.as_micros() * 5 / 4).min(MIN_PACE).min(self.remember);
        half(self.turn).max(longer)
    }
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
            rate: Rate { from: now, ..Rate::default() },
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

    /// Whether the next call should go through the allotment protocol: something is held, to report or wanted.
    pub(crate) fn takes_part(&self) -> bool {
        self.held > 0 || self.used > self.acknowledged || self.rate.target > 0
    }

    /// Whether a call waits for its reply.
    pub(crate) fn is_waiting(&self) -> bool {
        self.in_flight.is_some()
    }

    /// The next call. `largest` is the largest cost of the requests that go with it: if the held permits do not cover it,
    /// they are returned, so that the store decides with all of them.
    pub(crate) fn call(
        &mut self,
        largest: u64,
        return_all: bool,
        now: LocalTime,
        config: &HolderConfig,
    ) -> AllotmentCall {
        self.expire(now);
        if return_all || largest > self.held {
            self.counts.returned += self.held;
            self.held = 0;
        }
        let want = if return_all || now < self.short_until { 0 } else { self.rate.target.saturating_sub(self.held) };
        // By this call they may end sooner than before, and the reply may be lost.
        self.usable_until = self.usable_until.min(now + (shortened(config.hold) - Span::MICROSECOND));
        self.seq += 1;
        (self.asked_at, self.sent, self.is_recalled) = (now, self.used, false);
        self.refill_again_at = LocalTime(0);
        self.in_flight = Some(SentCall { seq: self.seq, asked: now, used: self.used, keep: self.held, want });
        AllotmentCall {
            id: self.id,
            seq: self.seq,
            used: self.used,
            acknowledged: self.acknowledged,
            keep: self.held,
            used_by: self.last_use.map_or(MAX_TIME, |last| self.latest_store_time(last)),
            end: self.end,
            want,
            hold: config.hold,
        }
    }

    /// The reply to a call. `refused` is the smallest cost that was denied in it, if any. A reply to an earlier call is
    /// ignored.
    pub(crate) fn reply(
        &mut self,
        seq: u64,
        reply: &AllotmentReply,
        refused: Option<u64>,
        now: LocalTime,
        config: &HolderConfig,
    ) {
        let Some(call) = self.in_flight.take_if(|call| call.seq == seq) else { return };
        let stated = reply.status.decided_at;
        self.acknowledged = call.used;
        self.anchor = Some((stated, call.asked));
        if self.used == call.used {
            self.last_use = None;
        }
        if call.keep > 0 && reply.keep == 0 {
            // The allotment had ended by the store's clock, which charged all of it: also what was used since the call,
            // which cannot be returned any more.
            self.counts.lost += self.held;
            (self.held, self.sent) = (0, self.used);
        }
        let lasts = reply.end.since(stated);
        let usable_until = call.asked + (shortened(lasts) - Span::MICROSECOND);
        (self.usable_until, self.end) = (usable_until, reply.end);
        self.held += reply.granted;
        self.counts.granted += reply.granted;
        // It may have been read too late to be used.
        self.expire(now);
        if reply.recalled {
            // Not used any more from now on. The store counts it until the next call.
            self.recall();
            self.is_recalled = reply.keep > 0;
        }
        self.denial = None;
        let is_short = reply.granted < call.want;
        if refused.is_some() || is_short {
            // Exactly until then, as far as this process knows: the store's clock shows no more.
            let mut free_in = shortened(reply.free_at.since(stated));
            if reply.others > 0 {
                // What others hold may come back sooner.
                free_in = free_in.min(config.turn);
            }
            let free_at = call.asked + free_in;
            let pace = now + config.pace();
            let until = if is_short { free_at.max(pace) } else { free_at };
            let until = until.min(now + config.remember);
            self.short_until = until.max(pace);
            let cost = if is_short { 1 } else { refused.unwrap_or(1) };
            if until > now {
                self.denial = Some(Denial { cost, until, free_at: free_at.max(until) });
            }
        }
    }

    /// The store has denied a request outside the protocol.
    pub(crate) fn denied(
        &mut self,
        cost: u64,
        retry_after: Span,
        asked: LocalTime,
        now: LocalTime,
        config: &HolderConfig,
    ) {
        // What others hold may come back before that; not known here.
        let free_at = asked + shortened(retry_after);
        let until = free_at.min(now + config.remember).min(now + config.turn);
        if until > now && self.denial.is_none_or(|denial| cost <= denial.cost || denial.until <= now) {
            // Only a block denies a cost of 0, and then every other.
            self.denial = Some(Denial { cost: cost.max(1), until, free_at });
        }
    }

    /// The time of the last request.
    pub(crate) fn last_demand(&self) -> LocalTime {
        self.last_demand
    }

    /// The call was not executed, or its reply will not be read.
    pub(crate) fn failed(&mut self, seq: u64) {
        self.in_flight = self.in_flight.filter(|call| call.seq != seq);
    }

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
            Some((stated, asked)) => {
                let span = at.since(asked);
                stated + span + Span::from_micros(span.as_micros() / DRIFT + 1)
            }
        }
    }

    /// Every one and a half turns. After a short grant the next call for permits reports as well, so it may come first.
    fn report_at(&self, config: &HolderConfig) -> LocalTime {
        let due = self.asked_at + Span::from_micros(config.turn.as_micros() * 3 / 2);
        due.max(self.short_until + half(config.turn))
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

/// Two clocks gain or lose less than one part in this many on each other.
const DRIFT: u64 = 1_000;
/// The shortest time from a short grant to the next call, unless the turn is shorter.
const MIN_PACE: Span = Span::from_millis(30);
/// Fewer permits are not worth an allotment.
const MIN_TARGET: u64 = 4;
/// Ids have 40 bits.
const MAX_ID: u64 = (1 << 40) - 1;

#[cfg(test)]
mod tests;
