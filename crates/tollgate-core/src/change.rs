//! A quota changes while keys are counted under the old one.
//!
//! Three answers to what happens to them: what is used stays used (the default: a raised limit helps at once, a
//! lowered one bites at once), it keeps its share of the limit, or everybody starts afresh. (A fourth is for numbers
//! that come with each request: the moment at which the key is as good as new stays.) Rules are matched by name; a rule that is new starts afresh, one that is gone is forgotten. Where the algorithm itself changed, what is
//! used is carried over as if taken now.

use crate::{
    algorithm::{Algorithm, Charge, LeaseId, Limiting, Log, Scale, State},
    policy::{Policy, Subject},
    time::Micros,
};

/// What becomes of existing state when a quota changes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Carry {
    /// Used stays used.
    #[default]
    Keep,
    /// Used keeps its share of the limit.
    Scale,
    /// Everybody starts afresh.
    Fresh,
    /// A bucket is as good as new at the same moment as before, however much of the new quota that is: all that a GCRA
    /// remembers of a key is this moment. Anything else than a bucket keeps what is used.
    Moment,
}

/// The state of a key under a policy that replaces another.
pub fn carry_over(old: &Policy, new: &Policy, mut subject: Subject, how: Carry, now: Micros) -> Subject {
    old.party(&mut subject).follow(now);
    let states = new.rules().iter().map(|rule| match old.position(rule.name()) {
        Some(index) => carry_rule(old.rules()[index].limiting(), rule.limiting(), &subject.states[index], how, now),
        None => State::default(),
    });
    Subject { states: states.collect(), ..subject }
}

fn carry_rule(old: &Limiting, new: &Limiting, state: &State, how: Carry, now: Micros) -> State {
    if old == new {
        return state.clone();
    }
    let scale = match how {
        Carry::Fresh => return State::default(),
        Carry::Keep | Carry::Moment => Scale::Same,
        Carry::Scale => Scale::Ratio { old: old.limit(), new: new.limit() },
    };
    let read = || state.read();
    match (old, new) {
        (Limiting::Bucket(old), Limiting::Bucket(new)) if how == Carry::Moment => {
            State::Meter(new.adopt_moment(old, read().meter(), now))
        }
        (Limiting::Bucket(old), Limiting::Bucket(new)) => State::Meter(new.adopt(old, read().meter(), scale, now)),
        (Limiting::Stepwise(old), Limiting::Stepwise(new)) => State::Meter(new.adopt(old, read().meter(), scale, now)),
        (Limiting::Window(old), Limiting::Window(new)) => State::Meter(new.adopt(old, read().meter(), scale, now)),
        (Limiting::Log(old), Limiting::Log(_)) => State::Log(Box::new(Log::adopt(old, read().log(), scale, now))),
        (Limiting::Counter(old), Limiting::Counter(new)) => {
            State::Counter(Box::new(new.adopt(old, read().counter(), scale, now)))
        }
        (Limiting::Leases(old), Limiting::Leases(new)) => State::Leases(Box::new(new.adopt(old, read().leases(), now))),
        // Holding something and having used something are not the same thing.
        (Limiting::Leases(_), _) | (_, Limiting::Leases(_)) => State::default(),
        _ => {
            let mut carried = State::default();
            let cost = scale.apply(used_permits(old, state, now));
            if cost > 0 {
                new.penalize(&mut carried, Charge { cost, at: now, lease: LeaseId(0) }, now);
            }
            carried
        }
    }
}

/// Permits used, rounded up.
fn used_permits(limiting: &Limiting, state: &State, now: Micros) -> u64 {
    let read = state.read();
    match limiting {
        Limiting::Bucket(it) => it.used(read.meter(), now).div_ceil(it.unit()),
        Limiting::Stepwise(it) => it.used(read.meter(), now).0,
        Limiting::Window(it) => it.used(read.meter(), now).0,
        Limiting::Log(it) => it.used(read.log(), now),
        Limiting::Counter(it) => it.used(read.counter(), now),
        Limiting::Leases(it) => it.used(read.leases(), now),
    }
}
