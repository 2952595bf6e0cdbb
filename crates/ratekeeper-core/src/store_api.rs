//! Machinery for authors of stores: evaluation of policies on stored state.
//!
//! A store keeps a [`KeyState`] per key and evaluates it with [`Policy::decide`](crate::Policy::decide), or with
//! [`take_all`] for several keys. A store that runs scripts elsewhere builds its decisions with [`decision_from_take`]
//! and [`decision_from_look`]. The fast paths ([`SingleBucket`], [`Policy::take_metered`](crate::Policy::take_metered))
//! return the same results as the general path.
//!
//! Structs here have public fields and are exhaustive, because a store writes and reads every field. They may change in
//! a minor release; users of a limiter need none of them.

pub use crate::{
    allotment::{Allotment, AllotmentCall, AllotmentReply, AllotmentStep, AllottedKey, MAX_ALLOTMENTS},
    combine::{least_remaining, strictest_denial},
    evaluate::take_all,
    expiring::{Expiring, MAX_EXPIRING, OpenReservation},
    from_script::{ScriptTake, decision_from_look, decision_from_take},
    held::Held,
    lease_ids::LeaseIds,
    migrate::migrate_state,
    open_permits::{ClosedPermits, MOST_OPEN, OpenPermits, SeenPermits},
    partial::take_part,
    policy::{Block, KeyState},
    record::RequestRecord,
    request_key::{RequestKey, Step},
    single_rule::{BucketTake, MeteredTake, SingleBucket},
    store::InspectedKey,
};
