//! Giving back breaks no promise.
//!
//! Permits are refunded and reservations cancelled at random, and then it is counted what really went: what was
//! cancelled never did. A log, a counter or a window forgets a returned permit where it was; a bucket gains a token at
//! the moment it is returned, no earlier and no later.

use tollgate_core::{Algorithm, Micros, Refill, Rule, Verb};
use tollgate_testkit::{
    gate::Gate,
    random::{Kind, Random},
};

use crate::{
    bounds::{Flow, within_bound},
    episode::{Episode, play},
};

/// One in so many of the steps that the agreement takes.
const SHARE: u64 = 4;

/// Permits admitted and perhaps given back since.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    at: Micros,
    cost: u64,
    /// Given back after they were due, when nobody was waiting: when, and after how many admissions.
    returned: Option<(Micros, usize)>,
    /// Never went: cancelled, or told to be unused.
    unused: bool,
}

fn no_promise_is_broken(name: &str, kinds_of: impl Fn(u64) -> Vec<Kind>) {
    play(name, SHARE, |seed| {
        let mut episode = Episode::new(seed, &kinds_of(seed));
        let mut admitted: Vec<Admitted> = Vec::new();
        for _ in 0..episode.length {
            let take = episode.next();
            let now = episode.gate.now;
            if episode.random.one_in(3) && !admitted.is_empty() {
                let chosen = episode.random.below(admitted.len() as u64);
                let given_back = give_back(&mut episode.gate, &mut admitted, usize::try_from(chosen).unwrap());
                episode.note(format!("before that, gave back {given_back:?}"));
            }
            let decision = episode.gate.ask(Verb::Take(take));
            episode.note(format!("{:?}", decision.verdict));
            if decision.is_allowed() && take.cost > 0 {
                let at = now + decision.wait();
                admitted.push(Admitted { at, cost: take.cost, returned: None, unused: false });
            }
        }
        for rule in &episode.rules {
            if let Err(breach) = within_bound(rule, &flows(rule, &admitted)) {
                panic!("{breach}\n{}", episode.story());
            }
        }
        episode.length
    });
}

/// Cancels a reservation, or refunds what went already. Each only once.
fn give_back(gate: &mut Gate, admitted: &mut [Admitted], chosen: usize) -> Option<Admitted> {
    let now = gate.now;
    let admissions = admitted.len();
    let waiting = admitted.iter().any(|other| !other.unused && other.at > now);
    let chosen = &mut admitted[chosen];
    if chosen.unused {
        return None;
    }
    let _ = gate.refund(chosen.cost, Some(chosen.at));
    chosen.unused = true;
    // While somebody waits, a bucket returns nothing but the last in line.
    chosen.returned = (chosen.at <= now && !waiting).then_some((now, admissions));
    Some(*chosen)
}

/// What a rule is to be judged by.
fn flows(rule: &Rule, admitted: &[Admitted]) -> Vec<Flow> {
    let refills = matches!(
        rule.algorithm(),
        Algorithm::TokenBucket { refill: Refill::Continuous | Refill::Stepwise } | Algorithm::LeakyBucket { .. }
    );
    let mut flows = Vec::new();
    for (order, &Admitted { at, cost, returned, unused }) in admitted.iter().enumerate() {
        let permits = i128::from(cost);
        match returned {
            // It cannot be told from the level whether the permit had dripped back already.
            Some((returned_at, after)) if refills => {
                flows.push((order, Flow { at: at.0, permits }));
                flows.push((after, Flow { at: returned_at.0, permits: -permits }));
            }
            _ if unused => {}
            _ => flows.push((order, Flow { at: at.0, permits })),
        }
    }
    // Within one moment, in the order it happened: what is given back comes before the admission that follows it.
    flows.sort_by_key(|(order, flow)| (flow.at, *order, flow.permits > 0));
    flows.into_iter().map(|(_, flow)| flow).collect()
}

macro_rules! promises {
    ($($name:ident: $kind:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            no_promise_is_broken(stringify!($name), |_| vec![Kind::$kind]);
        }
    )*};
}

promises! {
    giving_back_to_a_token_bucket_breaks_no_promise: TokenBucket,
    giving_back_to_a_stepwise_bucket_breaks_no_promise: Stepwise,
    giving_back_to_a_leaky_meter_breaks_no_promise: Leaky,
    giving_back_to_a_shaped_bucket_breaks_no_promise: Shaped,
    giving_back_to_an_epoch_window_breaks_no_promise: Epoch,
    giving_back_to_a_first_request_window_breaks_no_promise: FirstRequest,
    giving_back_to_a_calendar_window_breaks_no_promise: Calendar,
    giving_back_to_a_sliding_log_breaks_no_promise: Log,
    giving_back_to_a_sliding_counter_breaks_no_promise: Counter,
    giving_back_a_lease_breaks_no_promise: Concurrency,
}

#[test]
fn giving_back_to_several_rules_breaks_no_promise() {
    no_promise_is_broken("several", |seed| {
        let mut random = Random::new(seed ^ 0x5EED);
        (0..random.between(2, 3)).map(|_| random.pick(&Kind::ALL)).collect()
    });
}
