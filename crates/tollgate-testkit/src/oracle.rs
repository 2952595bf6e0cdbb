//! A second opinion: every algorithm again, naive, slow and obviously right.
//!
//! Each file keeps the whole history of what was admitted and works every answer out from it anew: tokens are replayed
//! as fractions, windows are counted by looking at every entry, and "when could it pass?" is found by asking "would it
//! pass at x?" for one x after another. Nothing is shared with the core: no code, no formula, no state. Where the two
//! agree on every number for millions of random questions, both are probably right.
//!
//! What all of them answer, as the design states it:
//!
//! - A request goes at the first moment that suits every rule, if the caller waits that long; each rule is then charged
//!   as of that moment. If not, nothing is charged and `retry_after` is the wait it would have been. Rules that count
//!   refused requests are then charged what they have left, and `retry_after` is worked out after that; a look passes
//!   them only while a permit is left.
//! - Nobody goes before somebody who was told to wait: reservations are first come, first served.
//! - Waits round up to whole microseconds, `remaining` rounds down.
//!
//! Clocks move forward here. What happens when one steps back is a law of its own, tested without an oracle.

mod calendar;
mod concurrency;
mod fixed_window;
mod leaky_bucket;
mod sliding_counter;
mod sliding_log;
mod stepwise;
mod token_bucket;

use tollgate_core::{Algorithm, DecidedBy, LeaseId, Micros, Period, Refill, Rule, Take, Verdict};

/// One rule, answered from its history. Moments are microseconds since the epoch.
pub trait Naive {
    /// The most permits that can go at one instant.
    fn limit(&self) -> u64;

    /// The first moment, now or later, at which so many permits would be admitted.
    fn free_at(&self, cost: u64, now: u64) -> u64;

    /// The moment the admitted request goes. The same, except where the outflow is shaped.
    fn go_at(&self, cost: u64, now: u64) -> u64 {
        self.free_at(cost, now)
    }

    /// Writes an admission into the history.
    fn book(&mut self, booking: Booking);

    /// Permits that would be admitted right now.
    fn remaining(&self, now: u64) -> u64;

    /// When the key is as good as new; `now` if it is.
    fn rests_at(&self, now: u64) -> u64;

    /// A holder lets go. Only concurrency cares.
    fn release(&mut self, _lease: LeaseId, _now: u64) {}

    /// A holder is still there. Only concurrency cares.
    fn heartbeat(&mut self, _lease: LeaseId, _now: u64) {}
}

/// One admission.
#[derive(Clone, Copy, Debug)]
pub struct Booking {
    /// How many permits.
    pub cost: u64,
    /// When they were asked for.
    pub asked: u64,
    /// When they go.
    pub go: u64,
    /// Under which name.
    pub lease: LeaseId,
}

/// The rules of a policy, answered together.
pub struct Oracle {
    rules: Vec<Box<dyn Naive>>,
    /// Which of them count refused requests.
    counting: Vec<bool>,
    longest_wait: u64,
}

/// What the oracle says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// For the whole request.
    pub verdict: Verdict,
    /// The rule with the last word.
    pub decided_by: DecidedBy,
    /// Each rule: verdict, limit, remaining and reset_after.
    pub rules: Vec<(Verdict, u64, u64, Micros)>,
    /// Whether anything was charged.
    pub changed: bool,
}

impl Oracle {
    /// An oracle for these rules that reserves no further ahead than `longest_wait`.
    pub fn new(rules: &[Rule], longest_wait: Micros) -> Self {
        let counting = rules.iter().map(Rule::counts_refused).collect();
        Self { rules: rules.iter().map(naive).collect(), counting, longest_wait: longest_wait.0 }
    }

    /// Decides one take and, if it passes or is counted nevertheless, remembers it.
    pub fn take(&mut self, take: &Take, now: Micros) -> Answer {
        let once = vec![1; self.rules.len()];
        self.take_multiples(take, &once, now)
    }

    /// Decides one take that costs each rule its own multiple: several keys with several rules each, in one list.
    pub fn take_multiples(&mut self, take: &Take, times: &[u64], now: Micros) -> Answer {
        let now = now.0;
        assert_eq!(times.len(), self.rules.len(), "one multiple for each rule");
        let (go, refusals) = self.ask(take, times, now);
        let refused = refusals.iter().any(Option::is_some);
        let mut changed = false;
        for ((rule, counts), times) in self.rules.iter_mut().zip(&self.counting).zip(times) {
            let cost = take.times(*times).cost;
            let left = if *counts { rule.remaining(now) } else { 0 };
            let cost = if refused { cost.min(left) } else { cost };
            if cost > 0 {
                rule.book(Booking { cost, asked: now, go: if refused { now } else { go }, lease: take.lease });
                changed = true;
            }
        }
        let after = if refused { self.ask(take, times, now).1 } else { refusals.clone() };
        let passes = Verdict::Allow { wait: Micros(if refused { 0 } else { go - now }) };
        let told = self.rules.iter().zip(refusals.iter().zip(&after)).map(|(rule, (refusal, after))| {
            let reset_after = Micros(rule.rests_at(now) - now);
            (refusal.and(*after).unwrap_or(passes), rule.limit(), rule.remaining(now), reset_after)
        });
        let rules: Vec<_> = told.collect();
        let (mut verdict, decided_by) = conclude(&rules, passes);
        if let Verdict::Deny { retry_after } = &mut verdict {
            let later = after.iter().flatten().filter_map(|refusal| refusal.retry_after());
            *retry_after = later.fold(*retry_after, Micros::max);
        }
        Answer { verdict, decided_by, rules, changed }
    }

