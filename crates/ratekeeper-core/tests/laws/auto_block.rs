//! Automatic blocks: against a naive model, and the cases that the design states.

use std::time::Duration;

use ratekeeper_core::{
    AlgorithmSpec, BlockAfter, DecidedBy, Period, Policy, Quota, Rule, RuleRole, Span, Take, Timestamp, Verb, Verdict,
    store_api::take_all,
};
use ratekeeper_testkit::{
    gate::{Expect, Gate},
    random::Random,
};

use crate::episode::play;

/// Denials and blocks as lists of times, in microseconds.
struct Naive {
    after: usize,
    within: u64,
    block: u64,
    grow: u64,
    at_most: u64,
    /// Denials since the first one that counts.
    counted: Vec<u64>,
    /// Start and length of the blocks in a row.
    blocks: Vec<(u64, u64)>,
}

impl Naive {
    fn new(rule: &Rule) -> Self {
        let (AlgorithmSpec::AutoBlock { block, grow, at_most }, Period::Span(within)) =
            (rule.algorithm(), rule.quota().period())
        else {
            panic!("{rule:?}");
        };
        Self {
            after: usize::try_from(rule.quota().limit()).unwrap(),
            within: within.as_micros(),
            block: block.as_micros(),
            grow,
            at_most: at_most.as_micros(),
            counted: Vec::new(),
            blocks: Vec::new(),
        }
    }

    fn blocked_until(&self, now: u64) -> Option<u64> {
        let end = self.blocks.last().map(|(start, length)| start + length)?;
        (self.counted.is_empty() && now < end).then_some(end)
    }

    /// Forgets what is too long ago.
    fn forget(&mut self, now: u64) {
        let is_counting = self.counted.first().is_some_and(|first| now < first + self.within);
        let Some((start, length)) = self.blocks.last().copied() else {
            if !is_counting {
                self.counted.clear();
            }
            return;
        };
        let quiet_from = self.counted.first().copied().unwrap_or(start + length);
        if !is_counting && now >= quiet_from + length {
            self.counted.clear();
            self.blocks.clear();
        }
    }

    fn denied(&mut self, now: u64) {
        self.forget(now);
        if self.blocked_until(now).is_some() {
            return;
        }
        self.counted.retain(|_| true);
        if self.counted.first().is_some_and(|first| now >= first + self.within) {
            self.counted.clear();
        }
        self.counted.push(now);
        if self.counted.len() >= self.after {
            let last = self.blocks.last().map(|(_, length)| length * self.grow);
            let length = last.unwrap_or(self.block).min(self.at_most);
            self.blocks.push((now, length));
            self.counted.clear();
        }
    }

    fn remaining(&mut self, now: u64) -> usize {
        self.forget(now);
        let live = self.counted.first().is_some_and(|first| now < first + self.within);
        match self.blocked_until(now) {
            Some(_) => 0,
            None => self.after - if live { self.counted.len() } else { 0 },
        }
    }
}

#[test]
fn automatic_blocks_agree_with_a_naive_model() {
    play("auto_block", 4, |seed| {
        let mut random = Random::new(seed);
        let block = random.auto_block("block");
        // A window of one permit: the second take in it is denied.
        let window = Span::from_micros(random.pick(&[1, 50, 1_000, 1_000_000]));
        let limit = Rule::fixed_window("limit", Quota::per_micros(1, window));
        let mut gate = Gate::of(vec![limit, block.clone()]).starting_at(random.beginning());
        let mut naive = Naive::new(&block);
        let mut spans = vec![window.as_micros(), naive.within, naive.block];
        let mut free_from = 0;
        for step in 0..200 {
            gate.advance(random.pause(&spans));
            let now = gate.now.as_micros();
            let blocked = naive.blocked_until(now);
            naive.forget(now);
            let cost = random.pick(&[0, 1, 1, 1, 2]);
            let never = cost == 2;
            let full = cost > 0 && now < free_from;
            let found = gate.step((cost, Take::now()));
            let decision = &found.decision;
            let scene = || format!("seed {seed} step {step}: {block:?} at {now}, cost {cost}\n{decision:?}");
            assert_eq!(decision.is_allowed(), !never && !full && blocked.is_none(), "{}", scene());
            if decision.is_allowed() && cost > 0 {
                free_from = now - now % window.as_micros() + window.as_micros();
            } else if !decision.is_allowed() && cost > 0 && (never || full) {
                naive.denied(now);
            }
            let shown = decision.rules[1];
            assert_eq!(shown.role, RuleRole::Block);
            assert_eq!(usize::try_from(shown.remaining).unwrap(), naive.remaining(now), "{}", scene());
            if let (Some(end), false) = (naive.blocked_until(now), never) {
                let rest = Span::from_micros(end - now);
                let waits = decision.verdict.retry_after_span().unwrap();
                assert!(decision.is_allowed() || waits >= rest, "{}", scene());
            }
            // The reset time is exact: a key that is left alone is in its initial state then, and not before.
            let mut later = gate.clone();
            let reset = shown.reset_after;
            later.advance(reset);
            assert_eq!(later.peek().rules[1].reset_after, Span::ZERO, "{}", scene());
            assert_eq!(later.peek().rules[1].remaining, shown.limit, "{}", scene());
            spans.truncate(3);
            spans.push(reset.as_micros());
            spans.extend(naive.blocks.last().map(|(_, length)| *length));
        }
        200
    });
}

