//! Stored values: encoding and decoding of a key's state, the same bytes as the scripts read and write.
//!
//! ```text
//!   tag  written  (at used)…  [promised since until]  (length  last …)…
//!    6      7       7   7         7       7     7        4       7
//! ```
//!
//! All numbers are unsigned and big-endian. The tag is one byte for "ratekeeper, this layout" and five of the policy's
//! [fingerprint](crate::fingerprint); the layout with a reservation or a block has the next byte. Meters come first, in
//! the policy's order, then reservation and block, then each list preceded by its length.
//!
//! The layout with allotments has the byte after that. Between block and lists it has
//!
//! ```text
//!   held  first end  last end  number  (id  seq  used  held  end)…
//!     5       7          7        1      5   4     6     5    7
//! ```
//!
//! Releases before allotments read such a value as not theirs.

use std::{iter, sync::LazyLock};

use ratekeeper_core::{
    LeaseId, Policy, Timestamp,
    algorithm::{AnyAlgorithm, CounterState, Lease, LeaseState, Log, LogState, Meter, State},
    store_api::{Allotment, AllottedKey, Block, KeyState, MAX_ALLOTMENTS},
};

use crate::bytes::{Reader, put};

/// The first byte of our values; the layout with a reservation or a block has the next.
const LAYOUT: u64 = 0x54;
const LAYOUT_SHIFT: u32 = 40;
const FINGERPRINT_MASK: u64 = (1 << LAYOUT_SHIFT) - 1;

/// The first six bytes of a value: its layout and the fingerprint of its rules.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Tag(u64);

impl Tag {
    /// The tag for the lower five bytes of this fingerprint.
    pub(crate) fn new(fingerprint: u64) -> Self {
        Self((LAYOUT << LAYOUT_SHIFT) | (fingerprint & FINGERPRINT_MASK))
    }

    /// The tag of a value, if its layout is known.
    pub(crate) fn found_in(value: &[u8]) -> Option<Self> {
        let tag = Reader(value).number(6)?;
        matches!(tag >> LAYOUT_SHIFT, LAYOUT | LAYOUT_WITH_EXTRAS | LAYOUT_WITH_ALLOTMENTS).then(|| Self::new(tag))
    }

    /// The fingerprint of the rules.
    pub(crate) fn fingerprint(self) -> u64 {
        self.0 & FINGERPRINT_MASK
    }

