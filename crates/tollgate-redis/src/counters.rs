//! What happened on the way to the server, counted. Books that must balance start here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Plain counts since the start, written by everyone and read now and then.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The counts, live.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Count,)*
        }

        /// The counts at one moment.
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// All counts as of now. Each is right; together they may be a few events apart.
            pub(crate) fn snapshot(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Decisions made by the server.
    decided_by_store,
    /// Decisions made here, by the local share, because the server could not answer.
    decided_locally,
    /// Keys with local grants that the store has not been charged for yet: a gauge.
    local_keys_owing,
    /// Those grants: a gauge.
    local_grants_owing,
    /// Local grants that the store was charged for afterwards.
    local_grants_charged,
    /// Charges for local grants that were sent.
    local_charges_sent,
    /// Requests refused because `local_bytes` had no room to note another local grant.
    local_no_room,
    /// Grants of the store that were decided again here, because the same key was granted permits locally meanwhile.
    raced_grants,
    /// Requests let through because the server could not answer.
    let_through,
    /// Requests turned away because the server could not answer.
    turned_away,
    /// Stored states that were not ours to read: foreign, cut short, or of another version.
    foreign_states,
    /// Calls whose fate is unknown: sent, perhaps, and never answered. None of them was sent again.
    ambiguous_calls,
    /// Deadlines that passed because the store was silent.
    silent_store,
    /// Deadlines that passed while this process was held up itself: its timer fired late, so nothing is known of the store.
    silent_by_own_delay,
    /// Replies that had arrived in time, and were read after the deadline because this process was held up.
    replies_read_late,
    /// Breakers that opened: a node was found sick.
    breaker_opened,
    /// Breakers that closed: a node was found well again.
    breaker_closed,
    /// Scripts sent in full because the server did not know them (any more).
    script_reloads,
    /// `MOVED` and `ASK` followed.
    redirects_followed,
    /// Connections that were made after one had been there before.
    reconnects,
    /// Dials that came to nothing.
    dials_failed,
}

/// One count.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// One more.
    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// So many more.
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
