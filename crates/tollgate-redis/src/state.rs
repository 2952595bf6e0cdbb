//! A key's state as bytes: what the scripts read and write, for when this side has to.
//!
//! ```text
//!   tag  written  (at used)…  [promised since until]  (length  last …)…
//!    6      7       7   7         7       7     7        4       7
//! ```
//!
//! All numbers are unsigned and big-endian. The tag is one byte for "tollgate, this layout" and five of the policy's
//! [fingerprint](crate::definition); the layout with a promise or a block has the next byte. Meters come first, in the
//! policy's order, then what is promised or blocked, then each list with its length before it.

use std::{iter, sync::LazyLock};

use tollgate_core::{
    Block, LeaseId, Micros, Policy, Subject,
    algorithm::{CounterState, Lease, LeaseState, Limiting, Log, LogState, Meter, State},
};

use crate::bytes::{Reader, put};

/// The first byte of a value of ours; the one with a promise or a block has the next.
const LAYOUT: u64 = 0x54;
const LAYOUT_SHIFT: u32 = 40;
const FINGERPRINT_MASK: u64 = (1 << LAYOUT_SHIFT) - 1;

/// What a value begins with: the layout, and the rules it was counted under.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Tag(u64);

impl Tag {
    /// The tag of values counted under the rules with this fingerprint, of which the lower five bytes are used.
    pub(crate) fn new(fingerprint: u64) -> Self {
        Self((LAYOUT << LAYOUT_SHIFT) | (fingerprint & FINGERPRINT_MASK))
    }

    /// The tag of a value, if it is one of ours in a layout we know.
    pub(crate) fn found_in(value: &[u8]) -> Option<Self> {
        let tag = Reader(value).number(6)?;
        matches!(tag >> LAYOUT_SHIFT, LAYOUT | LAYOUT_WITH_EXTRAS).then(|| Self::new(tag))
    }

    /// The rules, without the layout.
    pub(crate) fn fingerprint(self) -> u64 {
        self.0 & FINGERPRINT_MASK
    }

