//! Laws 3, 4, 5, 6, 8 and 10, asked of every answer on the way; and law 1 of every episode when it is over.

use tollgate_core::{Decision, Micros, Take, Verb, Verdict};
use tollgate_testkit::{
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
            let take = episode.next();
            let before = episode.gate.clone();
            let step = episode.gate.step(Verb::Take(take));
            let decision = &step.decision;
            let kept = answer_is_lawful(&before, &episode.gate, &take, decision.verdict)
                .and_then(|()| remaining_is_true(&episode.gate, decision))
                .and_then(|()| less_is_not_harder(&before, &take, decision.verdict, episode.random.bits()))
                .and_then(|()| {
                    line_is_kept(&admitted, episode.gate.now + decision.wait(), &take, decision.is_allowed())
                });
            if let Err(breach) = kept {
                panic!("{breach}\n{}\n{step:?}", episode.story());
            }
            for rule in decision.rules.iter() {
                assert!(rule.remaining <= rule.limit, "law 5: {}\n{step:?}", episode.story());
            }
            if decision.is_allowed() && take.cost > 0 {
                let at = episode.gate.now + decision.wait();
                admitted.push(Flow { at: at.0, permits: take.cost.into() });
            }
            episode.told(decision.retry_after().map(|retry| retry.max(decision.wait())));
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
fn answer_is_lawful(before: &Gate, after: &Gate, take: &Take, verdict: Verdict) -> Result<(), String> {
    let limits = || before.policy.rules().iter().map(|rule| rule.rule().quota().burst_or_limit());
    let outweighs = limits().any(|limit| take.cost > limit);
    if (verdict == Verdict::Never) != outweighs {
        return Err(format!("law 8: {verdict:?} for {} of {:?}", take.cost, limits().collect::<Vec<_>>()));
    }
    if !matches!(verdict, Verdict::Allow { .. }) && before.subject != after.subject && !before.policy.counts_refused() {
        return Err("law 4: a denial changed the key".into());
    }
    match verdict {
        // Nothing has changed, unless the refusal was counted: then what was told is to be true of the state it left.
        Verdict::Deny { retry_after } => retry_is_exact(after, take, retry_after),
        Verdict::Allow { wait } if take.whole_wait => wait_is_exact(before, take, wait),
        _ => Ok(()),
    }
}

/// Whoever comes back exactly as told gets in; a microsecond sooner does not do.
fn retry_is_exact(before: &Gate, take: &Take, retry_after: Micros) -> Result<(), String> {
    let at_once = Verb::Take(Take { max_wait: Micros::ZERO, ..*take });
    if retry_after == Micros::ZERO {
        return Err("law 3: denied, and told to come back at once".into());
    }
    if !before.would(at_once, before.now + retry_after).is_allowed() {
        return Err("law 3: came back as told and was denied".into());
    }
    if before.would(at_once, before.now + retry_after - Micros(1)).is_allowed() {
        return Err("law 3: told to wait longer than needed".into());
    }
    Ok(())
}

/// A reservation is for the first moment there is: with less patience it would have been refused and told as much.
fn wait_is_exact(before: &Gate, take: &Take, wait: Micros) -> Result<(), String> {
    if wait > take.max_wait {
        return Err("law 3: told to wait beyond the caller's patience".into());
    }
    if wait == Micros::ZERO {
        return Ok(());
    }
    if before.policy.counts_refused() {
        return Ok(()); // the hastier one would be counted, and told of that
    }
    let hastier = Verb::Take(Take { max_wait: wait - Micros(1), ..*take });
    match before.would(hastier, before.now).verdict {
        Verdict::Deny { retry_after } if retry_after == wait => Ok(()),
        other => Err(format!("law 3: a wait of {wait} becomes {other:?} with a microsecond less patience")),
    }
}

/// Law 5: what remains can be had, and not one more. (But nobody is told a delay beyond the horizon, which only a
/// shaped queue of a hundred days could ask for.)
fn remaining_is_true(after: &Gate, decision: &Decision) -> Result<(), String> {
    if decision.rules.iter().any(|rule| rule.reset_after > after.policy.horizon()) {
        return Ok(());
    }
    let remaining = decision.rules.iter().map(|rule| rule.remaining).min().unwrap_or(0);
    let take = |cost| after.would(Verb::Take(Take::now(cost)), after.now).is_allowed();
    // Where nothing remains, a look is refused by rules that count refused requests.
    let had = take(remaining) || (remaining == 0 && after.policy.counts_refused());
    match (had, take(remaining + 1)) {
        (true, false) => Ok(()),
        (had, more) => Err(format!("law 5: {remaining} remain; taking them: {had}; one more: {more}")),
    }
}

/// Law 6: asking for less is never harder.
fn less_is_not_harder(before: &Gate, take: &Take, verdict: Verdict, chance: u64) -> Result<(), String> {
    if take.cost == 0 {
        return Ok(());
    }
    let less = Verb::Take(Take { cost: chance % take.cost, ..*take });
    let easier = before.would(less, before.now).verdict;
    if hardness(easier) <= hardness(verdict) { Ok(()) } else { Err(format!("law 6: for {less:?}, {easier:?}")) }
}

fn hardness(verdict: Verdict) -> (u8, Micros) {
    match verdict {
        Verdict::Allow { wait } => (0, wait),
        Verdict::Deny { retry_after } => (1, retry_after),
        Verdict::Never => (2, Micros::ZERO),
    }
}

/// Law 10: nobody goes before anybody who came first.
fn line_is_kept(admitted: &[Flow], goes: Micros, take: &Take, allowed: bool) -> Result<(), String> {
    match admitted.last() {
        Some(last) if allowed && take.cost > 0 && goes.0 < last.at => {
            Err(format!("law 10: goes at {} before {}", goes.0, last.at))
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