    /// The tag as the number that scripts compare.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

const LAYOUT_WITH_EXTRAS: u64 = LAYOUT + 1;
const LAYOUT_WITH_ALLOTMENTS: u64 = LAYOUT + 2;

/// The value to store at `now`, and its TTL in milliseconds; `None` for a key in its initial state.
pub(crate) fn encode(policy: &Policy, tag: Tag, subject: &KeyState, now: Timestamp) -> Option<(Vec<u8>, u64)> {
    let lives = policy.reset_at(subject, now).since(now).as_micros().div_ceil(1_000);
    (lives > 0).then(|| (encode_parts(policy, tag, subject, &[], now), lives))
}

/// The same for a key that may have allotments.
pub(crate) fn encode_allotted(policy: &Policy, tag: Tag, key: &AllottedKey, now: Timestamp) -> Option<(Vec<u8>, u64)> {
    if key.allotments.is_empty() {
        return encode(policy, tag, &key.state, now);
    }
    let lives = policy.reset_with_held(key, now).since(now).as_micros().div_ceil(1_000);
    (lives > 0).then(|| (encode_parts(policy, tag, &key.state, &key.allotments, now), lives))
}

fn encode_parts(policy: &Policy, tag: Tag, subject: &KeyState, allotments: &[Allotment], now: Timestamp) -> Vec<u8> {
    let extras = subject.promised > now || subject.block.until > now;
    let layout = match (allotments.is_empty(), extras) {
        (false, _) => LAYOUT_WITH_ALLOTMENTS,
        (true, true) => LAYOUT_WITH_EXTRAS,
        (true, false) => LAYOUT,
    };
    let mut out = Vec::with_capacity(64);
    put(&mut out, 6, tag.0 + ((layout - LAYOUT) << LAYOUT_SHIFT));
    put(&mut out, 7, now.as_micros());
    for (rule, state) in policy.rules().iter().zip(&subject.states) {
        if is_meter(rule.algorithm()) {
            let Meter { at, used } = if let State::Meter(meter) = state { *meter } else { Meter::default() };
            put(&mut out, 7, at.as_micros());
            put(&mut out, 7, used);
        }
    }
    if layout == LAYOUT_WITH_EXTRAS {
        for moment in [subject.promised, subject.block.since, subject.block.until] {
            put(&mut out, 7, moment.as_micros());
        }
    } else if layout == LAYOUT_WITH_ALLOTMENTS {
        let promised = if subject.promised > now { subject.promised } else { Timestamp::EPOCH };
        let block = if subject.block.until > now { subject.block } else { Block::default() };
        for moment in [promised, block.since, block.until] {
            put(&mut out, 7, moment.as_micros());
        }
        put_allotments(&mut out, allotments);
    }
    for (rule, state) in policy.rules().iter().zip(&subject.states) {
        match rule.algorithm() {
            AnyAlgorithm::Log(rule) => {
                let log = if let State::Log(log) = state { log } else { &INITIAL.log };
                let room = if policy.rules().len() == 1 { log.pairs().len() / ROOM_SHARE } else { 0 };
                put_log(&mut out, rule, log, room, now);
            }
            AnyAlgorithm::Counter(_) => {
                put_counter(&mut out, if let State::Counter(counter) = state { counter } else { &INITIAL.counter });
            }
            AnyAlgorithm::Leases(_) => {
                put_leases(&mut out, if let State::Leases(leases) = state { leases } else { &INITIAL.leases });
            }
            _ => {}
        }
    }
    out
}

fn put_allotments(out: &mut Vec<u8>, allotments: &[Allotment]) {
    let ends = || allotments.iter().map(|allotment| allotment.end.as_micros());
    put(out, 5, allotments.iter().map(|allotment| allotment.held).sum());
    put(out, 7, ends().min().unwrap_or_default());
    put(out, 7, ends().max().unwrap_or_default());
    put(out, 1, allotments.len() as u64);
    for Allotment { id, seq, used, held, end } in allotments {
        put(out, 5, *id);
        put(out, 4, *seq);
        put(out, 6, *used);
        put(out, 5, *held);
        put(out, 7, end.as_micros());
    }
}

fn read_allotments(reader: &mut Reader<'_>) -> Option<Vec<Allotment>> {
    let (held, _first, _last) = (reader.number(5)?, reader.timestamp()?, reader.timestamp()?);
    let number = usize::try_from(reader.number(1)?).ok().filter(|number| *number <= MAX_ALLOTMENTS)?;
    let allotment = |reader: &mut Reader<'_>| {
        let (id, seq, used) = (reader.number(5)?, reader.number(4)?, reader.number(6)?);
        Some(Allotment { id, seq, used, held: reader.number(5)?, end: reader.timestamp()? })
    };
    let allotments: Vec<Allotment> = (0..number).map(|_| allotment(reader)).collect::<Option<_>>()?;
    let sum: u64 = allotments.iter().map(|allotment| allotment.held).sum();
    (sum == held && number > 0).then_some(allotments)
}

/// The time of writing and the state of a value; `None` if it was not written under this policy, has allotments or is
/// damaged.
pub(crate) fn decode(policy: &Policy, tag: Tag, value: &[u8]) -> Option<(Timestamp, KeyState)> {
    let (written, key) = decode_allotted(policy, tag, value)?;
    key.allotments.is_empty().then_some((written, key.state))
}

/// The same for a value that may have allotments.
pub(crate) fn decode_allotted(policy: &Policy, tag: Tag, value: &[u8]) -> Option<(Timestamp, AllottedKey)> {
    let mut reader = Reader(value);
    let layout = reader.number(6)?.checked_sub(tag.0)?;
    let (extras, allotted) = match layout {
        0 => (false, false),
        EXTRAS => (true, false),
        ALLOTMENTS => (true, true),
        _ => return None,
    };
    let written = reader.timestamp()?;
    let mut subject = policy.fresh();
    for (rule, state) in policy.rules().iter().zip(&mut subject.states) {
        if is_meter(rule.algorithm()) {
            *state = State::Meter(Meter { at: reader.timestamp()?, used: reader.number(7)? });
        }
    }
    if extras {
        subject.promised = reader.timestamp()?;
        subject.block = Block { since: reader.timestamp()?, until: reader.timestamp()? };
    }
    let allotments = if allotted { read_allotments(&mut reader)? } else { Vec::new() };
    for (rule, state) in policy.rules().iter().zip(&mut subject.states) {
        if !is_meter(rule.algorithm()) {
            let length = usize::try_from(reader.number(4)?).ok()?;
            let list = reader.bytes(length)?;
            *state = read_list(rule.algorithm(), Reader(list))?;
        }
    }
    reader.0.is_empty().then_some((written, AllottedKey { state: subject, allotments }))
}

