//! Local grants to one key that the store has not been charged for.
//!
//! Three states of the key's share, each the one before plus later grants:
//!
//! ```text
//!   base ──── grants ────▶ frozen ──── grants ────▶ top
//!    │        charged by a call whose   │   granted since; decisions are
//!    │        outcome is not known yet  │   made on `top`
//!    └ the store's last report
//! ```
//!
//! What is owed at a moment is the difference of two of them at that moment. All of them drain at the share's own rate,
//! so a debt shrinks as the grants would have lapsed in the store, and is dropped once nothing of it is left.
//!
//! A charge carries an operation id. Until its outcome is known the same id is sent again, for `frozen − base` as it is
//! by then; grants made meanwhile wait for the next id.

use std::time::{Duration, Instant};

use ratekeeper_core::{
    LeaseId, Policy, Timestamp,
    algorithm::{Algorithm, AnyAlgorithm, Lease, State},
    store_api::KeyState,
};

/// Uncharged grants of one key.
#[derive(Clone, Debug)]
pub(super) struct Debt {
    pub(super) base: KeyState,
    pub(super) frozen: Option<Frozen>,
    pub(super) top: KeyState,
    /// Since the last charge was frozen.
    pub(super) since: Pending,
    pub(super) backoff: ChargeBackoff,
}

/// The pause after a failed attempt to charge a key.
///
/// Calls about one key may send its charge side by side and fail together: failures during a pause do not lengthen it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChargeBackoff {
    failures: u32,
    until: Option<Instant>,
}

impl ChargeBackoff {
    pub(super) fn is_waiting(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    pub(super) fn failed(&mut self, now: Instant) {
        if !self.is_waiting(now) {
            let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(DOUBLINGS));
            (self.failures, self.until) = (self.failures.saturating_add(1), Some(now + pause));
        }
    }
}

/// Half a usual deadline, doubled up to 400 ms.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const DOUBLINGS: u32 = 4;

/// A charge that was sent, and may have been carried out.
#[derive(Clone, Debug)]
pub(super) struct Frozen {
    pub(super) sequence: u64,
    pub(super) state: KeyState,
    pub(super) granted: Pending,
    /// Calls that carry it and have not ended.
    under_way: u32,
    /// Whether one of them has ended without an answer.
    is_doubtful: bool,
}

/// What happened since a state was taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    /// Takes granted.
    pub(super) grants: u64,
    /// Whether anything has changed, grants or leases.
    pub(super) is_changed: bool,
    /// The latest moment that one of them goes.
    pub(super) due: Timestamp,
    /// Leases ended that the store knows of, or may know of.
    pub(super) released: Vec<LeaseId>,
}

/// What one rule is owed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Owed {
    /// Permits used and not charged, rounded up.
    pub(crate) permits: u64,
    /// Leases to be known to the store until they end.
    pub(crate) leases: Vec<Lease>,
}

/// Grants to be charged: one entry of `owed` per rule.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Bill {
    pub(crate) owed: Vec<Owed>,
    /// The latest moment that one of the grants goes.
    pub(crate) due: Timestamp,
    /// Leases that have ended.
    pub(crate) released: Vec<LeaseId>,
}

impl Owed {
    fn is_nothing(&self) -> bool {
        self.permits == 0 && self.leases.is_empty()
    }
}

impl Debt {
    pub(super) fn new(base: KeyState) -> Self {
        Self { top: base.clone(), base, frozen: None, since: Pending::default(), backoff: ChargeBackoff::default() }
    }

    /// Freezes what is owed under `sequence`, unless an earlier charge is still open; says under which id it goes.
    pub(super) fn freeze(&mut self, sequence: u64) -> u64 {
        let Self { frozen, top, since, .. } = self;
        let frozen = frozen.get_or_insert_with(|| {
            let (state, granted) = (top.clone(), std::mem::take(since));
            Frozen { sequence, state, granted, under_way: 0, is_doubtful: false }
        });
        frozen.under_way += 1;
        frozen.sequence
    }

    /// A call that carried the frozen charge has ended without carrying it out, surely or perhaps. If no call can have,
    /// nothing is frozen any more. Says whether that is so.
    pub(super) fn thaw(&mut self, sequence: u64, surely: bool) -> bool {
        let Some(frozen) = self.frozen.as_mut().filter(|frozen| frozen.sequence == sequence) else { return false };
        frozen.under_way = frozen.under_way.saturating_sub(1);
        frozen.is_doubtful |= !surely;
        if frozen.under_way > 0 || frozen.is_doubtful {
            return false;
        }
        if let Some(Frozen { granted: mut earlier, .. }) = self.frozen.take() {
            earlier.grants += self.since.grants;
            earlier.is_changed |= self.since.is_changed;
            earlier.due = earlier.due.max(self.since.due);
            earlier.released.append(&mut self.since.released);
            self.since = earlier;
        }
        true
    }

