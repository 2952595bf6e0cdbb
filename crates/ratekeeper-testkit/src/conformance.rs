//! Conformance suite: what every store must decide, whatever its storage.
//!
//! The caller passes a store and a function that sets its clock; each check makes requests and compares every decision.
//! Each check has its own name and domain, so all of them can share one store, and each can be run alone. An embedded store
//! gets one test per check with [`store_conformance!`](crate::store_conformance):
//!
//! ```text
//! ratekeeper_testkit::store_conformance!({
//!     let clock = ManualClock::default();
//!     let store = MemoryStore::with_clock(clock.clone());
//!     (store, move |now| clock.set(now))
//! });
//! ```
//!
//! A store that needs a runtime calls [`run`] from inside it:
//!
//! ```text
//! conformance::run(&store, |now| clock.set(now)).await;
//! ```
//!
//! Clocks are only set forward, unless a check states otherwise.

mod change;
mod ids;
mod keys;
mod limits;
mod random_walk;
mod reservations;
mod variants;
mod verbs;

use std::cell::Cell;

use ratekeeper_core::{Ask, Decision, OnQuotaChange, Policy, Rule, Span, Store, StoreError, Take, Timestamp, Verb};

pub use self::variants::{run_inline_limits, variants_share_the_reset_time};
use crate::gate::{GateRequest, START};

/// A store under test, and the function that sets its clock.
pub struct Bench<'a, S, T> {
    store: &'a S,
    set_time: T,
    domain: &'static str,
    now: Cell<Timestamp>,
}

/// One key under one installed policy.
pub(crate) struct Key<'a, S: Store, T> {
    bench: &'a Bench<'a, S, T>,
    policy: S::Policy,
    key: String,
}

impl<'a, S: Store, T: Fn(Timestamp)> Bench<'a, S, T> {
    /// A bench for the check of this name, which is also the domain of its policies.
    pub fn new(store: &'a S, set_time: T, domain: &'static str) -> Self {
        let bench = Self { store, set_time, domain, now: Cell::new(START) };
        // If an earlier check left the store's clock ahead, this one starts from there.
        bench.set(store.now().max(START) + Span::DAY);
        bench
    }

    fn set(&self, now: Timestamp) {
        self.now.set(now);
        (self.set_time)(now);
    }

    fn now(&self) -> Timestamp {
        self.now.get()
    }

    fn advance(&self, span: Span) {
        self.set(self.now() + span);
    }

    fn policy(&self, name: &str, rules: impl IntoIterator<Item = Rule>) -> Policy {
        Policy::new(name, rules).unwrap().in_domain(self.domain).unwrap()
    }

    fn install(&self, policy: Policy, carry: OnQuotaChange) -> S::Policy {
        self.store.install(policy, carry).expect("the store accepts a valid policy")
    }

