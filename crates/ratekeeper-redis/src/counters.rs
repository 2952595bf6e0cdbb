//! Counters of the store and its link.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Defines the live counters and their snapshot.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Live counters, written concurrently.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Count,)*
        }

        /// A snapshot of the counters, since the store was opened.
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// All counts. Each is exact; together they may be a few events apart.
            pub(crate) fn snapshot(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Decisions made by the server.
    decided_by_store,
    /// Calls that decided several requests of one key.
    merged_calls,
    /// Requests decided by those calls.
    merged_requests,
    /// Calls that decided one request, of whatever verb.
    single_calls,
    /// Calls of a holder: reports, returns and grants of allotments, with the requests that waited for them.
    allotment_calls,
    /// Requests admitted by an allotment, without a call.
    decided_by_allotment,
    /// Requests denied by a remembered denial, without a call.
    cached_denials,
    /// Permits granted to this process in advance: the sum of the next five.
    allotment_granted,
    /// Of those, permits that were used.
    allotment_used,
    /// Permits that were returned.
    allotment_returned,
    /// Permits that were not used before they ended.
    allotment_expired,
    /// Permits that the store had ended already when it was asked.
    allotment_lost,
    /// Permits held now: a gauge.
    allotment_held,
    /// Keys with held permits: a gauge.
    allotment_holders,
    /// Grants that were smaller than asked for.
    allotment_short,
    /// Allotment calls that a later call of the same holder had overtaken.
    allotment_overtaken,
    /// Allotments of this process that the store did not know although they had not ended: its state was lost.
    allotment_unknown,
    /// Decisions by the local share, because the server did not decide.
    decided_locally,
    /// Keys with uncharged local grants: a gauge.
    local_keys_owing,
    /// Those grants: a gauge.
    local_grants_owing,
    /// Local grants that the store has been charged for.
    local_grants_charged,
    /// Charges for local grants that were sent.
    local_charges_sent,
    /// Requests refused because `local_bytes` had no room to record another local grant.
    local_no_room,
    /// Grants of the store that were decided again by the share, because this process granted permits of the same key
    /// meanwhile.
    raced_grants,
    /// Requests allowed by `on_store_failure: open`.
    let_through,
    /// Requests refused by `on_store_failure: closed`.
    turned_away,
    /// Stored values that could not be read: foreign, truncated, or of unknown rules.
    foreign_states,
    /// Requests of unknown outcome: their call was possibly sent, and not answered. No call was sent again.
    ambiguous_calls,
    /// Deadlines that passed without a reply of the store.
    silent_store,
    /// Deadlines that passed while this process was delayed: its timer fired late, so nothing is known about the store.
    silent_by_own_delay,
    /// Replies that arrived in time and were read after the deadline, because this process was delayed.
    replies_read_late,
    /// Circuit breakers that opened.
    breaker_opened,
    /// Circuit breakers that closed.
    breaker_closed,
    /// Scripts sent in full because the server had not cached them.
    script_reloads,
    /// `MOVED` and `ASK` followed.
    redirects_followed,
    /// Connections opened after an earlier one was lost.
    reconnects,
    /// Connection attempts that failed.
    dials_failed,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds one.
    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Adds `count`.
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
