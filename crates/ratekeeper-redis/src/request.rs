//! Arguments of script calls: numbers packed as the scripts unpack them.

use ratekeeper_core::{
    OnExpiry, Policy, Release, Span, Take, Terms, Timestamp, Verb,
    algorithm::AnyAlgorithm,
    bounds::{MAX_LEVEL, MAX_WAIT},
    store_api::AllotmentCall,
};

use crate::{
    bytes::put,
    ledger::{Bill, StoreCharge},
    policies::Version,
    script::{Piece, Shape, has_two_waits, numbers, passes_lease_id},
    state::Tag,
};

/// A policy with the tag of its stored values, and the cost of a request for a key under it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tagged<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) tag: Tag,
    pub(crate) cost: u64,
    /// The server's time, about: which windows of a time zone are sent.
    pub(crate) now: Timestamp,
}

impl Version {
    /// The policy and its tag, for a request of cost 1.
    pub(crate) fn tagged(&self) -> Tagged<'_> {
        Tagged { policy: &self.policy, tag: self.tag, cost: 1, now: Timestamp::EPOCH }
    }
}

impl Tagged<'_> {
    pub(crate) fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    pub(crate) fn at(mut self, now: Timestamp) -> Self {
        self.now = now;
        self
    }
}

/// The numbers of a take. The link overwrites the first with the deadline.
pub(crate) fn take(shape: &Shape, subjects: &[Tagged<'_>], take: &Take) -> Vec<u8> {
    let horizon = subjects.iter().map(|subject| subject.policy.horizon()).fold(MAX_WAIT, Span::min);
    let mut out = Doubles::new();
    out.put(subjects.iter().map(|subject| subject.cost).max().unwrap_or_default());
    for subject in subjects {
        out.tag(*subject);
        if subjects.len() > 1 {
            out.put(subject.cost);
        }
        out.first_numbers(*subject);
    }
    if has_two_waits(shape) {
        out.put(take.max_wait.as_micros());
        out.put(if take.whole_wait { take.max_wait.min(horizon).as_micros() } else { horizon.as_micros() });
    } else {
        out.put(take.max_wait.min(horizon).as_micros());
    }
    if passes_lease_id(shape) {
        out.put(take.lease.0);
    }
    for subject in subjects {
        out.last_numbers(*subject);
    }
    out.0
}

/// The numbers of a take with terms.
pub(crate) fn take_with_terms(shape: &Shape, subjects: &[Tagged<'_>], verb: &Take, terms: &Terms) -> Vec<u8> {
    let mut out = Doubles(take(shape, subjects, verb));
    let most = subjects.iter().map(|subject| subject.cost).max().unwrap_or_default();
    out.put_if_known(terms.at_least.map(|least| least.min(most)));
    out.put(terms.lifetime.as_micros());
    out.put(u64::from(terms.on_expiry == OnExpiry::Refund));
    put(&mut out.0, 7, verb.max_wait.as_micros());
    put(&mut out.0, 1, u64::from(verb.whole_wait));
    out.0
}

/// Takes of one key that follow each other and have equal numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Run {
    pub(crate) count: u64,
    pub(crate) cost: u64,
    pub(crate) max_wait: Span,
    pub(crate) whole_wait: bool,
}

impl Run {
    /// The run of one request. `None` for a peek or a take without a cost: it changes nothing, so it is in no run.
    pub(crate) fn of(cost: u64, verb: &Verb) -> Option<Self> {
        match *verb {
            Verb::Take(Take { max_wait, whole_wait, .. }) if cost > 0 => {
                Some(Self { count: 1, cost, max_wait, whole_wait })
            }
            _ => None,
        }
    }

    /// Whether the two have equal numbers, so that they can be one run.
    pub(crate) fn continues(&self, last: &Self) -> bool {
        (self.cost, self.max_wait, self.whole_wait) == (last.cost, last.max_wait, last.whole_wait)
    }
}

/// The numbers of a merged call.
pub(crate) fn merge(subject: Tagged<'_>, runs: &[Run]) -> Vec<u8> {
    let mut out = Doubles::new();
    out.put(runs.len() as u64);
    out.tag(subject);
    out.first_numbers(subject);
    out.last_numbers(subject);
    out.runs(subject, runs);
    out.0
}

/// The numbers of a holder's call, with the requests that wait for it.
pub(crate) fn allot(subject: Tagged<'_>, call: &AllotmentCall, runs: &[Run]) -> Vec<u8> {
    let mut out = Doubles::new();
    out.put(runs.len() as u64);
    for number in [call.id, call.seq, call.used, call.acknowledged, call.keep, call.used_by.as_micros()] {
        out.put(number);
    }
    for number in [call.end.as_micros(), call.want, call.hold.as_micros()] {
        out.put(number);
    }
    out.tag(subject);
    out.first_numbers(subject);
    out.last_numbers(subject);
    out.runs(subject, runs);
    out.0
}

/// The numbers of any other verb.
pub(crate) fn amend(shape: &Shape, subject: Tagged<'_>, verb: &Verb) -> Vec<u8> {
    let Amend { verb, cost, at, lease } = Amend::of(verb, subject.cost);
    let mut out = Doubles::new();
    out.put(verb);
    out.put(cost);
    out.put_if_known(at);
    if passes_lease_id(shape) {
        out.put_if_known(lease);
    }
    out.tag(subject);
    out.first_numbers(subject);
    out.last_numbers(subject);
    out.0
}

/// The numbers of a charge, followed by its leases.
pub(crate) fn charge(subject: Tagged<'_>, charge: &StoreCharge) -> Vec<u8> {
    let Bill { owed, due, released } = &charge.bill;
    let mut out = Doubles::new();
    out.put(charge.sequence);
    out.put(due.as_micros());
    out.tag(subject);
    out.first_numbers(subject);
    out.last_numbers(subject);
    for owed in owed {
        out.put(owed.permits);
    }
    let mut out = out.0;
    let put_count = |out: &mut Vec<u8>, count: usize| put(out, 4, count as u64);
    let rules = subject.policy.rules().iter().zip(owed);
    for (_, owed) in rules.filter(|(rule, _)| matches!(rule.algorithm(), AnyAlgorithm::Leases(_))) {
        put_count(&mut out, owed.leases.len());
        for lease in &owed.leases {
            put(&mut out, 7, lease.id.0);
            put(&mut out, 3, lease.permits);
            put(&mut out, 7, lease.until.as_micros());
        }
        put_count(&mut out, released.len());
        for id in released {
            put(&mut out, 7, id.0);
        }
    }
    out
}

/// The arguments of a verb for lua/amend.lua.
struct Amend {
    verb: u64,
    cost: u64,
    at: Option<u64>,
    lease: Option<u64>,
}

impl Amend {
    fn of(verb: &Verb, cost: u64) -> Self {
        let plain = |verb, cost| Self { verb, cost, at: None, lease: None };
        let give_back =
            |cost, at: Option<Timestamp>| Self { at: at.map(Timestamp::as_micros), ..plain(GIVE_BACK, cost) };
        match *verb {
            Verb::Refund { at } => give_back(cost, at),
            Verb::Undo { at, lease } => Self { lease: lease.map(|lease| lease.0), ..give_back(cost, Some(at)) },
            Verb::Settle { actual, at } if actual <= cost => give_back(cost - actual, at),
            Verb::Settle { actual, .. } => plain(PENALIZE, actual - cost),
            Verb::Penalize => plain(PENALIZE, cost),
            Verb::Block { span } => plain(BLOCK, span.min(MAX_WAIT).as_micros()),
            Verb::Release(Release::Lease(id)) => Self { lease: Some(id.0), ..plain(RELEASE, 0) },
            Verb::Release(Release::Oldest) => plain(RELEASE_OLDEST, cost),
            Verb::Heartbeat(id) => Self { lease: Some(id.0), ..plain(HEARTBEAT, 0) },
            Verb::Commit { actual, .. } => plain(COMMIT, actual.min(MAX_LEVEL)),
            Verb::Cancel { .. } => plain(CANCEL, 0),
            Verb::Expire { .. } => plain(EXPIRE, 0),
            Verb::Reset => plain(RESET, 0),
            // A take has a separate script; every other verb is a peek.
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
const COMMIT: u64 = 8;
const CANCEL: u64 = 9;
const EXPIRE: u64 = 10;

/// Numbers as big-endian doubles, Lua's number type.
struct Doubles(Vec<u8>);

impl Doubles {
    fn new() -> Self {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&f64::INFINITY.to_be_bytes());
        Self(out)
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "the core's numbers are below 2^53; a caller's cost may be larger, and then exceeds every limit"
    )]
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

    /// The numbers of the rules, except the last of each.
    fn first_numbers(&mut self, Tagged { policy, now, .. }: Tagged<'_>) {
        for rule in policy.rules() {
            if let Some((_, numbers)) = numbers(rule, now).split_last() {
                numbers.iter().for_each(|number| self.0.extend_from_slice(&number.to_be_bytes()));
            }
        }
    }

    fn runs(&mut self, Tagged { policy, .. }: Tagged<'_>, runs: &[Run]) {
        let horizon = policy.horizon().min(MAX_WAIT);
        let two_waits = has_two_waits(&vec![Piece::of(policy)]);
        for Run { count, cost, max_wait, whole_wait } in runs {
            self.put(*count);
            self.put(*cost);
            let bounded = max_wait.as_micros().min(horizon.as_micros());
            self.put(if two_waits { max_wait.as_micros() } else { bounded });
            self.put(if two_waits && !whole_wait { horizon.as_micros() } else { bounded });
        }
    }

    /// The last of each, the clock tolerance, which the quick section does not read.
    fn last_numbers(&mut self, Tagged { policy, now, .. }: Tagged<'_>) {
        for rule in policy.rules() {
            if let Some(last) = numbers(rule, now).last() {
                self.0.extend_from_slice(&last.to_be_bytes());
            }
        }
    }
}