    /// What the frozen charge comes to at `now`, per rule of the share.
    pub(super) fn frozen_owed(&self, share: &Policy, now: Timestamp) -> Option<Vec<Owed>> {
        let frozen = self.frozen.as_ref()?;
        Some(difference(share, &self.base, &frozen.state, now))
    }

    /// Whether nothing is left to charge at `now`, of all that was granted.
    pub(super) fn is_void(&self, share: &Policy, now: Timestamp) -> bool {
        let released = self.frozen.iter().any(|frozen| !frozen.granted.released.is_empty());
        !released
            && self.since.released.is_empty()
            && difference(share, &self.base, &self.top, now).iter().all(Owed::is_nothing)
    }

    /// The charge was carried out. Says whether nothing else is owed.
    pub(super) fn confirm(&mut self, sequence: u64) -> bool {
        match self.frozen.take() {
            Some(frozen) if frozen.sequence == sequence => {
                (self.base, self.backoff) = (frozen.state, ChargeBackoff::default());
            }
            other => self.frozen = other,
        }
        self.frozen.is_none() && !self.since.is_changed
    }

    /// Moves every state along with a clock that has stepped back.
    pub(super) fn follow(&mut self, share: &Policy, now: Timestamp) {
        let frozen = self.frozen.as_mut().map(|frozen| &mut frozen.state);
        for subject in [&mut self.base, &mut self.top].into_iter().chain(frozen) {
            for (rule, state) in share.rules().iter().zip(&mut subject.states) {
                rule.algorithm().follow(state, now);
            }
        }
    }

    /// Every state in turn, to be carried over to other rules.
    pub(super) fn subjects(&mut self) -> impl Iterator<Item = &mut KeyState> {
        let frozen = self.frozen.as_mut().map(|frozen| &mut frozen.state);
        [&mut self.base, &mut self.top].into_iter().chain(frozen)
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        let of = |subject: &KeyState| {
            let states = subject.states.iter();
            size_of::<KeyState>() + states.map(|state| size_of::<State>() + state.heap_bytes()).sum::<usize>()
        };
        let frozen = self.frozen.as_ref().map_or(0, |frozen| of(&frozen.state));
        size_of::<Self>() + of(&self.base) + of(&self.top) + frozen + 8 * self.since.released.len()
    }
}

/// What `later` holds more than `earlier` at `now`, per rule.
fn difference(share: &Policy, earlier: &KeyState, later: &KeyState, now: Timestamp) -> Vec<Owed> {
    let states = earlier.states.iter().zip(&later.states);
    let rules = share.rules().iter().zip(states);
    rules.map(|(rule, (earlier, later))| owed(rule.algorithm(), earlier, later, now)).collect()
}

fn owed(limiting: &AnyAlgorithm, earlier: &State, later: &State, now: Timestamp) -> Owed {
    if let AnyAlgorithm::Leases(_) = limiting {
        return Owed { permits: 0, leases: new_leases(earlier, later, now) };
    }
    let (before, after) = (used(limiting, earlier, now), used(limiting, later, now));
    let unit = if let AnyAlgorithm::Bucket(it) = limiting { it.unit() } else { 1 };
    Owed { permits: after.saturating_sub(before).div_ceil(unit), leases: Vec::new() }
}

/// Units or permits used at `now`.
fn used(limiting: &AnyAlgorithm, state: &State, now: Timestamp) -> u64 {
    match (limiting, state) {
        (AnyAlgorithm::Bucket(it), State::Meter(meter)) => it.used(meter, now),
        (AnyAlgorithm::Stepwise(it), State::Meter(meter)) => it.used(meter, now).0,
        (AnyAlgorithm::Window(it), State::Meter(meter)) => it.used(meter, now).0,
        (AnyAlgorithm::Log(it), State::Log(log)) => it.used(log, now),
        (AnyAlgorithm::Counter(it), State::Counter(counter)) => it.used(counter, now),
        _ => 0,
    }
}

/// Leases that `earlier` does not hold, or not for as long.
fn new_leases(earlier: &State, later: &State, now: Timestamp) -> Vec<Lease> {
    let is_known = |lease: &Lease| held(earlier).iter().any(|old| old.id == lease.id && old.until >= lease.until);
    held(later).iter().filter(|lease| lease.until > now && !is_known(lease)).copied().collect()
}

fn held(state: &State) -> &[Lease] {
    if let State::Leases(leases) = state { leases.leases() } else { &[] }
}