fn is_meter(limiting: &AnyAlgorithm) -> bool {
    !matches!(limiting, AnyAlgorithm::Log(_) | AnyAlgorithm::Counter(_) | AnyAlgorithm::Leases(_))
}

fn put_log(out: &mut Vec<u8>, rule: &Log, log: &LogState, room: usize, now: Timestamp) {
    let entries = log.pairs().len();
    let (gone, left) = rule.left(log, now);
    let (line, total) = log.pairs().last().unwrap_or((Timestamp::EPOCH, log.dropped()));
    put(out, 4, LOG_HEAD + LOG_ENTRY * (entries + room) as u64);
    put(out, 7, log.last().as_micros());
    put(out, 5, log.dropped());
    put(out, 4, entries as u64);
    put(out, 4, gone as u64);
    put(out, 5, left);
    let (first, upto) = log.pairs().nth(gone).unwrap_or_default();
    put(out, 7, first.as_micros());
    put(out, 5, upto);
    put(out, 7, line.as_micros());
    put(out, 5, total);
    for (at, total) in log.pairs() {
        put(out, 7, at.as_micros());
        put(out, 5, total);
    }
    out.resize(out.len() + room * 12, 0);
}

fn put_counter(out: &mut Vec<u8>, counter: &CounterState) {
    put(out, 4, 7 + 14 * counter.pairs().len() as u64);
    put(out, 7, counter.last().as_micros());
    for (index, permits) in counter.pairs() {
        put(out, 7, index);
        put(out, 7, permits);
    }
}

fn put_leases(out: &mut Vec<u8>, leases: &LeaseState) {
    put(out, 4, 7 + 17 * leases.leases().len() as u64);
    put(out, 7, leases.last().as_micros());
    for lease in leases.leases() {
        put(out, 7, lease.id.0);
        put(out, 3, lease.permits);
        put(out, 7, lease.until.as_micros());
    }
}

fn read_list(limiting: &AnyAlgorithm, mut list: Reader<'_>) -> Option<State> {
    let last = list.timestamp()?;
    match limiting {
        AnyAlgorithm::Log(_) => {
            let (dropped, entries) = (list.number(5)?, list.number(4)?);
            // The rest of the head is for scripts, which do not read all entries.
            list.bytes(4 + 5 + 7 + 5 + 7 + 5)?;
            let pairs = (0..entries).map(|_| Some((list.timestamp()?, list.number(5)?))).collect::<Option<Vec<_>>>()?;
            let totals = pairs.iter().map(|(_, total)| *total);
            let ascends = pairs.is_sorted() && iter::once(dropped).chain(totals).is_sorted();
            ascends.then(|| State::Log(Box::new(LogState::restore(last, dropped, pairs))))
        }
        AnyAlgorithm::Counter(_) => {
            let pairs = list.all(|list| Some((list.number(7)?, list.number(7)?)))?;
            Some(State::Counter(Box::new(CounterState::restore(last, pairs))))
        }
        _ => {
            let lease = |list: &mut Reader<'_>| {
                Some(Lease { id: LeaseId(list.number(7)?), permits: list.number(3)?, until: list.timestamp()? })
            };
            Some(State::Leases(Box::new(LeaseState::restore(last, list.all(lease)?))))
        }
    }
}

/// What is added to the tag of a value with a reservation or a block, and of one with allotments.
const EXTRAS: u64 = 1 << LAYOUT_SHIFT;
const ALLOTMENTS: u64 = 2 << LAYOUT_SHIFT;
/// A log's head and one entry, in bytes.
const LOG_HEAD: u64 = 49;
const LOG_ENTRY: u64 = 12;
/// The value of a single log is edited in place, and has free room for an eighth more entries.
const ROOM_SHARE: usize = 8;

#[derive(Default)]
struct InitialStates {
    log: LogState,
    counter: CounterState,
    leases: LeaseState,
}

static INITIAL: LazyLock<InitialStates> = LazyLock::new(InitialStates::default);