    /// A new key under a policy of these rules.
    fn key(&'a self, rules: impl IntoIterator<Item = Rule>) -> Key<'a, S, T> {
        let policy = self.install(self.policy("policy", rules), OnQuotaChange::Keep);
        self.key_under(policy, "key")
    }

    fn key_under(&'a self, policy: S::Policy, key: &str) -> Key<'a, S, T> {
        Key { bench: self, policy, key: key.to_owned() }
    }

    async fn decide(&self, asks: &[Ask<'_, S::Policy>], verb: Verb) -> Result<Decision, StoreError> {
        self.store.decide(asks, verb).await
    }
}

impl<S: Store, T: Fn(Timestamp)> Key<'_, S, T> {
    fn ask(&self) -> Ask<'_, S::Policy> {
        Ask::new(&self.policy, &self.key)
    }

    async fn verb(&self, request: impl Into<GateRequest>) -> Decision {
        let GateRequest { cost, verb } = request.into();
        let decision = self.bench.decide(&[self.ask().cost(cost)], verb).await;
        decision.unwrap_or_else(|error| panic!("{}: the store could not answer {verb:?}: {error}", self.bench.domain))
    }

    async fn take(&self, cost: u64) -> Decision {
        self.verb((cost, Take::now())).await
    }

    async fn take_within(&self, cost: u64, max_wait: Span) -> Decision {
        self.verb((cost, Take::within(max_wait))).await
    }

    async fn peek(&self) -> Decision {
        self.verb(Verb::Peek).await
    }

    async fn remaining(&self) -> u64 {
        self.peek().await.remaining()
    }
}

/// Passes the list of checks to another macro, so that it is written once.
#[doc(hidden)]
#[macro_export]
macro_rules! with_conformance_checks {
    ($then:path, $($before:tt)*) => {
        $then! { $($before)*
            limits: never_over_the_limit,
            limits: a_denial_changes_nothing,
            limits: retry_after_is_exact,
            limits: cost_above_the_limit_is_never,
            limits: a_drained_key_is_in_its_initial_state,
            limits: all_rules_or_none,
            limits: refused_requests_are_counted_where_a_rule_says_so,
            limits: a_look_needs_a_permit_where_refused_requests_are_counted,
            limits: the_stores_clock_decides,
            keys: several_keys_all_or_none,
            keys: several_keys_have_different_costs,
            keys: several_keys_count_a_refused_request,
            keys: several_keys_of_several_policies,
            keys: several_keys_wait_for_the_slowest,
            keys: keys_do_not_meet_across_policies_and_domains,
            keys: unusual_keys_are_distinct,
            keys: too_long_keys_are_refused,
            keys: only_a_take_is_for_several_keys,
            keys: one_key_named_twice_is_refused,
            reservations: reservations_are_first_come_first_served,
            reservations: a_wait_beyond_max_wait_reserves_nothing,
            reservations: only_the_last_reservation_is_returned,
            reservations: a_dropped_reservation_is_cancelled,
            verbs: a_peek_charges_nothing,
            verbs: a_refund_returns_and_never_lifts_above_full,
            verbs: a_settlement_corrects_the_estimate,
            verbs: a_penalty_is_charged_without_asking,
            verbs: a_block_refuses_until_it_ends,
            verbs: a_reset_forgets_everything,
            verbs: a_lease_is_released_renewed_and_ends,
            change: installing_again_keeps_what_is_used,
            change: installing_again_scales_what_is_used,
            change: installing_again_starts_afresh,
            change: installing_the_same_again_changes_nothing,
            change: a_raised_limit_leaves_other_keys_alone,
            change: an_old_handle_means_the_new_policy,
            ids: a_charged_id_is_charged_once,
            ids: a_refused_id_is_decided_anew,
            ids: an_id_ends_with_its_lifetime,
            ids: a_repeated_wait_is_reserved_once,
            ids: a_commit_settles_once,
            ids: a_cancel_refunds_once,
            ids: an_unknown_id_cannot_be_finished,
            ids: an_id_of_several_keys_is_charged_once,
            ids: an_unfinished_reservation_expires,
            ids: a_part_is_granted,
            ids: a_part_suits_all_keys,
            random_walk: a_random_walk_is_answered_as_the_core_answers,
        }
    };
}

macro_rules! define_run {
    ($($file:ident: $check:ident,)*) => {
        $(pub use $file::$check;)*

        /// Runs every check, one after another.
        pub async fn run<S: Store>(store: &S, set_time: impl Fn(Timestamp)) {
            $($check(&Bench::new(store, &set_time, stringify!($check))).await;)*
        }
    };
}

with_conformance_checks!(define_run,);

/// One test per check, each with a new store. Takes an expression that makes a store and the closure that sets
/// its clock.
#[macro_export]
macro_rules! store_conformance {
    ($make:expr) => {
        $crate::with_conformance_checks!($crate::store_conformance_tests, ($make););
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! store_conformance_tests {
    (($make:expr); $($file:ident: $check:ident,)*) => {$(
        #[test]
        fn $check() {
            let (store, set_time) = $make;
            let bench = $crate::conformance::Bench::new(&store, set_time, stringify!($check));
            $crate::block_on($crate::conformance::$check(&bench));
        }
    )*};
}
