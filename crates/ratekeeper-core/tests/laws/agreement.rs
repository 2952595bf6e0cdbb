//! Law 11: the core and the naive oracle agree on every field, for every algorithm.

use ratekeeper_core::{
    Decision, LeaseId, Quota, Rule, RuleDecision, Span, Take, Timestamp, Verb,
    algorithm::{Meter, State},
    store_api::Step,
};
use ratekeeper_testkit::{
    gate::Gate,
    oracle::{Oracle, OracleDecision},
    random::{Kind, Random},
};

use crate::episode::{Episode, play};

fn agrees(name: &str, kinds_of: impl Fn(u64) -> Vec<Kind>) {
    agrees_for(name, 1, kinds_of);
}

/// In a share of the steps.
fn agrees_for(name: &str, share: u64, kinds_of: impl Fn(u64) -> Vec<Kind>) {
    play(name, share, |seed| {
        let mut episode = Episode::new(seed, &kinds_of(seed));
        let mut oracle = Oracle::new(&episode.rules, episode.gate.policy.horizon());
        for _ in 0..episode.length {
            let (cost, take) = episode.next();
            if episode.gate.now > LAST {
                break; // a year's pauses lead beyond the times that are decided
            }
            let expected = oracle.take(cost, &take, episode.gate.now);
            let found = episode.gate.step((cost, take));
            if answer_of(&found) != expected {
                panic!("{}\ncore   {found:?}\noracle {expected:?}", episode.story());
            }
            episode.note_wait(
                found.decision.verdict.retry_after_span().map(|retry| retry.max(found.decision.verdict.wait())),
            );
        }
        episode.length
    });
}

fn answer_of(step: &Step) -> OracleDecision {
    let decision = &step.decision;
    let rule = |rule: &RuleDecision| (rule.verdict, rule.limit, rule.remaining, rule.reset_after);
    let rules = decision.rules.iter().map(rule).collect();
    OracleDecision { verdict: decision.verdict, decided_by: decision.decided_by, rules, changed: step.changed }
}

macro_rules! agreement {
    ($($name:ident: $kind:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            agrees(stringify!($name), |_| vec![Kind::$kind]);
        }
    )*};
}

agreement! {
    the_token_bucket_agrees_with_the_oracle: TokenBucket,
    a_rounded_bucket_agrees_with_the_oracle: Rounded,
    a_rounded_shaped_bucket_agrees_with_the_oracle: RoundedShaped,
    the_stepwise_bucket_agrees_with_the_oracle: Stepwise,
    the_leaky_meter_agrees_with_the_oracle: Leaky,
    the_shaped_bucket_agrees_with_the_oracle: Shaped,
    the_window_of_the_epoch_agrees_with_the_oracle: Epoch,
    the_window_of_the_first_request_agrees_with_the_oracle: FirstRequest,
    the_calendar_window_agrees_with_the_oracle: Calendar,
    the_sliding_log_agrees_with_the_oracle: Log,
    the_sliding_counter_agrees_with_the_oracle: Counter,
    concurrency_agrees_with_the_oracle: Concurrency,
}

/// The oracle asks `jiff` for every date, so there are fewer steps.
#[test]
fn the_window_of_a_time_zone_agrees_with_the_oracle() {
    agrees_for("time zone", 20, |_| vec![Kind::Local]);
}

/// Two or three rules of any kind, the same kind twice included.
#[test]
fn rules_together_agree_with_the_oracle() {
    agrees("together", |seed| {
        let mut random = Random::new(seed ^ 0x5EED);
        (0..random.between(2, 3)).map(|_| random.pick(&Kind::ALL)).collect()
    });
}

/// Leases are taken, released and renewed. A heartbeat extends nothing while there are waiters.
#[test]
fn holders_agree_with_the_oracle() {
    play("holders", 1, |seed| {
        let mut episode = Episode::new(seed, &[Kind::Concurrency]);
        let mut oracle = Oracle::new(&episode.rules, episode.gate.policy.horizon());
        let mut waited_for = Timestamp::EPOCH;
        for holder in 0..episode.length {
            let (cost, take) = episode.next();
            let take = take.with_lease(LeaseId(holder));
            let now = episode.gate.now;
            let lease = LeaseId(holder.saturating_sub(episode.random.below(6)));
            if episode.random.one_in(4) {
                let _ = episode.gate.release(lease.0);
                oracle.release(lease, now);
            } else if episode.random.one_in(4) && waited_for <= now {
                let _ = episode.gate.ask(Verb::Heartbeat(lease));
                oracle.heartbeat(lease, now);
            }
            let expected = oracle.take(cost, &take, now);
            let found = episode.gate.step((cost, take));
            if answer_of(&found) != expected {
                panic!("{}\ncore   {found:?}\noracle {expected:?}", episode.story());
            }
            waited_for = waited_for.max(now + found.decision.verdict.wait());
        }
        episode.length
    });
}

/// The fast path for one rule with a meter equals the general path, also on a clock that steps back.
#[test]
fn the_short_way_answers_as_the_long_way() {
    let meters = [
        Kind::TokenBucket,
        Kind::Rounded,
        Kind::Stepwise,
        Kind::Leaky,
        Kind::Shaped,
        Kind::Epoch,
        Kind::FirstRequest,
        Kind::Calendar,
    ];
    play("short way", 1, |seed| {
        let kind = Random::new(seed ^ 0x5EED).pick(&meters);
        let mut episode = Episode::new(seed, &[kind]);
        let mut meter = Meter::default();
        for _ in 0..episode.length {
            if episode.random.one_in(8) {
                let step = Span::from_micros(episode.random.below(Span::DAY.as_micros()));
                episode.gate.turn_back(step);
            }
            let (cost, take) = episode.next();
            let short = episode.gate.policy.take_metered(&mut meter, cost, &take, episode.gate.now).expect("a meter");
            let long = episode.gate.step((cost, take));
            let goes = episode.gate.now + long.decision.verdict.wait();
            // A look that would have to wait reserves nothing.
            let reserves = long.decision.is_allowed() && cost > 0 && goes > episode.gate.now;
            let promised = reserves.then_some(goes);
            let same = Decision::of_one(short.rule, episode.gate.now) == long.decision
                && (short.changed, short.promised) == (long.changed, promised)
                && State::Meter(meter) == episode.gate.key_state.states[0];
            assert!(same, "{}\nshort {short:?}\nlong  {long:?}", episode.story());
        }
        episode.length
    });
}

/// The fast path is not used for several rules, a shadow rule, or a state that is a list.
#[test]
fn the_short_way_is_for_one_enforcing_meter_only() {
    let quota = Quota::per_second(1);
    let bucket = || Rule::token_bucket("bucket", quota);
    let others = [
        vec![bucket(), Rule::fixed_window("window", quota)],
        vec![bucket().shadow(true)],
        vec![Rule::sliding_log("log", quota)],
        vec![Rule::sliding_counter("counter", quota)],
        vec![Rule::concurrency("holders", 1, std::time::Duration::from_secs(1))],
    ];
    for rules in others {
        let gate = Gate::of(rules);
        assert!(gate.policy.take_metered(&mut Meter::default(), 1, &Take::now(), gate.now).is_none());
    }
}

/// A few years before the latest time.
const LAST: Timestamp = Timestamp::from_secs(4_400_000_000);
