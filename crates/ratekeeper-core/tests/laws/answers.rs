//! Laws 3, 4, 5, 6, 8 and 10, checked for every decision; and law 1, checked at the end of every episode.

use ratekeeper_core::{Decision, Span, Take, Timestamp, Verdict};
use ratekeeper_testkit::{
    gate::Gate,
    random::{Kind, Random},
};

use crate::{
    bounds::{Flow, within_bound},
    episode::{Episode, play},
};

/// One in so many of the steps that the agreement takes: every step here asks half a dozen questions.
const SHARE: u64 = 3;

fn keeps_the_laws(name: &str, kinds_of: impl Fn(u64) -> Vec<Kind>) {
    play(name, SHARE, |seed| {
        let mut episode = Episode::new(seed, &kinds_of(seed));
        let mut admitted: Vec<Flow> = Vec::new();
        for _ in 0..episode.length {
            let (cost, take) = episode.next();
            let before = episode.gate.clone();
            let step = episode.gate.step((cost, take));
            let decision = &step.decision;
            let kept = answer_is_lawful(&before, &episode.gate, (cost, take), decision.verdict)
                .and_then(|()| remaining_is_true(&episode.gate, decision))
                .and_then(|()| less_is_not_harder(&before, (cost, take), decision.verdict, episode.random.bits()))
                .and_then(|()| {
                    line_is_kept(&admitted, episode.gate.now + decision.verdict.wait(), cost, decision.is_allowed())
                });
            if let Err(breach) = kept {
                panic!("{breach}\n{}\n{step:?}", episode.story());
            }
            for rule in decision.rules.iter() {
                assert!(rule.remaining <= rule.limit, "law 5: {}\n{step:?}", episode.story());
            }
            if decision.is_allowed() && cost > 0 {
                let at = episode.gate.now + decision.verdict.wait();
                admitted.push(Flow { at: at.as_micros(), permits: cost.into() });
            }
            episode.note_wait(decision.verdict.retry_after_span().map(|retry| retry.max(decision.verdict.wait())));
        }
        for rule in &episode.rules {
            if let Err(breach) = within_bound(rule, &admitted) {
                panic!("law 1: {breach}\n{}", episode.story());
            }
        }
        episode.length
    });
}

/// Laws 3, 4 and 8.
fn answer_is_lawful(before: &Gate, after: &Gate, (cost, take): (u64, Take), verdict: Verdict) -> Result<(), String> {
    let limits = || before.policy.rules().iter().map(|rule| rule.rule().quota().burst_or_limit());
    let outweighs = limits().any(|limit| cost > limit);
    if (verdict == Verdict::Never) != outweighs {
        return Err(format!("law 8: {verdict:?} for {} of {:?}", cost, limits().collect::<Vec<_>>()));
    }
    if !matches!(verdict, Verdict::Allow { .. })
        && before.key_state != after.key_state
        && !before.policy.counts_refused()
    {
        return Err("law 4: a denial changed the key".into());
    }
    match verdict {
        // Nothing has changed, unless the denial was counted: then its numbers must match the state it left.
        Verdict::Deny { retry_after } => retry_is_exact(after, (cost, take), retry_after),
        Verdict::Allow { wait } if take.whole_wait => wait_is_exact(before, (cost, take), wait),
        _ => Ok(()),
    }
}

/// Waiting exactly `retry_after` passes; a microsecond less does not.
fn retry_is_exact(before: &Gate, (cost, take): (u64, Take), retry_after: Span) -> Result<(), String> {
    let at_once = (cost, take.without_wait());
    if retry_after == Span::ZERO {
        return Err("law 3: denied with a retry_after of zero".into());
    }
    if !before.would(at_once, before.now + retry_after).is_allowed() {
        return Err("law 3: denied again after retry_after".into());
    }
    if before.would(at_once, before.now + retry_after - Span::from_micros(1)).is_allowed() {
        return Err("law 3: retry_after is longer than needed".into());
    }
    Ok(())
}

