//! What any store must answer, whatever it remembers in.
//!
//! A store is handed over together with a way to set its clock; the checks then tell stories to it and compare every
//! answer. Each check has a name and a domain of its own, so all of them can share one store, and each can be run
//! alone. A store in this process gets one test per check with [`store_conformance!`](crate::store_conformance):
//!
//! ```text
//! tollgate_testkit::store_conformance!({
//!     let clock = ManualClock::default();
//!     let store = MemoryStore::with_clock(clock.clone());
//!     (store, move |now| clock.set(now))
//! });
//! ```
//!
//! A store that needs a runtime calls [`run`] from inside it:
//!
//! ```text
//! conformance::run(&store, |now| store.pretend_it_is(now)).await;
//! ```
//!
//! Clocks are only ever set forward, except where a check says otherwise.

mod change;
mod keys;
mod limits;
mod line;
mod verbs;
mod walk;

use std::cell::Cell;

use tollgate_core::{Ask, Carry, Decision, Micros, Policy, Rule, Store, StoreError, Take, Verb};

use crate::gate::START;

/// A store under test, and the hand on its clock.
pub struct Bench<'a, S, T> {
    store: &'a S,
    set_time: T,
    domain: &'static str,
    now: Cell<Micros>,
}

/// One key under one installed policy.
pub(crate) struct Key<'a, S: Store, T> {
    bench: &'a Bench<'a, S, T>,
    policy: S::Policy,
    key: String,
}

impl<'a, S: Store, T: Fn(Micros)> Bench<'a, S, T> {
    /// A bench for the check of this name, which is also the domain of its policies.
    pub fn new(store: &'a S, set_time: T, domain: &'static str) -> Self {
        let bench = Self { store, set_time, domain, now: Cell::new(START) };
        // A store whose clock was left ahead by an earlier check goes on from there.
        bench.set(store.now().max(START) + Micros::DAY);
        bench
    }

    fn set(&self, now: Micros) {
        self.now.set(now);
        (self.set_time)(now);
    }

    fn now(&self) -> Micros {
        self.now.get()
    }

    fn advance(&self, span: Micros) {
        self.set(self.now() + span);
    }

    fn policy(&self, name: &str, rules: impl IntoIterator<Item = Rule>) -> Policy {
        Policy::new(name, rules).unwrap().in_domain(self.domain).unwrap()
    }

    fn install(&self, policy: Policy, carry: Carry) -> S::Policy {
        self.store.install(policy, carry).expect("the store takes a sound policy")
    }

    /// A key of its own under a policy of these rules.
    fn key(&'a self, rules: impl IntoIterator<Item = Rule>) -> Key<'a, S, T> {
        let policy = self.install(self.policy("policy", rules), Carry::Keep);
        self.key_under(policy, "key")
    }

    fn key_under(&'a self, policy: S::Policy, key: &str) -> Key<'a, S, T> {
        Key { bench: self, policy, key: key.to_owned() }
    }

    async fn decide(&self, asks: &[Ask<'_, S::Policy>], verb: Verb) -> Result<Decision, StoreError> {
        self.store.decide(asks, verb).await
    }
}

impl<S: Store, T: Fn(Micros)> Key<'_, S, T> {
    fn ask(&self) -> Ask<'_, S::Policy> {
        Ask::new(&self.policy, &self.key)
    }

    async fn verb(&self, verb: Verb) -> Decision {
        let told = self.bench.decide(&[self.ask()], verb).await;
        told.unwrap_or_else(|error| panic!("{}: the store could not answer {verb:?}: {error}", self.bench.domain))
    }

    async fn take(&self, cost: u64) -> Decision {
        self.verb(Verb::Take(Take::now(cost))).await
    }

    async fn take_within(&self, cost: u64, max_wait: Micros) -> Decision {
        self.verb(Verb::Take(Take::within(cost, max_wait))).await
    }

    async fn peek(&self) -> Decision {
        self.verb(Verb::Peek).await
    }

    async fn remaining(&self) -> u64 {
        self.peek().await.remaining()
    }
}

/// Hands the list of checks to another macro, so that it is written down once.
#[doc(hidden)]
#[macro_export]
macro_rules! with_conformance_checks {
    ($then:path, $($before:tt)*) => {
        $then! { $($before)*
            limits: never_over_the_limit,
            limits: a_denial_changes_nothing,
            limits: retry_after_is_exact,
            limits: cost_above_the_limit_is_never,
            limits: a_rested_key_is_as_good_as_new,
            limits: all_rules_or_none,
            limits: refused_requests_are_counted_where_a_rule_says_so,
            limits: a_look_needs_a_permit_where_refused_requests_are_counted,
            limits: the_stores_clock_decides,
            keys: several_keys_all_or_none,
            keys: several_keys_bear_different_parts,
            keys: several_keys_count_a_refused_request,
            keys: several_keys_of_several_policies,
            keys: several_keys_wait_for_the_slowest,
            keys: keys_do_not_meet_across_policies_and_domains,
            keys: odd_keys_are_told_apart,
            keys: too_long_keys_are_refused,
            keys: only_a_take_is_for_several_keys,
            keys: one_key_named_twice_is_refused,
            line: reservations_are_first_come_first_served,
            line: a_wait_beyond_patience_reserves_nothing,
            line: only_the_last_in_line_is_returned,
            line: a_dropped_reservation_is_cancelled,
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
            change: an_old_handle_stands_for_the_new_policy,
            change: quotas_beside_each_other_share_a_keys_moment,
            walk: a_random_walk_is_answered_as_the_core_answers,
        }
    };
}

macro_rules! define_run {
    ($($file:ident: $check:ident,)*) => {
        $(pub use $file::$check;)*

        /// Runs every check, one after another.
        pub async fn run<S: Store>(store: &S, set_time: impl Fn(Micros)) {
            $($check(&Bench::new(store, &set_time, stringify!($check))).await;)*
        }
    };
}

with_conformance_checks!(define_run,);

/// One test per check, each with a store of its own. Takes an expression that makes a store and the closure that sets
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