    /// The number scripts compare with.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

const LAYOUT_WITH_EXTRAS: u64 = LAYOUT + 1;

/// The value to store at `now`, and for how many milliseconds; none for a key that is as good as new.
pub(crate) fn encode(policy: &Policy, tag: Tag, subject: &Subject, now: Micros) -> Option<(Vec<u8>, u64)> {
    let lives = (policy.rests_at(subject, now) - now).0.div_ceil(1_000);
    if lives == 0 {
        return None;
    }
    let extras = subject.promised > now || subject.block.until > now;
    let mut out = Vec::with_capacity(64);
    put(&mut out, 6, if extras { tag.0 + (1 << LAYOUT_SHIFT) } else { tag.0 });
    put(&mut out, 7, now.0);
    for (rule, state) in policy.rules().iter().zip(&subject.states) {
        if is_meter(rule.limiting()) {
            let Meter { at, used } = if let State::Meter(meter) = state { *meter } else { Meter::default() };
            put(&mut out, 7, at.0);
            put(&mut out, 7, used);
        }
    }
    if extras {
        for moment in [subject.promised, subject.block.since, subject.block.until] {
            put(&mut out, 7, moment.0);
        }
    }
    for (rule, state) in policy.rules().iter().zip(&subject.states) {
        match rule.limiting() {
            Limiting::Log(rule) => {
                let log = if let State::Log(log) = state { log } else { &UNSEEN.log };
                let room = if policy.rules().len() == 1 { log.pairs().len() / ROOM_SHARE } else { 0 };
                put_log(&mut out, rule, log, room, now);
            }
            Limiting::Counter(_) => {
                put_counter(&mut out, if let State::Counter(counter) = state { counter } else { &UNSEEN.counter });
            }
            Limiting::Leases(_) => {
                put_leases(&mut out, if let State::Leases(leases) = state { leases } else { &UNSEEN.leases });
            }
            Limiting::Bucket(_) | Limiting::Stepwise(_) | Limiting::Window(_) => {}
        }
    }
    Some((out, lives))
}

/// Reads a value that was written under this policy; none if it was not, or is damaged. With it, when it was written.
pub(crate) fn decode(policy: &Policy, tag: Tag, value: &[u8]) -> Option<(Micros, Subject)> {
    let mut reader = Reader(value);
    let found = reader.number(6)?;
    let extras = found == tag.0 + (1 << LAYOUT_SHIFT);
    if found != tag.0 && !extras {
        return None;
    }
    let written = reader.micros()?;
    let mut subject = policy.fresh();
    for (rule, state) in policy.rules().iter().zip(&mut subject.states) {
        if is_meter(rule.limiting()) {
            *state = State::Meter(Meter { at: reader.micros()?, used: reader.number(7)? });
        }
    }
    if extras {
        subject.promised = reader.micros()?;
        subject.block = Block { since: reader.micros()?, until: reader.micros()? };
    }
    for (rule, state) in policy.rules().iter().zip(&mut subject.states) {
        if !is_meter(rule.limiting()) {
            let length = usize::try_from(reader.number(4)?).ok()?;
            let list = reader.bytes(length)?;
            *state = read_list(rule.limiting(), Reader(list))?;
        }
    }
    reader.0.is_empty().then_some((written, subject))
}

fn is_meter(limiting: &Limiting) -> bool {
    matches!(limiting, Limiting::Bucket(_) | Limiting::Stepwise(_) | Limiting::Window(_))
}

fn put_log(out: &mut Vec<u8>, rule: &Log, log: &LogState, room: usize, now: Micros) {
    let entries = log.pairs().len();
    let (gone, left) = rule.left(log, now);
    let (line, total) = log.pairs().last().unwrap_or((Micros::ZERO, log.dropped()));
    put(out, 4, LOG_HEAD + LOG_ENTRY * (entries + room) as u64);
    put(out, 7, log.last().0);
    put(out, 5, log.dropped());
    put(out, 4, entries as u64);
    put(out, 4, gone as u64);
    put(out, 5, left);
    let (first, upto) = log.pairs().nth(gone).unwrap_or_default();
    put(out, 7, first.0);
    put(out, 5, upto);
    put(out, 7, line.0);
    put(out, 5, total);
    for (at, total) in log.pairs() {
        put(out, 7, at.0);
        put(out, 5, total);
    }
    out.resize(out.len() + room * 12, 0);
}

fn put_counter(out: &mut Vec<u8>, counter: &CounterState) {
    put(out, 4, 7 + 14 * counter.pairs().len() as u64);
    put(out, 7, counter.last().0);
    for (index, permits) in counter.pairs() {
        put(out, 7, index);
        put(out, 7, permits);
    }
}

fn put_leases(out: &mut Vec<u8>, leases: &LeaseState) {
    put(out, 4, 7 + 17 * leases.leases().len() as u64);
    put(out, 7, leases.last().0);
    for lease in leases.leases() {
        put(out, 7, lease.id.0);
        put(out, 3, lease.permits);
        put(out, 7, lease.until.0);
    }
}

fn read_list(limiting: &Limiting, mut list: Reader<'_>) -> Option<State> {
    let last = list.micros()?;
    match limiting {
        Limiting::Log(_) => {
            let (dropped, entries) = (list.number(5)?, list.number(4)?);
            // What the head says of the entries is for scripts, which do not read them all.
            list.bytes(4 + 5 + 7 + 5 + 7 + 5)?;
            let pairs = (0..entries).map(|_| Some((list.micros()?, list.number(5)?))).collect::<Option<Vec<_>>>()?;
            let totals = pairs.iter().map(|(_, total)| *total);
            let ascends = pairs.is_sorted() && iter::once(dropped).chain(totals).is_sorted();
            ascends.then(|| State::Log(Box::new(LogState::restore(last, dropped, pairs))))
        }
        Limiting::Counter(_) => {
            let pairs = list.all(|list| Some((list.number(7)?, list.number(7)?)))?;
            Some(State::Counter(Box::new(CounterState::restore(last, pairs))))
        }
        _ => {
            let lease = |list: &mut Reader<'_>| {
                Some(Lease { id: LeaseId(list.number(7)?), permits: list.number(3)?, until: list.micros()? })
            };
            Some(State::Leases(Box::new(LeaseState::restore(last, list.all(lease)?))))
        }
    }
}

/// A log's head and one entry, in bytes.
const LOG_HEAD: u64 = 49;
const LOG_ENTRY: u64 = 12;
/// A log that is alone under its key is edited in place, and has room for an eighth more entries.
const ROOM_SHARE: usize = 8;

#[derive(Default)]
struct Unseen {
    log: LogState,
    counter: CounterState,
    leases: LeaseState,
}

static UNSEEN: LazyLock<Unseen> = LazyLock::new(Unseen::default);