/// A reservation is for the first moment there is: with a shorter `max_wait` it would have been refused with that wait.
fn wait_is_exact(before: &Gate, (cost, take): (u64, Take), wait: Span) -> Result<(), String> {
    if wait > take.max_wait {
        return Err("law 3: the wait exceeds max_wait".into());
    }
    if wait == Span::ZERO {
        return Ok(());
    }
    if before.policy.counts_refused() {
        return Ok(()); // the shorter one would be counted, and its numbers would differ
    }
    let mut hastier = take;
    hastier.max_wait = wait - Span::MICROSECOND;
    let hastier = (cost, hastier);
    match before.would(hastier, before.now).verdict {
        Verdict::Deny { retry_after } if retry_after == wait => Ok(()),
        other => Err(format!("law 3: a wait of {wait} becomes {other:?} with a max_wait one microsecond shorter")),
    }
}

/// Law 5: what remains can be had, and not one more. (But no delay exceeds the horizon, which only a
/// shaped queue of a hundred days could ask for.)
fn remaining_is_true(after: &Gate, decision: &Decision) -> Result<(), String> {
    if decision.rules.iter().any(|rule| rule.reset_after > after.policy.horizon()) {
        return Ok(());
    }
    let remaining = decision.rules.iter().map(|rule| rule.remaining).min().unwrap_or(0);
    let take = |cost| after.would((cost, Take::now()), after.now).is_allowed();
    // Where nothing remains, a look is refused by rules that count refused requests.
    let had = take(remaining) || (remaining == 0 && after.policy.counts_refused());
    match (had, take(remaining + 1)) {
        (true, false) => Ok(()),
        (had, more) => Err(format!("law 5: {remaining} remain; taking them: {had}; one more: {more}")),
    }
}

/// Law 6: asking for less is never harder.
fn less_is_not_harder(before: &Gate, (cost, take): (u64, Take), verdict: Verdict, chance: u64) -> Result<(), String> {
    if cost == 0 {
        return Ok(());
    }
    let less = (chance % cost, take);
    let easier = before.would(less, before.now).verdict;
    if hardness(easier) <= hardness(verdict) { Ok(()) } else { Err(format!("law 6: for {less:?}, {easier:?}")) }
}

fn hardness(verdict: Verdict) -> (u8, Span) {
    match verdict {
        Verdict::Allow { wait } => (0, wait),
        Verdict::Deny { retry_after } => (1, retry_after),
        Verdict::Never => (2, Span::ZERO),
    }
}

/// Law 10: no request is admitted before an earlier reservation.
fn line_is_kept(admitted: &[Flow], goes: Timestamp, cost: u64, allowed: bool) -> Result<(), String> {
    match admitted.last() {
        Some(last) if allowed && cost > 0 && goes.as_micros() < last.at => {
            Err(format!("law 10: goes at {} before {}", goes.as_micros(), last.at))
        }
        _ => Ok(()),
    }
}

macro_rules! lawful {
    ($($name:ident: $kind:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            keeps_the_laws(stringify!($name), |_| vec![Kind::$kind]);
        }
    )*};
}

lawful! {
    the_token_bucket_keeps_the_laws: TokenBucket,
    a_rounded_bucket_keeps_the_laws: Rounded,
    a_rounded_shaped_bucket_keeps_the_laws: RoundedShaped,
    the_stepwise_bucket_keeps_the_laws: Stepwise,
    the_leaky_meter_keeps_the_laws: Leaky,
    the_shaped_bucket_keeps_the_laws: Shaped,
    the_window_of_the_epoch_keeps_the_laws: Epoch,
    the_window_of_the_first_request_keeps_the_laws: FirstRequest,
    the_calendar_window_keeps_the_laws: Calendar,
    the_sliding_log_keeps_the_laws: Log,
    the_sliding_counter_keeps_the_laws: Counter,
    concurrency_keeps_the_laws: Concurrency,
}

#[test]
fn rules_together_keep_the_laws() {
    keeps_the_laws("together", |seed| {
        let mut random = Random::new(seed ^ 0x5EED);
        (0..random.between(2, 3)).map(|_| random.pick(&Kind::ALL)).collect()
    });
}
