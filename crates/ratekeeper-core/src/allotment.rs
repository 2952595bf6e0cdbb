//! Allotments: permits of a key that the store has granted to one process in advance.
//!
//! A held permit weighs, at every instant, as if it were charged at that instant. Once it was used it is charged for a
//! time that is not before its use. So for every algorithm whose used amount grows with later charges, the uses at their
//! true times stay within the limit, in every window:
//!
//! ```text
//!   room = limit − used − held
//!   take    cost ≤ room     charged now
//!   grant   n ≤ room        held += n
//!   report  u used by t     held −= u, charged for min(t, now, end − 1)
//!   return  n               held −= n
//!   end                     charged for end − 1, dropped
//! ```
//!
//! A process uses its permits only before `end`, by its clock with a margin for drift. It reports a running total, so a
//! report that arrives twice is charged once; what it keeps is an absolute number, so a grant whose reply was lost returns
//! with its next call; its calls are numbered, so one that was overtaken does nothing. An allotment that the store does not
//! know although it has not ended was lost with the store's state: its uses are charged and the rest is registered again.
//!
//! Shadow rules hold nothing. They are charged for what they would have admitted.
//!
//! Twin: `allot.lua` in the Redis store.

use crate::{
    algorithm::{Algorithm, Look, State, Weighed},
    bounds::MAX_TIME,
    decision::Decision,
    held::Held,
    policy::{Block, KeyState, Policy, ReadyRule},
    request_key::{RequestKey, Step},
    time::{Span, Timestamp},
    verb::Verb,
};

/// Permits of one key that one process holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Allotment {
    /// Identifies the holder: 40 random bits.
    pub id: u64,
    /// The number of its last call.
    pub seq: u64,
    /// Its running total of used permits, as last reported.
    pub used: u64,
    /// Permits that it holds.
    pub held: u64,
    /// When they end.
    pub end: Timestamp,
}

/// The state of a key with its allotments.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AllottedKey {
    /// The state under the rules.
    pub state: KeyState,
    /// The allotments, in the order of their first grants.
    pub allotments: Vec<Allotment>,
}

/// What a holder sends: its report, what it keeps, and what it asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AllotmentCall {
    /// The holder.
    pub id: u64,
    /// The number of this call, higher than that of every earlier one.
    pub seq: u64,
    /// The running total of used permits.
    pub used: u64,
    /// The running total that was acknowledged last.
    pub acknowledged: u64,
    /// Permits that it still holds after this call; it returns the others.
    pub keep: u64,
    /// A store time that is not before the last use.
    pub used_by: Timestamp,
    /// The end of the allotment, as the store has stated it last.
    pub end: Timestamp,
    /// Permits that it asks for.
    pub want: u64,
    /// How long the allotment lasts from now on.
    pub hold: Span,
}

/// What the holder learns.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AllotmentReply {
    /// New permits.
    pub granted: u64,
    /// Permits that it keeps: those of the call, or 0 if its allotment had ended.
    pub keep: u64,
    /// Whether it should return all with its next call: a request waits for its turn, or the key is blocked.
    pub recalled: bool,
    /// When they end.
    pub end: Timestamp,
    /// Permits that other holders have.
    pub others: u64,
    /// When one permit could be taken; `now` if at once.
    pub free_at: Timestamp,
    /// The key after the call: what a peek would return.
    pub status: Decision,
}

/// The result of a call.
#[derive(Clone, Debug)]
#[must_use]
pub struct AllotmentStep {
    /// The decisions of the requests in the call, in their order.
    pub decisions: Vec<Decision>,
    /// `None` if the call was overtaken by a later one of its holder: nothing was done, and no request was decided.
    pub reply: Option<AllotmentReply>,
    /// Whether a state was changed and must be stored.
    pub changed: bool,
}

impl AllottedKey {
    /// A key without allotments.
    pub fn new(state: KeyState) -> Self {
        Self { state, allotments: Vec::new() }
    }

    /// Permits that all holders have.
    pub fn held(&self) -> Held {
        self.held_except(None)
    }

    fn held_except(&self, id: Option<u64>) -> Held {
        let others = self.allotments.iter().filter(|allotment| Some(allotment.id) != id);
        let none = Held { hides_queue: !self.allotments.is_empty(), ..Held::NONE };
        others.fold(none, |sum, allotment| sum.and(allotment.held, allotment.end))
    }
}

impl KeyState {
    /// Forgets a reservation and a block that have ended: a state that is stored has none.
    fn forget_ended(&mut self, now: Timestamp) {
        if self.promised <= now && self.block.until <= now {
            (self.promised, self.block) = (Timestamp::EPOCH, Block::default());
        }
    }
}