    /// When the take goes, and each rule's refusal.
    fn ask(&self, take: &Take, times: &[u64], now: u64) -> (u64, Vec<Option<Verdict>>) {
        let each = self.rules.iter().zip(&self.counting).zip(times);
        let waits: Vec<Option<RuleWait>> =
            each.map(|((rule, counts), times)| wait_of(rule.as_ref(), *counts, &take.times(*times), now)).collect();
        let refusals = waits.iter().map(|wait| self.refusal(*wait, take)).collect();
        (now + waits.iter().flatten().map(|wait| wait.go_in).max().unwrap_or(0), refusals)
    }

    /// A holder lets go.
    pub fn release(&mut self, lease: LeaseId, now: Micros) {
        self.rules.iter_mut().for_each(|rule| rule.release(lease, now.0));
    }

    /// A holder is still there.
    pub fn heartbeat(&mut self, lease: LeaseId, now: Micros) {
        self.rules.iter_mut().for_each(|rule| rule.heartbeat(lease, now.0));
    }

    fn refusal(&self, wait: Option<RuleWait>, take: &Take) -> Option<Verdict> {
        let Some(RuleWait { free_in, go_in }) = wait else { return Some(Verdict::Never) };
        // A try accepts the delay of a shaped rule as told, up to the longest that is ever told; whoever brings a
        // deadline means the whole delay.
        let wait = if take.whole_wait { go_in } else { free_in.max(go_in.saturating_sub(self.longest_wait)) };
        let refused = wait > take.max_wait.0 || go_in > self.longest_wait;
        refused.then_some(Verdict::Deny { retry_after: Micros(wait) })
    }
}

#[derive(Clone, Copy)]
struct RuleWait {
    free_in: u64,
    go_in: u64,
}

/// `None` if waiting cannot help.
fn wait_of(rule: &dyn Naive, counts_refused: bool, take: &Take, now: u64) -> Option<RuleWait> {
    if take.cost > rule.limit() {
        return None;
    }
    if take.cost == 0 {
        let free_in = if counts_refused { rule.free_at(1, now) - now } else { 0 };
        return Some(RuleWait { free_in, go_in: free_in });
    }
    let free_in = rule.free_at(take.cost, now) - now;
    Some(RuleWait { free_in, go_in: rule.go_at(take.cost, now) - now })
}

/// The first "never" speaks; else the longest refusal; else the least remaining.
fn conclude(rules: &[(Verdict, u64, u64, Micros)], passes: Verdict) -> (Verdict, DecidedBy) {
    if let Some(never) = rules.iter().position(|rule| rule.0 == Verdict::Never) {
        return (Verdict::Never, DecidedBy::Rule(never));
    }
    let longest = rules.iter().filter_map(|rule| rule.0.retry_after()).max().unwrap_or(Micros::ZERO);
    if longest > Micros::ZERO {
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
        Period::Span(span) => span.0,
        Period::Month => 0,
    };
    match rule.algorithm() {
        Algorithm::TokenBucket { refill: Refill::Continuous } => {
            Box::new(token_bucket::TokenBucket::new(burst, limit, span))
        }
        Algorithm::TokenBucket { refill: Refill::Stepwise } => Box::new(stepwise::Stepwise::new(burst, limit, span)),
        Algorithm::LeakyBucket { shaped } => Box::new(leaky_bucket::LeakyBucket::new(burst, limit, span, shaped)),
        Algorithm::FixedWindow { align } => Box::new(fixed_window::FixedWindow::new(limit, quota.period(), align)),
        Algorithm::SlidingLog => Box::new(sliding_log::SlidingLog::new(limit, span)),
        Algorithm::SlidingCounter { buckets } => {
            Box::new(sliding_counter::SlidingCounter::new(limit, span, u64::from(buckets)))
        }
        Algorithm::Concurrency { lease } => Box::new(concurrency::Concurrency::new(limit, lease.0)),
        other => panic!("the oracle does not know {other:?} yet"),
    }
}

/// The first moment from `now` on at which the answer is yes, for a question that stays answered once it is.
///
/// Doubles the step until the answer is yes, then halves the gap: no knowledge of the algorithm but that patience
/// helps.
fn first_moment(now: u64, passes: impl Fn(u64) -> bool) -> u64 {
    if passes(now) {
        return now;
    }
    let (mut no, mut step) = (now, 1);
    while !passes(no + step) {
        no += step;
        step *= 2;
        assert!(step < 1 << 60, "nothing passes, however long one waits");
    }
    let mut yes = no + step;
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if passes(middle) { yes = middle } else { no = middle }
    }
    yes
}
