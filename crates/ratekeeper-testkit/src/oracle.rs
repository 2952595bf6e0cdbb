//! Oracle: a second, naive implementation of every algorithm, to compare the core with.
//!
//! Each file stores the whole history of admissions and computes every decision from it: tokens are replayed as
//! fractions, windows are counted entry by entry, and "when would it pass?" is found by testing one time after another.
//! Nothing is shared with the core: no code, no formula, no state.
//!
//! Common rules:
//!
//! - A request is admitted at the first time that every rule admits it, if the caller waits that long; each rule is then
//!   charged for that time. Otherwise nothing is charged and `retry_after` is that wait. Rules that count refused
//!   requests are then charged what they have left, and `retry_after` is computed after that; a take of 0 passes them
//!   only while a permit is left.
//! - No request passes before an earlier reservation: first come, first served.
//! - Waits round up to whole microseconds, `remaining` rounds down.
//!
//! Clocks move forward here. Steps back are a separate law, tested without an oracle.

mod calendar;
mod concurrency;
mod fixed_window;
mod grid;
mod leaky_bucket;
mod local;
mod sliding_counter;
mod sliding_log;
mod stepwise;
mod token_bucket;

use ratekeeper_core::{AlgorithmSpec, DecidedBy, LeaseId, Period, Refill, Rule, Span, Take, Timestamp, Verdict};

/// One rule, decided from its history. Times are microseconds since the epoch.
pub trait Naive {
    /// The most permits that are admitted at one instant.
    fn limit(&self) -> u64;

    /// The first time, now or later, at which this many permits would be admitted.
    fn free_at(&self, cost: u64, now: u64) -> u64;

    /// The time at which the admitted request proceeds. The same, unless the rule is shaped.
    fn go_at(&self, cost: u64, now: u64) -> u64 {
        self.free_at(cost, now)
    }

    /// Adds an admission to the history.
    fn book(&mut self, booking: Booking);

    /// Permits that would be admitted right now.
    fn remaining(&self, now: u64) -> u64;

    /// When the key is back in its initial state; `now` if it is.
    fn reset_at(&self, now: u64) -> u64;

    /// Releases a lease; only concurrency rules have any.
    fn release(&mut self, _lease: LeaseId, _now: u64) {}

    /// Extends a lease; only concurrency rules have any.
    fn heartbeat(&mut self, _lease: LeaseId, _now: u64) {}
}

/// One admission.
#[derive(Clone, Copy, Debug)]
pub struct Booking {
    /// How many permits.
    pub cost: u64,
    /// When they were requested.
    pub asked: u64,
    /// When they proceed.
    pub go: u64,
    /// Their lease.
    pub lease: LeaseId,
}

/// The rules of a policy, decided together.
pub struct Oracle {
    rules: Vec<Box<dyn Naive>>,
    /// Which of them count refused requests.
    counting: Vec<bool>,
    longest_wait: u64,
}

/// The oracle's decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OracleDecision {
    /// For the whole request.
    pub verdict: Verdict,
    /// The rule that decided.
    pub decided_by: DecidedBy,
    /// Each rule: verdict, limit, remaining and reset_after.
    pub rules: Vec<(Verdict, u64, u64, Span)>,
    /// Whether anything was charged.
    pub changed: bool,
}

impl Oracle {
    /// An oracle for these rules that reserves no further ahead than `longest_wait`.
    pub fn new(rules: &[Rule], longest_wait: Span) -> Self {
        let counting = rules.iter().map(Rule::counts_refused).collect();
        Self { rules: rules.iter().map(naive).collect(), counting, longest_wait: longest_wait.as_micros() }
    }

    /// Decides one take and stores it if it passes or is counted.
    pub fn take(&mut self, cost: u64, take: &Take, now: Timestamp) -> OracleDecision {
        let costs = vec![cost; self.rules.len()];
        self.take_costs(&costs, take, now)
    }

    /// Decides one take with a cost per rule: several keys with several rules each, in one list.
    pub fn take_costs(&mut self, costs: &[u64], take: &Take, now: Timestamp) -> OracleDecision {
        let now = now.as_micros();
        assert_eq!(costs.len(), self.rules.len(), "one cost for each rule");
        let (go, refusals) = self.ask(take, costs, now);
        let refused = refusals.iter().any(Option::is_some);
        let mut changed = false;
        for ((rule, counts), &cost) in self.rules.iter_mut().zip(&self.counting).zip(costs) {
            let left = if *counts { rule.remaining(now) } else { 0 };
            let cost = if refused { cost.min(left) } else { cost };
            if cost > 0 {
                rule.book(Booking { cost, asked: now, go: if refused { now } else { go }, lease: take.lease });
                changed = true;
            }
        }
        let after = if refused { self.ask(take, costs, now).1 } else { refusals.clone() };
        let passes = Verdict::Allow { wait: Span::from_micros(if refused { 0 } else { go - now }) };
        let decided = self.rules.iter().zip(refusals.iter().zip(&after)).map(|(rule, (refusal, after))| {
            let reset_after = Span::from_micros(rule.reset_at(now) - now);
            (refusal.and(*after).unwrap_or(passes), rule.limit(), rule.remaining(now), reset_after)
        });
        let rules: Vec<_> = decided.collect();
        let (mut verdict, decided_by) = conclude(&rules, passes);
        if let Verdict::Deny { retry_after } = &mut verdict {
            let later = after.iter().flatten().filter_map(|refusal| refusal.retry_after_span());
            *retry_after = later.fold(*retry_after, Span::max);
        }
        OracleDecision { verdict, decided_by, rules, changed }
    }