impl Held {
    fn and(self, permits: u64, until: Timestamp) -> Self {
        Self { permits: self.permits + permits, until: self.until.max(until), ..self }
    }
}

impl Policy {
    /// Decides one verb for a key that may have allotments. Without any, the same as [`Policy::decide`].
    pub fn decide_allotted(&self, key: &mut AllottedKey, cost: u64, verb: &Verb, now: Timestamp) -> Step {
        let (mut key, moved) = self.allotted_request_key(key, cost, now);
        let step = key.decide(verb, now);
        Step { changed: step.changed || moved, ..step }
    }

    /// One key of a request that may have allotments, and whether its state has followed a clock that stepped back.
    pub fn allotted_request_key<'a>(
        &'a self,
        key: &'a mut AllottedKey,
        cost: u64,
        now: Timestamp,
    ) -> (RequestKey<'a>, bool) {
        let moved = self.settle_ended(key, now);
        let held = key.held();
        (RequestKey { held, ..self.request_key(&mut key.state, cost) }, moved)
    }

    /// Carries out a holder's call, and the takes and peeks that came with it.
    pub fn allot<'v>(
        &self,
        key: &mut AllottedKey,
        call: &AllotmentCall,
        requests: impl IntoIterator<Item = (u64, &'v Verb)>,
        now: Timestamp,
    ) -> AllotmentStep {
        let now = now.min(MAX_TIME);
        let mut changed = self.settle_ended(key, now);
        let known = key.allotments.iter().position(|allotment| allotment.id == call.id);
        let mut keep = call.keep;
        match known.map(|index| key.allotments[index]) {
            Some(own) if call.seq <= own.seq => {
                return AllotmentStep { decisions: Vec::new(), reply: None, changed: false };
            }
            Some(own) if own.end > now => {
                let used_by = call.used_by.min(now).min(own.end - Span::MICROSECOND);
                self.charge_past(&mut key.state, call.used.saturating_sub(own.used), used_by, now);
                changed = true;
            }
            // The store's state was lost.
            None if call.end > now => {
                let unknown = call.used.saturating_sub(call.acknowledged);
                self.charge_past(&mut key.state, unknown, call.used_by.min(now), now);
                changed |= unknown > 0;
            }
            // It has ended, and all of it was charged then.
            _ => keep = 0,
        }
        let others = key.held_except(Some(call.id));
        let held = if keep > 0 { others.and(keep, now + call.hold) } else { others };
        let mut decisions = Vec::new();
        for (cost, verb) in requests {
            if changed {
                key.state.forget_ended(now);
            }
            let step = self.decide_held(&mut key.state, cost, verb, held, now);
            changed |= step.changed;
            decisions.push(step.decision);
        }
        let longest = self.allotments_end(&key.state, now);
        if longest.is_none() {
            keep = 0;
        }
        let end = (now + call.hold).min(longest.unwrap_or(now));
        let has_room = known.is_some() || key.allotments.len() < MAX_ALLOTMENTS;
        // While a request waits for its turn nothing is granted, and no request overtakes it for longer than a turn.
        let recalled = key.state.promised > now || key.state.block.until > now;
        let room =
            if has_room && end > now && !recalled { self.room(&key.state, others.permits + keep, now) } else { 0 };
        let granted = call.want.min(room / 2);
        let own = Allotment { id: call.id, seq: call.seq, used: call.used, held: keep + granted, end };
        match known {
            Some(index) => {
                key.allotments[index] = own;
                changed = true;
            }
            None if own.held > 0 => {
                key.allotments.push(own);
                changed = true;
            }
            None => {}
        }
        let held = key.held();
        let free_at = self.free_at(&key.state, held, now);
        let status = self.decide_held(&mut key.state, 0, &Verb::Peek, held, now).decision;
        let reply = AllotmentReply { granted, keep, recalled, end, others: others.permits, free_at, status };
        AllotmentStep { decisions, reply: Some(reply), changed }
    }

    /// When a key with its allotments is back to its initial state; a bound.
    pub fn reset_with_held(&self, key: &AllottedKey, now: Timestamp) -> Timestamp {
        let held = key.held();
        let rules = self.rules().iter().zip(&key.state.states);
        let resets = rules.map(|(rule, state)| rule.look_with_held(state, held, now).reset_at);
        resets.fold(key.state.block.until.max(key.state.promised).max(held.until), Timestamp::max)
    }

    fn decide_held(&self, state: &mut KeyState, cost: u64, verb: &Verb, held: Held, now: Timestamp) -> Step {
        let mut key = self.request_key(state, cost);
        key.held = held;
        key.decide(verb, now)
    }

    /// Follows a clock that has stepped back, and charges the allotments that have ended. True if the clock was followed.
    fn settle_ended(&self, key: &mut AllottedKey, now: Timestamp) -> bool {
        let now = now.min(MAX_TIME);
        let (moved, back) = self.request_key(&mut key.state, 0).follow(now);
        for allotment in &mut key.allotments {
            // The scripts' 0 means that there is none.
            allotment.end = (allotment.end - back).max(Timestamp::EPOCH + Span::MICROSECOND);
        }
        if key.allotments.is_empty() {
            return moved;
        }
        for allotment in key.allotments.iter_mut().filter(|allotment| allotment.end <= now) {
            let held = std::mem::take(&mut allotment.held);
            self.charge_past(&mut key.state, held, allotment.end - Span::MICROSECOND, now);
        }
        // Kept while a reservation is outstanding, which may have been made next to what was held.
        let is_promised = key.state.promised > now;
        key.allotments.retain(|allotment| allotment.end > now || is_promised);
        moved
    }

    /// Charges permits that were used by a time in the past.
    fn charge_past(&self, key_state: &mut KeyState, permits: u64, used_at: Timestamp, now: Timestamp) {
        if permits == 0 {
            return;
        }
        for (rule, state) in self.rules().iter().zip(&mut key_state.states) {
            let algorithm = rule.algorithm();
            // A shadow rule is charged for what it would have admitted.
            let admitted = match rule.is_shadow() {
                true => algorithm.look(state, used_at).remaining.min(permits),
                false => permits,
            };
            if admitted > 0 {
                algorithm.charge_past(state, admitted, used_at, now);
            }
        }
    }

    /// Permits that all enforced rules would admit now.
    fn room(&self, key_state: &KeyState, held: u64, now: Timestamp) -> u64 {
        let enforced = self.rules().iter().zip(&key_state.states).filter(|(rule, _)| !rule.is_shadow());
        let rooms = enforced.map(|(rule, state)| rule.algorithm().look(state, now).remaining);
        rooms.min().unwrap_or_default().saturating_sub(held)
    }

    /// When allotments granted now end at the latest; `None` if none may be granted.
    fn allotments_end(&self, key_state: &KeyState, now: Timestamp) -> Option<Timestamp> {
        let enforced = self.rules().iter().zip(&key_state.states).filter(|(rule, _)| !rule.is_shadow());
        let mut ends = enforced.map(|(rule, state)| rule.algorithm().allotment_end(state, now));
        ends.try_fold(MAX_TIME, |earliest, end| end.map(|end| earliest.min(end)))
    }

    fn free_at(&self, key_state: &KeyState, held: Held, now: Timestamp) -> Timestamp {
        let enforced = self.rules().iter().zip(&key_state.states).filter(|(rule, _)| !rule.is_shadow());
        let free = enforced.filter_map(|(rule, state)| rule.weigh_with_held(state, 1, held, Span::ZERO, now));
        free.map(|weighed| weighed.free_at).fold(key_state.block.until.max(now), Timestamp::max)
    }
}

