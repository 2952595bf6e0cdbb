//! A holder's calls and their replies.

use ratekeeper_core::{
    Span,
    bounds::MAX_TIME,
    store_api::{AllotmentCall, AllotmentReply},
};

use super::{Denial, Holder, HolderConfig, LocalTime, shortened};

/// The call that waits for its reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentCall {
    pub(super) seq: u64,
    asked: LocalTime,
    used: u64,
    keep: u64,
    want: u64,
}

impl Holder {
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

    /// The call was not executed, or its reply will not be read.
    pub(crate) fn failed(&mut self, seq: u64) {
        self.in_flight = self.in_flight.filter(|call| call.seq != seq);
    }
}
