//! The scene behind an allowance of the checker: refunds with and without a time, of one sliding counter, without any
//! holder.
//!
//! ```text
//!   −5 ms  A is taken
//!    1     U is taken
//!    2     A is refunded without a time: the latest charge is removed, that of U
//!    5     V is taken, in the slice of U
//!    6     U is refunded with its time: the charge of its slice is removed, that of V
//!  104     the charge of A has left, so all 10 permits are granted: 11 in 100 ms with V
//! ```
//!
//! So a refund without a time may cost one permit later, as the algorithm defines it. The checker therefore counts all
//! refunds of such a key from the time at which they are carried out.

use ratekeeper_core::{Policy, Quota, Rule, Span, Take, Timestamp, Verb, store_api::KeyState};

use super::checker::{RefundedUse, Use, excess};

/// 10 ms before the times of the scene, so that none is negative.
const START: Timestamp = Timestamp::from_secs(1_700_000_000);

struct RefundScene {
    policy: Policy,
    state: KeyState,
    uses: Vec<Use>,
    refunds: Vec<RefundedUse>,
}

impl RefundScene {
    fn take(&mut self, ms: u64) -> bool {
        let store_at = START + Span::from_millis(ms);
        let step = self.policy.decide(&mut self.state, 1, &Verb::Take(Take::now()), store_at);
        let is_allowed = step.decision.is_allowed();
        if is_allowed {
            let order = self.uses.len() + self.refunds.len();
            self.uses.push(Use { at: ms * 1_000, store_at, order, permits: 1 });
        }
        is_allowed
    }

    fn refund(&mut self, of: usize, is_dated: bool, ms: u64) {
        let store_at = START + Span::from_millis(ms);
        let at = is_dated.then(|| self.uses[of].store_at);
        let _ = self.policy.decide(&mut self.state, 1, &Verb::Refund { at }, store_at);
        let order = self.uses.len() + self.refunds.len();
        self.refunds.push(RefundedUse { at: ms * 1_000, store_at, order, permits: 1, of, is_dated });
    }
}

#[test]
fn a_refund_without_a_time_may_cost_a_permit_without_holders() {
    let rule = Rule::sliding_counter("r", Quota::per_micros(10, Span::from_millis(100)));
    let policy = Policy::new("p", [rule]).unwrap();
    let mut scene = RefundScene { state: policy.fresh(), policy, uses: Vec::new(), refunds: Vec::new() };
    assert!(scene.take(5));
    assert!(scene.take(11));
    scene.refund(0, false, 12);
    assert!(scene.take(15));
    scene.refund(1, true, 16);
    while scene.take(114) {}
    assert_eq!(scene.uses.len(), 13, "A, U, V and the whole limit");
    let algorithm = scene.policy.rules()[0].algorithm();
    assert_eq!(excess(algorithm, &scene.uses[2..], &[]), 1, "V and what was taken after it");
    assert_eq!(excess(algorithm, &scene.uses, &scene.refunds), 0, "with the allowance");
}