fn minutes(number: u64) -> Duration {
    Duration::from_secs(60 * number)
}

/// Three denials within a minute, then blocks of 10, 20, 40 and 45 minutes.
fn growing() -> Gate {
    let after = BlockAfter::new(3, minutes(1), minutes(10)).growing(2, minutes(45));
    Gate::of(vec![Rule::fixed_window("limit", Quota::per_second(1)), Rule::auto_block("block", after)])
}

/// Denied until it is blocked; returns the length of the block.
fn hammer(gate: &mut Gate) -> Duration {
    gate.take(1).expect_allow();
    for _ in 0..2 {
        assert!(gate.take(1).retry_after().finite().is_some_and(|wait| wait <= Duration::from_secs(1)));
    }
    let blocked = gate.step((1, Take::now()));
    assert!(blocked.changed, "a denial that counts is stored");
    let retry_after = blocked.decision.verdict.retry_after_span().unwrap();
    assert_eq!(gate.take(1).decided_by, DecidedBy::Rule(1));
    assert!(!gate.step((1, Take::now())).changed, "a blocked key writes nothing");
    gate.advance(retry_after - Span::MICROSECOND).take(1).expect_deny();
    gate.advance(Span::MICROSECOND);
    retry_after.into()
}

#[test]
fn blocks_grow_to_the_longest_and_start_over_after_a_quiet_time() {
    let mut gate = growing();
    for length in [10, 20, 40, 45, 45] {
        assert_eq!(hammer(&mut gate), minutes(length));
    }
    gate.advance(Span::from_secs(45 * 60) - Span::SECOND);
    assert_eq!(hammer(&mut gate), minutes(45), "one second before the end of the quiet time");
    gate.advance(Span::from_secs(45 * 60));
    assert_eq!(hammer(&mut gate), minutes(10));
}

#[test]
fn denials_that_are_too_far_apart_do_not_count() {
    let mut gate = growing();
    for _ in 0..20 {
        gate.take(1).expect_allow();
        gate.take(1).expect_deny();
        gate.take(1).expect_deny();
        gate.advance(Span::MINUTE);
    }
}

/// A denial by another key of the request does not count against this one.
#[test]
fn only_denials_of_the_own_rules_count() {
    let block = BlockAfter::new(1, minutes(1), minutes(10));
    let limit = |limit| Rule::fixed_window("limit", Quota::per_minute(limit));
    let own = Policy::new("own", [limit(100), Rule::auto_block("block", block)]).unwrap();
    let shared = Policy::new("shared", [limit(1)]).unwrap();
    let (mut key, mut all) = (own.fresh(), shared.fresh());
    let now = Timestamp::from_secs(1_000_000);
    let mut ask = || take_all(&mut [own.request_key(&mut key, 1), shared.request_key(&mut all, 1)], &Take::now(), now);
    assert!(ask().decision.is_allowed());
    let denied = ask();
    assert!(!denied.decision.is_allowed() && !denied.changed);
    assert_eq!(own.decide(&mut key, 1, &Verb::Take(Take::now()), now).decision.remaining(), 98);
}

/// A block of 0 ends an automatic block, as it ends one by hand. A reset does as well.
#[test]
fn a_block_of_nothing_ends_an_automatic_block() {
    for verb in [Verb::Block { span: Span::ZERO }, Verb::Reset] {
        let mut gate = growing();
        gate.take(1).expect_allow();
        (0..3).for_each(|_| drop(gate.take(1)));
        gate.advance(Span::SECOND).take(1).expect_deny();
        let _ = gate.ask(verb);
        gate.take(1).expect_allow();
    }
}

#[test]
fn any_cost_that_the_limits_admit_passes() {
    let block = BlockAfter::new(3, minutes(1), minutes(10));
    let mut gate =
        Gate::of(vec![Rule::token_bucket("limit", Quota::per_second(100)), Rule::auto_block("block", block)]);
    let decision = gate.take(50);
    decision.expect_allow();
    assert_eq!((decision.decided_by, decision.remaining()), (DecidedBy::Rule(0), 50), "denials are no permits");
    assert_eq!(gate.take(101).verdict, Verdict::Never);
}

#[test]
fn numbers_out_of_range_are_refused() {
    let problem = |after: BlockAfter| Rule::auto_block("block", after).compile().unwrap_err().problem.field;
    let minute = minutes(1);
    assert_eq!(problem(BlockAfter::new(0, minute, minute)), "after");
    assert_eq!(problem(BlockAfter::new(1 << 21, minute, minute)), "after");
    assert_eq!(problem(BlockAfter::new(1, Duration::ZERO, minute)), "within");
    assert_eq!(problem(BlockAfter::new(1, minute, Duration::ZERO)), "for");
    assert_eq!(problem(BlockAfter::new(1, minute, minutes(200_000))), "for");
    assert_eq!(problem(BlockAfter::new(1, minute, minute).growing(101, minute)), "grow");
    assert_eq!(problem(BlockAfter::new(1, minute, minute).growing(2, minute / 2)), "at_most");
}
