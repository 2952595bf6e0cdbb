//! Test fixture: one key under one policy, on a manual clock, without a store or a runtime.
//!
//! A test builds a gate, makes requests, moves the clock, and makes more requests.

use ratekeeper_core::{
    Decision, LeaseId, OnQuotaChange, Policy, Release, Rule, Span, Take, Timestamp, Verb, Verdict,
    store_api::{KeyState, Step, migrate_state},
};

/// A policy, one key's state, and the time.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The policy.
    pub policy: Policy,
    /// The state of the key.
    pub key_state: KeyState,
    /// The time.
    pub now: Timestamp,
}

impl Gate {
    /// A key in its initial state, under one rule, at a time that is no boundary of any period.
    pub fn new(rule: Rule) -> Self {
        Self::of([rule])
    }

    /// The same under several rules.
    pub fn of(rules: impl IntoIterator<Item = Rule>) -> Self {
        let policy = Policy::new("gate", rules).expect("the rules of a test are sound");
        let key_state = policy.fresh();
        Self { policy, key_state, now: START }
    }

    /// The same gate with its clock set.
    #[must_use]
    pub fn starting_at(mut self, now: Timestamp) -> Self {
        self.now = now;
        self
    }

    /// Moves the clock forward.
    pub fn advance(&mut self, span: Span) -> &mut Self {
        self.now = self.now + span;
        self
    }

    /// Sets the clock to this many milliseconds after the start of the test.
    pub fn at_ms(&mut self, millis: u64) -> &mut Self {
        self.now = START + Span::from_millis(millis);
        self
    }

    /// Moves the clock back.
    pub fn turn_back(&mut self, span: Span) -> &mut Self {
        self.now = self.now - span;
        self
    }

    /// Makes a request and keeps the new state.
    pub fn step(&mut self, request: impl Into<GateRequest>) -> Step {
        let GateRequest { cost, verb } = request.into();
        self.policy.decide(&mut self.key_state, cost, &verb, self.now)
    }

    /// Makes a request and keeps the new state; returns the decision only.
    pub fn ask(&mut self, request: impl Into<GateRequest>) -> Decision {
        self.step(request).decision
    }

    /// Tries to take permits now.
    pub fn take(&mut self, cost: u64) -> Decision {
        self.ask((cost, Take::now()))
    }

    /// Takes permits within a time, or not at all.
    pub fn take_within(&mut self, cost: u64, max_wait: Span) -> Decision {
        self.ask((cost, Take::within(max_wait)))
    }

    /// Takes permits with this lease.
    pub fn hold(&mut self, cost: u64, lease: u64) -> Decision {
        self.ask((cost, Take::now().with_lease(LeaseId(lease))))
    }

    /// Releases a lease.
    pub fn release(&mut self, lease: u64) -> Decision {
        self.ask(Verb::Release(Release::Lease(LeaseId(lease))))
    }

    /// Refunds permits.
    pub fn refund(&mut self, cost: u64, at: Option<Timestamp>) -> Decision {
        self.ask((cost, Verb::Refund { at }))
    }

    /// State of the key.
    pub fn peek(&mut self) -> Decision {
        self.ask(Verb::Peek)
    }

    /// The decision on a request at another time, without making it.
    pub fn would(&self, request: impl Into<GateRequest>, now: Timestamp) -> Decision {
        self.clone().starting_at(now).ask(request)
    }

    /// Replaces the rules and migrates the state.
    pub fn change(&mut self, rules: impl IntoIterator<Item = Rule>, how: OnQuotaChange) -> &mut Self {
        let new = Policy::new("gate", rules).expect("the rules of a test are sound");
        self.key_state = migrate_state(&self.policy, &new, self.key_state.clone(), how, self.now);
        self.policy = new;
        self
    }
}

/// A verb and its cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GateRequest {
    /// As in [`Ask::cost`](ratekeeper_core::Ask::cost).
    pub cost: u64,
    /// The verb.
    pub verb: Verb,
}

/// With a cost of 1.
impl From<Verb> for GateRequest {
    fn from(verb: Verb) -> Self {
        Self { cost: 1, verb }
    }
}

impl From<(u64, Verb)> for GateRequest {
    fn from((cost, verb): (u64, Verb)) -> Self {
        Self { cost, verb }
    }
}

impl From<(u64, Take)> for GateRequest {
    fn from((cost, take): (u64, Take)) -> Self {
        Self { cost, verb: Verb::Take(take) }
    }
}

/// Expectations about a decision; each panics with what was found.
pub trait Expect {
    /// Must be allowed; returns the wait.
    fn expect_allow(&self) -> Span;
    /// Must be denied; returns `retry_after`.
    fn expect_deny(&self) -> Span;
    /// Must be never.
    fn expect_never(&self);
}

impl Expect for Decision {
    #[track_caller]
    fn expect_allow(&self) -> Span {
        match self.verdict {
            Verdict::Allow { wait } => wait,
            _ => panic!("expected to be allowed, found {self:?}"),
        }
    }

    #[track_caller]
    fn expect_deny(&self) -> Span {
        match self.verdict {
            Verdict::Deny { retry_after } => retry_after,
            _ => panic!("expected to be denied, found {self:?}"),
        }
    }

    #[track_caller]
    fn expect_never(&self) {
        assert_eq!(self.verdict, Verdict::Never, "expected never, found {self:?}");
    }
}

/// 12 January 2026, 10:14:07.123456 UTC: a Monday, and no boundary of any period.
pub const START: Timestamp = Timestamp::from_micros(1_768_212_847_123_456);
