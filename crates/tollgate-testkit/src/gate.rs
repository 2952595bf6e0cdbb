//! One key under one policy, on a clock that the test holds.
//!
//! The shortest way to tell a story about a limiter: build a gate, ask, move the clock, ask again. No store, no
//! runtime, nothing between the claim and the arithmetic.

use tollgate_core::{
    Carry, Decision, LeaseId, Micros, Policy, Release, Rule, Step, Subject, Take, Verb, Verdict, carry_over,
};

/// A policy, one key's state, and the time.
#[derive(Clone, Debug)]
pub struct Gate {
    /// What is decided by.
    pub policy: Policy,
    /// What is remembered.
    pub subject: Subject,
    /// What the clock shows.
    pub now: Micros,
}

impl Gate {
    /// A key never seen, under one rule, at a moment that is no boundary of anything.
    pub fn new(rule: Rule) -> Self {
        Self::of([rule])
    }

    /// The same under several rules.
    pub fn of(rules: impl IntoIterator<Item = Rule>) -> Self {
        let policy = Policy::new("gate", rules).expect("the rules of a test are sound");
        let subject = policy.fresh();
        Self { policy, subject, now: START }
    }

    /// The same gate with its clock set.
    #[must_use]
    pub fn starting_at(mut self, now: Micros) -> Self {
        self.now = now;
        self
    }

    /// Lets time pass.
    pub fn advance(&mut self, span: Micros) -> &mut Self {
        self.now = self.now + span;
        self
    }

    /// Sets the clock so many milliseconds after the start of the test.
    pub fn at_ms(&mut self, millis: u64) -> &mut Self {
        self.now = START + Micros::from_millis(millis);
        self
    }

    /// Turns the clock back.
    pub fn turn_back(&mut self, span: Micros) -> &mut Self {
        self.now = self.now - span;
        self
    }

    /// Asks anything and keeps what comes out.
    pub fn step(&mut self, verb: Verb) -> Step {
        self.policy.decide(&mut self.subject, &verb, self.now)
    }

    /// Asks anything and keeps what comes out; only the answer.
    pub fn ask(&mut self, verb: Verb) -> Decision {
        self.step(verb).decision
    }

    /// Tries to take permits now.
    pub fn take(&mut self, cost: u64) -> Decision {
        self.ask(Verb::Take(Take::now(cost)))
    }

    /// Takes permits within a time, or not at all.
    pub fn take_within(&mut self, cost: u64, max_wait: Micros) -> Decision {
        self.ask(Verb::Take(Take::within(cost, max_wait)))
    }

    /// Takes permits under a name.
    pub fn hold(&mut self, cost: u64, lease: u64) -> Decision {
        self.ask(Verb::Take(Take::now(cost).held_as(LeaseId(lease))))
    }

    /// Lets go of a name.
    pub fn release(&mut self, lease: u64) -> Decision {
        self.ask(Verb::Release(Release::Lease(LeaseId(lease))))
    }

    /// Gives permits back.
    pub fn refund(&mut self, cost: u64, at: Option<Micros>) -> Decision {
        self.ask(Verb::Refund { cost, at })
    }

    /// How the key stands.
    pub fn peek(&mut self) -> Decision {
        self.ask(Verb::Peek)
    }

    /// What a question would be answered at another moment, without asking it.
    pub fn would(&self, verb: Verb, now: Micros) -> Decision {
        self.clone().starting_at(now).ask(verb)
    }

    /// Replaces the rules, carrying the key over.
    pub fn change(&mut self, rules: impl IntoIterator<Item = Rule>, how: Carry) -> &mut Self {
        let new = Policy::new("gate", rules).expect("the rules of a test are sound");
        self.subject = carry_over(&self.policy, &new, self.subject.clone(), how, self.now);
        self.policy = new;
        self
    }
}

/// The answer, if it is the one expected; else the test ends with what was found.
pub trait Expect {
    /// Must be allowed; gives the wait.
    fn expect_allow(&self) -> Micros;
    /// Must be denied; gives the time to come back after.
    fn expect_deny(&self) -> Micros;
    /// Must be never.
    fn expect_never(&self);
}

impl Expect for Decision {
    #[track_caller]
    fn expect_allow(&self) -> Micros {
        match self.verdict {
            Verdict::Allow { wait } => wait,
            _ => panic!("expected to be allowed, found {self:?}"),
        }
    }

    #[track_caller]
    fn expect_deny(&self) -> Micros {
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

/// 12 January 2026, 10:14:07.123456 UTC: a Monday, and a boundary of nothing.
pub const START: Micros = Micros(1_768_212_847_123_456);
