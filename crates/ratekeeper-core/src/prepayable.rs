//! Which policies can be prepaid, and how often their holders call.

use crate::{
    algorithm::{Algorithm, AnyAlgorithm, Schedule},
    policy::Policy,
    speed::{MIN_TURN, Prepaid, Speed},
    time::Span,
};

impl Policy {
    /// The position of the first rule that cannot be prepaid, with the reason; `None` if all can.
    pub fn not_prepayable(&self) -> Option<(usize, &'static str)> {
        self.rules().iter().enumerate().find_map(|(index, rule)| {
            let reason = match rule.algorithm() {
                AnyAlgorithm::Leases(_) => "a concurrency rule has leases, not permits",
                AnyAlgorithm::Bucket(bucket) if bucket.is_shaped() => "a shaped rule spaces its requests",
                AnyAlgorithm::Window(window) if matches!(window.schedule(), Schedule::Local(_)) => {
                    "windows of a time zone are sent with each call"
                }
                AnyAlgorithm::AutoBlock(_) => "denials have to reach the store to be counted",
                _ if rule.counts_refused() => "refused requests have to reach the store to be counted",
                _ => return None,
            };
            Some((index, reason))
        })
    }

    /// The turn of a prepaid key: the shortest that its enforced rules allow, at most `longest`.
    pub fn turn(&self, longest: Span) -> Span {
        let enforced = self.rules().iter().filter(|rule| !rule.is_shadow());
        enforced.fold(longest, |turn, rule| turn.min(rule.algorithm().turn()))
    }

    /// The prepaid numbers, if the policy is prepaid and its rules allow it.
    pub fn prepaid(&self) -> Option<Prepaid> {
        let Speed::Prepaid(prepaid) = self.speed() else { return None };
        let is_possible = self.not_prepayable().is_none()
            && self.rules().iter().any(|rule| !rule.is_shadow())
            && self.turn(prepaid.turn) >= MIN_TURN;
        is_possible.then_some(prepaid)
    }
}