impl ReadyRule {
    /// When the cost could go if `held` permits are held, which may be used at any time before they end; `None` if it
    /// exceeds the limit.
    ///
    /// A cost that does not fit next to the held permits cannot be queued, because when they are used is not known. It is
    /// denied until they end, whatever wait the caller accepts.
    pub(crate) fn weigh_with_held(
        &self,
        state: &State,
        cost: u64,
        held: Held,
        longest_wait: Span,
        now: Timestamp,
    ) -> Option<Weighed> {
        let limit = self.algorithm().limit();
        if held.permits == 0 || cost == 0 || cost > limit || self.is_shadow() {
            return self.weigh(state, cost, now);
        }
        if cost + held.permits > limit {
            let after_the_wait = now + longest_wait + Span::MICROSECOND;
            return Some(Weighed::at(held.until.max(after_the_wait)));
        }
        self.weigh(state, cost + held.permits, now)
    }

    /// Remaining permits and reset time of a key, if `held` permits of it are held. A shadow rule does not hold any.
    #[inline]
    pub(crate) fn look_with_held(&self, state: &State, held: Held, now: Timestamp) -> Look {
        let look = self.algorithm().look(state, now);
        if held.permits == 0 || self.is_shadow() {
            return look;
        }
        Look {
            remaining: look.remaining.saturating_sub(held.permits),
            reset_at: self.algorithm().reset_with_held(state, held, now).max(look.reset_at),
        }
    }
}

/// Holders of one key at a time. More of them ask for each decision.
pub const MAX_ALLOTMENTS: usize = 64;

#[cfg(test)]
mod tests;