    /// When the take proceeds, and the denial of each rule.
    fn ask(&self, take: &Take, costs: &[u64], now: u64) -> (u64, Vec<Option<Verdict>>) {
        let each = self.rules.iter().zip(&self.counting).zip(costs);
        let waits: Vec<Option<RuleWait>> =
            each.map(|((rule, counts), &cost)| wait_of(rule.as_ref(), *counts, cost, now)).collect();
        let refusals = waits.iter().map(|wait| self.refusal(*wait, take)).collect();
        (now + waits.iter().flatten().map(|wait| wait.go_in).max().unwrap_or(0), refusals)
    }

    /// Releases a lease.
    pub fn release(&mut self, lease: LeaseId, now: Timestamp) {
        self.rules.iter_mut().for_each(|rule| rule.release(lease, now.as_micros()));
    }

    /// Extends a lease.
    pub fn heartbeat(&mut self, lease: LeaseId, now: Timestamp) {
        self.rules.iter_mut().for_each(|rule| rule.heartbeat(lease, now.as_micros()));
    }

    fn refusal(&self, wait: Option<RuleWait>, take: &Take) -> Option<Verdict> {
        let Some(RuleWait { free_in, go_in }) = wait else { return Some(Verdict::Never) };
        // A request without a deadline accepts the delay of a shaped rule up to the longest wait; a deadline bounds the
        // whole delay.
        let wait = if take.whole_wait { go_in } else { free_in.max(go_in.saturating_sub(self.longest_wait)) };
        let refused = wait > take.max_wait.as_micros() || go_in > self.longest_wait;
        refused.then_some(Verdict::Deny { retry_after: Span::from_micros(wait) })
    }
}

#[derive(Clone, Copy)]
struct RuleWait {
    free_in: u64,
    go_in: u64,
}

/// `None` if waiting cannot help.
fn wait_of(rule: &dyn Naive, counts_refused: bool, cost: u64, now: u64) -> Option<RuleWait> {
    if cost > rule.limit() {
        return None;
    }
    if cost == 0 {
        let free_in = if counts_refused { rule.free_at(1, now) - now } else { 0 };
        return Some(RuleWait { free_in, go_in: free_in });
    }
    let free_in = rule.free_at(cost, now) - now;
    Some(RuleWait { free_in, go_in: rule.go_at(cost, now) - now })
}

/// The first "never" decides; else the longest denial; else the least remaining.
fn conclude(rules: &[(Verdict, u64, u64, Span)], passes: Verdict) -> (Verdict, DecidedBy) {
    if let Some(never) = rules.iter().position(|rule| rule.0 == Verdict::Never) {
        return (Verdict::Never, DecidedBy::Rule(never));
    }
    let longest = rules.iter().filter_map(|rule| rule.0.retry_after_span()).max().unwrap_or(Span::ZERO);
    if longest > Span::ZERO {
        let refusal = Verdict::Deny { retry_after: longest };
        let first = rules.iter().position(|rule| rule.0 == refusal).expect("it was found above");
        return (refusal, DecidedBy::Rule(first));
    }
    let least = rules.iter().map(|rule| rule.2).min().expect("a policy has rules");
    let first = rules.iter().position(|rule| rule.2 == least).expect("it was found above");
    (passes, DecidedBy::Rule(first))
}

/// The naive counterpart of a rule.
pub fn naive(rule: &Rule) -> Box<dyn Naive> {
    let quota = rule.quota();
    let (limit, burst) = (quota.limit(), quota.burst_or_limit());
    let span = match quota.period() {
        Period::Span(span) => span.as_micros(),
        Period::Month | Period::Year => 0,
    };
    match rule.algorithm() {
        AlgorithmSpec::TokenBucket { refill: Refill::Continuous } => {
            Box::new(token_bucket::TokenBucket::new(burst, limit, span))
        }
        AlgorithmSpec::TokenBucket { refill: Refill::Stepwise } => {
            Box::new(stepwise::Stepwise::new(burst, limit, span))
        }
        AlgorithmSpec::LeakyBucket { shaped } => Box::new(leaky_bucket::LeakyBucket::new(burst, limit, span, shaped)),
        AlgorithmSpec::FixedWindow { align } => Box::new(fixed_window::FixedWindow::new(limit, quota.period(), align)),
        AlgorithmSpec::SlidingLog => Box::new(sliding_log::SlidingLog::new(limit, span)),
        AlgorithmSpec::SlidingCounter { buckets } => {
            Box::new(sliding_counter::SlidingCounter::new(limit, span, u64::from(buckets)))
        }
        AlgorithmSpec::Concurrency { lease } => Box::new(concurrency::Concurrency::new(limit, lease.as_micros())),
        other => panic!("the oracle has no counterpart of {other:?}"),
    }
}

/// The first time from `now` on at which `passes` is true, for a condition that stays true.
///
/// Doubles the step until it passes, then bisects. Needs no knowledge of the algorithm except that waiting helps.
fn first_instant(now: u64, passes: impl Fn(u64) -> bool) -> u64 {
    if passes(now) {
        return now;
    }
    let (mut no, mut step) = (now, 1);
    while !passes(no + step) {
        no += step;
        step *= 2;
        assert!(step < 1 << 60, "the request passes at no time");
    }
    let mut yes = no + step;
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if passes(middle) { yes = middle } else { no = middle }
    }
    yes
}
