//! What a call brings: its numbers, packed as the script unpacks them.

use tollgate_core::{Micros, Policy, Release, Take, Verb, algorithm::Limiting, bounds::MAX_WAIT};

use crate::{
    bytes::put,
    ledger::{Bill, Charge},
    script::{Shape, names_holders, numbers, tells_two_waits},
    state::Tag,
};

/// A policy with the tag its values carry, and how many times the cost of a take a key under it is charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tagged<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) tag: Tag,
    pub(crate) times: u64,
}

impl Tagged<'_> {
    pub(crate) fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }
}

/// The numbers of a take. The first is left for the link to fill in: until when it may run.
pub(crate) fn take(shape: &Shape, subjects: &[Tagged<'_>], take: &Take) -> Vec<u8> {
    let horizon = subjects.iter().map(|subject| subject.policy.horizon()).fold(MAX_WAIT, Micros::min);
    let mut out = Doubles::new();
    let cost_of = |subject: &Tagged<'_>| take.times(subject.times).cost;
    out.put(subjects.iter().map(cost_of).max().unwrap_or_default());
    for subject in subjects {
        out.tag(*subject);
        if subjects.len() > 1 {
            out.put(cost_of(subject));
        }
        out.first_numbers(*subject);
    }
    if tells_two_waits(shape) {
        out.put(take.max_wait.0);
        out.put(if take.whole_wait { take.max_wait.min(horizon).0 } else { horizon.0 });
    } else {
        out.put(take.max_wait.min(horizon).0);
    }
    if names_holders(shape) {
        out.put(take.lease.0);
    }
    for subject in subjects {
        out.last_numbers(*subject);
    }
    out.0
}

/// The numbers of any other verb.
pub(crate) fn amend(shape: &Shape, subject: Tagged<'_>, verb: &Verb) -> Vec<u8> {
    let Amend { verb, cost, at, lease } = Amend::of(verb);
    let mut out = Doubles::new();
    out.put(verb);
    out.put(cost);
    out.put_if_known(at);
    if names_holders(shape) {
        out.put_if_known(lease);
    }
    out.tag(subject);
    out.first_numbers(subject);
    out.last_numbers(subject);
    out.0
}

/// The numbers of a charge, and its leases.
pub(crate) fn charge(subject: Tagged<'_>, charge: &Charge) -> Vec<u8> {
    let Bill { owed, due, released } = &charge.bill;
    let mut out = Doubles::new();
    out.put(charge.sequence);
    out.put(due.0);
    out.tag(subject);
    out.first_numbers(subject);
    out.last_numbers(subject);
    for owed in owed {
        out.put(owed.permits);
    }
    let mut out = out.0;
    let put_count = |out: &mut Vec<u8>, count: usize| put(out, 4, count as u64);
    let rules = subject.policy.rules().iter().zip(owed);
    for (_, owed) in rules.filter(|(rule, _)| matches!(rule.limiting(), Limiting::Leases(_))) {
        put_count(&mut out, owed.leases.len());
        for lease in &owed.leases {
            put(&mut out, 7, lease.id.0);
            put(&mut out, 3, lease.permits);
            put(&mut out, 7, lease.until.0);
        }
        put_count(&mut out, released.len());
        for id in released {
            put(&mut out, 7, id.0);
        }
    }
    out
}

/// A verb in the words of the script.
struct Amend {
    verb: u64,
    cost: u64,
    at: Option<u64>,
    lease: Option<u64>,
}

impl Amend {
    fn of(verb: &Verb) -> Self {
        let plain = |verb, cost| Self { verb, cost, at: None, lease: None };
        let give_back = |cost, at: Option<Micros>| Self { at: at.map(Micros::get), ..plain(GIVE_BACK, cost) };
        match *verb {
            Verb::Refund { cost, at } => give_back(cost, at),
            Verb::Undo { cost, at, lease } => Self { lease: lease.map(|lease| lease.0), ..give_back(cost, Some(at)) },
            Verb::Settle { reserved, actual, at } if actual <= reserved => give_back(reserved - actual, at),
            Verb::Settle { reserved, actual, .. } => plain(PENALIZE, actual - reserved),
            Verb::Penalize { cost } => plain(PENALIZE, cost),
            Verb::Block { span } => plain(BLOCK, span.min(MAX_WAIT).0),
            Verb::Release(Release::Lease(id)) => Self { lease: Some(id.0), ..plain(RELEASE, 0) },
            Verb::Release(Release::Oldest(permits)) => plain(RELEASE_OLDEST, permits),
            Verb::Heartbeat(id) => Self { lease: Some(id.0), ..plain(HEARTBEAT, 0) },
            Verb::Reset => plain(RESET, 0),
            // A take has a script of its own; anything else only looks.
            _ => plain(LOOK, 0),
        }
    }
}

const LOOK: u64 = 0;
const GIVE_BACK: u64 = 1;
const PENALIZE: u64 = 2;
const BLOCK: u64 = 3;
const RELEASE: u64 = 4;
const RELEASE_OLDEST: u64 = 5;
const HEARTBEAT: u64 = 6;
const RESET: u64 = 7;

/// Numbers as Lua has them.
struct Doubles(Vec<u8>);

impl Doubles {
    fn new() -> Self {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&f64::INFINITY.to_be_bytes());
        Self(out)
    }

    /// Numbers the core lets through are below 2^53; those of a caller may be larger, and then all that matters is that
    /// they are large.
    #[allow(clippy::cast_precision_loss, reason = "see above")]
    fn put(&mut self, number: u64) {
        self.0.extend_from_slice(&(number as f64).to_be_bytes());
    }

    fn put_if_known(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.put(number),
            None => self.0.extend_from_slice(&(-1.0_f64).to_be_bytes()),
        }
    }

    fn tag(&mut self, Tagged { tag, .. }: Tagged<'_>) {
        self.put(tag.number());
    }

    /// The numbers of the rules, but for the last of each.
    fn first_numbers(&mut self, Tagged { policy, .. }: Tagged<'_>) {
        for rule in policy.rules() {
            if let Some((_, numbers)) = numbers(rule).split_last() {
                numbers.iter().for_each(|number| self.0.extend_from_slice(&number.to_be_bytes()));
            }
        }
    }

    /// The last of each: how far back the clock may step, which a quick decision has no use for.
    fn last_numbers(&mut self, Tagged { policy, .. }: Tagged<'_>) {
        for rule in policy.rules() {
            if let Some(last) = numbers(rule).last() {
                self.0.extend_from_slice(&last.to_be_bytes());
            }
        }
    }
}
