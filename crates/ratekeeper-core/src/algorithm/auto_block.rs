//! Automatic block: a key that is denied `after` times `within` a span is blocked.
//!
//! It admits every cost until then, so a policy has it next to rules that limit. Denials are counted from the first one on; a
//! span that ends below `after` is forgotten. A block lasts `block`; each one that follows before a quiet time is `grow`
//! times as long as the one before, at most `at_most`. The quiet time is as long as the last block, counted from its end,
//! or from the first denial counted since. Requests of a blocked key are denied and not counted, so a block never grows by
//! itself.
//!
//! ```text
//!   denials ×××          ×××                 ×
//!           ├──────┤     ├──────────────┤    └ count of 1: the growth starts over after the quiet time
//!           block        block × grow   └ quiet ───┘
//! ```
//!
//! State: a meter. `used` is the number of blocks in a row × 2^32 plus the denials counted; `at` is when the first of these
//! came or, without any, when the last block began.
//!
//! Only a denial by the key's other rules changes the state; such a denial is written to the store.
//!
//! Twin: `auto_block.lua` in the Redis store.

use super::{Algorithm, Charge, GiveBack, Look, Meter, Weighed, stepped_back};
use crate::{
    bounds::{MAX_WAIT, tolerance},
    held::Held,
    time::{Span, Timestamp},
};

/// The numbers of an automatic block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AutoBlock {
    after: u64,
    within: Span,
    block: Span,
    grow: u64,
    at_most: Span,
    tolerance: Span,
}

/// Denials counted and blocks in a row at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Record {
    /// When the first denial came, or the last block began.
    at: Timestamp,
    denials: u64,
    /// Blocks in a row.
    blocks: u64,
    /// The end of the current block; `None` if there is none.
    blocked_until: Option<Timestamp>,
}

impl AutoBlock {
    pub(crate) fn new(after: u64, within: Span, block: Span, grow: u64, at_most: Span) -> Self {
        Self { after, within, block, grow, at_most, tolerance: tolerance(within.min(block)) }
    }

    /// The span in which denials are counted.
    pub fn within(&self) -> Span {
        self.within
    }

    /// The length of a first block.
    pub fn block(&self) -> Span {
        self.block
    }

    /// The factor by which a block is longer than the one before it.
    pub fn grow(&self) -> u64 {
        self.grow
    }

    /// The longest block.
    pub fn at_most(&self) -> Span {
        self.at_most
    }

    /// How far back the clock may step before the state moves with it.
    pub fn tolerance(&self) -> Span {
        self.tolerance
    }

    /// The length of the block with this number in a row, from 1.
    pub fn length(&self, number: u64) -> Span {
        let mut length = self.block.as_micros();
        for _ in 1..number {
            if self.grow == 1 || length >= self.at_most.as_micros() {
                break;
            }
            length *= self.grow;
        }
        Span::from_micros(length).min(self.at_most)
    }

    /// Denials counted, blocks in a row, and the end of the current block.
    pub fn counted(&self, state: &Meter, now: Timestamp) -> (u64, u64, Option<Timestamp>) {
        let record = self.record(state, now);
        (record.denials, record.blocks, record.blocked_until)
    }

    /// Migrates a state from other numbers. A block goes on under the new ones; a count that they would have ended is
    /// forgotten.
    pub(crate) fn adopt(&self, state: &Meter) -> Meter {
        if state.used % UNIT < self.after { *state } else { Meter::default() }
    }

    /// Counts a denial; true if the state has changed.
    pub(crate) fn count(&self, state: &mut Meter, now: Timestamp) -> bool {
        let record = self.record(state, now);
        if record.blocked_until.is_some() {
            return false;
        }
        let denials = record.denials + 1;
        *state = if denials >= self.after {
            Meter { at: now, used: packed((record.blocks + 1).min(MAX_BLOCKS), 0) }
        } else {
            let at = if record.denials == 0 { now } else { record.at };
            Meter { at, used: packed(record.blocks, denials) }
        };
        true
    }

    fn record(&self, state: &Meter, now: Timestamp) -> Record {
        let fresh = Record { at: now, denials: 0, blocks: 0, blocked_until: None };
        let (blocks, denials) = (state.used / UNIT, state.used % UNIT);
        if state.used == 0 {
            return fresh;
        }
        let length = if blocks > 0 { self.length(blocks) } else { Span::ZERO };
        if denials == 0 {
            let until = state.at + length;
            return match now {
                _ if now < until => Record { at: state.at, denials, blocks, blocked_until: Some(until) },
                _ if now < until + length => Record { at: state.at, denials, blocks, blocked_until: None },
                _ => fresh,
            };
        }
        let is_counting = now < state.at + self.within;
        let is_quiet = now >= state.at + length;
        Record {
            at: state.at,
            denials: if is_counting { denials } else { 0 },
            blocks: if is_quiet && !is_counting { 0 } else { blocks },
            blocked_until: None,
        }
    }
}

fn packed(blocks: u64, denials: u64) -> u64 {
    blocks * UNIT + denials
}

impl Algorithm for AutoBlock {
    type State = Meter;

    /// Denials, not permits: any cost passes while the key is not blocked.
    fn limit(&self) -> u64 {
        self.after
    }

    fn follow(&self, state: &mut Meter, now: Timestamp) -> Span {
        let back = stepped_back(state.at, now, self.tolerance);
        state.at = state.at - back;
        back
    }

    fn weigh(&self, state: &Meter, _cost: u64, now: Timestamp) -> Weighed {
        Weighed::at(self.record(state, now).blocked_until.unwrap_or(now))
    }

    fn charge(&self, _state: &mut Meter, _charge: Charge, _now: Timestamp) {}

    fn penalize(&self, _state: &mut Meter, _charge: Charge, _now: Timestamp) {}

    fn give_back(&self, _state: &mut Meter, _back: GiveBack, _now: Timestamp) {}

    fn charge_past(&self, _state: &mut Meter, _cost: u64, _used_at: Timestamp, _now: Timestamp) {}

    /// Remaining denials before a block; none during one.
    fn look(&self, state: &Meter, now: Timestamp) -> Look {
        let record = self.record(state, now);
        let length = if record.blocks > 0 { self.length(record.blocks) } else { Span::ZERO };
        let reset_at = match (record.denials, record.blocks) {
            (0, 0) => now,
            // The quiet time after a block, or after denials that were forgotten.
            (0, _) if state.used.is_multiple_of(UNIT) => record.at + length + length,
            (0, _) => record.at + length,
            _ => record.at + length.max(self.within),
        };
        let remaining = if record.blocked_until.is_some() { 0 } else { self.after.saturating_sub(record.denials) };
        Look { remaining, reset_at }
    }

    fn line_ends(&self, _state: &Meter, now: Timestamp) -> Timestamp {
        now
    }

    fn horizon(&self) -> Span {
        MAX_WAIT
    }

    fn reset_with_held(&self, state: &Meter, _held: Held, now: Timestamp) -> Timestamp {
        self.look(state, now).reset_at
    }

    /// Never granted: denials have to reach the store to be counted.
    fn allotment_end(&self, _state: &Meter, _now: Timestamp) -> Option<Timestamp> {
        None
    }

    fn turn(&self) -> Span {
        Span::ZERO
    }
}

/// Blocks in a row are counted in units of this, above the denials.
const UNIT: u64 = 1 << 32;
/// The most blocks in a row that are counted. With the smallest growth, a block of 1 µs reaches 100 days before.
const MAX_BLOCKS: u64 = 64;
