//! Migration of stored state when a quota changes.
//!
//! By default what is used stays used: a raised limit helps at once, a lowered one takes effect at once. Alternatives are
//! to keep the share of the limit, to discard the state, or to keep the reset time; see [`OnQuotaChange`]. Rules are
//! matched by name. A new rule starts with a full quota; a removed one is dropped. If the algorithm changed, what is used
//! is charged to the new one as of now.

use crate::{
    algorithm::{Algorithm, AnyAlgorithm, Charge, LeaseId, Log, Scale, State},
    policy::{KeyState, Policy},
    time::Timestamp,
};

/// What happens to the stored state of keys when a quota changes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnQuotaChange {
    /// What is used stays used.
    #[default]
    Keep,
    /// What is used keeps its share of the limit.
    Scale,
    /// All keys start with a full quota.
    Fresh,
    /// A bucket keeps its full-replenishment time (the TAT of GCRA), whatever part of the new quota that is. Any other
    /// algorithm keeps what is used.
    KeepResetTime,
}

/// Migrates the state of a key to a policy that replaces another.
pub fn migrate_state(
    old: &Policy,
    new: &Policy,
    mut key_state: KeyState,
    how: OnQuotaChange,
    now: Timestamp,
) -> KeyState {
    old.request_key(&mut key_state, 0).follow(now);
    let states = new.rules().iter().map(|rule| match old.position(rule.name()) {
        Some(index) => {
            migrate_rule(old.rules()[index].algorithm(), rule.algorithm(), &key_state.states[index], how, now)
        }
        None => State::default(),
    });
    KeyState { states: states.collect(), ..key_state }
}

fn migrate_rule(old: &AnyAlgorithm, new: &AnyAlgorithm, state: &State, how: OnQuotaChange, now: Timestamp) -> State {
    if old == new {
        return state.clone();
    }
    let scale = match how {
        OnQuotaChange::Fresh => return State::default(),
        OnQuotaChange::Keep | OnQuotaChange::KeepResetTime => Scale::Same,
        OnQuotaChange::Scale => Scale::Ratio { old: old.limit(), new: new.limit() },
    };
    let read = || state.read();
    match (old, new) {
        (AnyAlgorithm::Bucket(old), AnyAlgorithm::Bucket(new)) if how == OnQuotaChange::KeepResetTime => {
            State::Meter(new.adopt_moment(old, read().meter(), now))
        }
        (AnyAlgorithm::Bucket(old), AnyAlgorithm::Bucket(new)) => {
            State::Meter(new.adopt(old, read().meter(), scale, now))
        }
        (AnyAlgorithm::Stepwise(old), AnyAlgorithm::Stepwise(new)) => {
            State::Meter(new.adopt(old, read().meter(), scale, now))
        }
        (AnyAlgorithm::Window(old), AnyAlgorithm::Window(new)) => {
            State::Meter(new.adopt(old, read().meter(), scale, now))
        }
        (AnyAlgorithm::Log(old), AnyAlgorithm::Log(_)) => {
            State::Log(Box::new(Log::adopt(old, read().log(), scale, now)))
        }
        (AnyAlgorithm::Counter(old), AnyAlgorithm::Counter(new)) => {
            State::Counter(Box::new(new.adopt(old, read().counter(), scale, now)))
        }
        (AnyAlgorithm::Leases(old), AnyAlgorithm::Leases(new)) => {
            State::Leases(Box::new(new.adopt(old, read().leases(), now)))
        }
        // Denials and permits are not convertible.
        (AnyAlgorithm::AutoBlock(_), AnyAlgorithm::AutoBlock(new)) => State::Meter(new.adopt(read().meter())),
        (AnyAlgorithm::AutoBlock(_), _) | (_, AnyAlgorithm::AutoBlock(_)) => State::default(),
        // Leases held and permits used are not convertible.
        (AnyAlgorithm::Leases(_), _) | (_, AnyAlgorithm::Leases(_)) => State::default(),
        _ => {
            let mut migrated = State::default();
            let cost = scale.apply(used_permits(old, state, now));
            if cost > 0 {
                new.penalize(&mut migrated, Charge { cost, at: now, lease: LeaseId(0) }, now);
            }
            migrated
        }
    }
}

/// Permits used, rounded up.
fn used_permits(algorithm: &AnyAlgorithm, state: &State, now: Timestamp) -> u64 {
    let read = state.read();
    match algorithm {
        AnyAlgorithm::Bucket(it) => it.used(read.meter(), now).div_ceil(it.unit()),
        AnyAlgorithm::Stepwise(it) => it.used(read.meter(), now).0,
        AnyAlgorithm::Window(it) => it.used(read.meter(), now).0,
        AnyAlgorithm::Log(it) => it.used(read.log(), now),
        AnyAlgorithm::Counter(it) => it.used(read.counter(), now),
        AnyAlgorithm::Leases(it) => it.used(read.leases(), now),
        AnyAlgorithm::AutoBlock(_) => 0,
    }
}
