//! Refunds and reservations: a refund never breaks a reservation.
//!
//! Permits are refunded and reservations cancelled at random, and the admissions that remain are checked against the
//! bounds. A log, a counter or a window removes a returned permit from its time; a bucket gains a token at the time of
//! the refund.

use ratekeeper_core::{AlgorithmSpec, Refill, Rule, Timestamp};
use ratekeeper_testkit::{
    gate::Gate,
    random::{Kind, Random},
};

use crate::{
    bounds::{Flow, within_bound},
    episode::{Episode, play},
};

/// One in so many of the steps that the agreement takes.
const SHARE: u64 = 4;

/// Permits admitted, and refunded or not.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    at: Timestamp,
    cost: u64,
    /// Refunded after they were due, without waiters: when, and after how many admissions.
    returned: Option<(Timestamp, usize)>,
    /// Never used: cancelled, or settled as unused.
    unused: bool,
}

fn no_promise_is_broken(name: &str, kinds_of: impl Fn(u64) -> Vec<Kind>) {
    play(name, SHARE, |seed| {
        let mut episode = Episode::new(seed, &kinds_of(seed));
        let mut admitted: Vec<Admitted> = Vec::new();
        for _ in 0..episode.length {
            let (cost, take) = episode.next();
            let now = episode.gate.now;
            if episode.random.one_in(3) && !admitted.is_empty() {
                let chosen = episode.random.below(admitted.len() as u64);
                let given_back = give_back(&mut episode.gate, &mut admitted, usize::try_from(chosen).unwrap());
                episode.note(format!("before that, gave back {given_back:?}"));
            }
            let decision = episode.gate.ask((cost, take));
            episode.note(format!("{:?}", decision.verdict));
            if decision.is_allowed() && cost > 0 {
                let at = now + decision.verdict.wait();
                admitted.push(Admitted { at, cost, returned: None, unused: false });
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
    // While there are waiters, a bucket refunds only the last of them.
    chosen.returned = (chosen.at <= now && !waiting).then_some((now, admissions));
    Some(*chosen)
}

/// What a rule is to be judged by.
fn flows(rule: &Rule, admitted: &[Admitted]) -> Vec<Flow> {
    let refills = matches!(
        rule.algorithm(),
        AlgorithmSpec::TokenBucket { refill: Refill::Continuous | Refill::Stepwise }
            | AlgorithmSpec::LeakyBucket { .. }
    );
    let mut flows = Vec::new();
    for (order, &Admitted { at, cost, returned, unused }) in admitted.iter().enumerate() {
        let permits = i128::from(cost);
        match returned {
            // The level does not show whether the permit had been refilled already.
            Some((returned_at, after)) if refills => {
                flows.push((order, Flow { at: at.as_micros(), permits }));
                flows.push((after, Flow { at: returned_at.as_micros(), permits: -permits }));
            }
            _ if unused => {}
            _ => flows.push((order, Flow { at: at.as_micros(), permits })),
        }
    }
    // At one time, in order: a refund comes before the admission that follows it.
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
    a_refund_to_a_token_bucket_breaks_no_reservation: TokenBucket,
    a_refund_to_a_rounded_bucket_breaks_no_reservation: Rounded,
    a_refund_to_a_rounded_shaped_bucket_breaks_no_reservation: RoundedShaped,
    a_refund_to_a_stepwise_bucket_breaks_no_reservation: Stepwise,
    a_refund_to_a_leaky_meter_breaks_no_reservation: Leaky,
    a_refund_to_a_shaped_bucket_breaks_no_reservation: Shaped,
    a_refund_to_an_epoch_window_breaks_no_reservation: Epoch,
    a_refund_to_a_first_request_window_breaks_no_reservation: FirstRequest,
    a_refund_to_a_calendar_window_breaks_no_reservation: Calendar,
    a_refund_to_a_sliding_log_breaks_no_reservation: Log,
    a_refund_to_a_sliding_counter_breaks_no_reservation: Counter,
    a_returned_lease_breaks_no_reservation: Concurrency,
}

#[test]
fn giving_back_to_several_rules_breaks_no_promise() {
    no_promise_is_broken("several", |seed| {
        let mut random = Random::new(seed ^ 0x5EED);
        (0..random.between(2, 3)).map(|_| random.pick(&Kind::ALL)).collect()
    });
}
