//! The deciding part of tollgate: exact rate limiting as pure functions of state and time.
//!
//! Nothing here reads a clock, opens a socket or needs a runtime. A store brings the state and the time, a [`Policy`]
//! decides, and the store keeps what came out:
//!
//! ```
//! use tollgate_core::{Micros, Policy, Quota, Rule, Take, Verb, Verdict};
//!
//! let policy = Policy::new("api", [
//!     Rule::token_bucket("burst", Quota::per_second(10).burst(2)),
//!     Rule::sliding_log("daily", Quota::per_day(1_000)),
//! ])?;
//! let mut key = policy.fresh();
//! let take = Verb::Take(Take::now(2));
//!
//! let noon = Micros::from_secs(1_700_000_000);
//! assert!(policy.decide(&mut key, &take, noon).decision.is_allowed());
//!
//! let denied = policy.decide(&mut key, &take, noon).decision;
//! assert_eq!(denied.verdict, Verdict::Deny { retry_after: Micros::from_millis(200) });
//! assert!(policy.decide(&mut key, &take, noon + Micros::from_millis(200)).decision.is_allowed());
//! # Ok::<(), tollgate_core::PolicyError>(())
//! ```
//!
//! # Glossary
//!
//! - **key**: who is limited.
//! - **cost**: permits a request asks for; 0 looks only.
//! - **quota**: the numbers of a limit. **rule**: a named quota and the algorithm that keeps it. **policy**: rules
//!   decided together.
//! - **decision**: allow, deny or never, with numbers.
//! - **wait**: how long an admitted request must hold still before it goes.
//! - **retry_after**: the wait after which the same request passes, if nobody else comes.
//! - **reset_after**: how long until the key is as good as new.
//! - **reservation**: permits charged now for a later moment, so that a waiter needs to ask only once.

pub mod algorithm;
mod amend;
pub mod bounds;
mod calendar;
mod change;
mod decide;
mod decision;
mod elsewhere;
mod error;
mod policy;
mod quota;
mod refused;
mod rule;
mod rules_told;
mod store;
mod time;
mod verb;

pub use algorithm::LeaseId;
pub use calendar::{Calendar, CalendarUnit, UtcOffset};
pub use change::{Carry, carry_over};
pub use decide::{Metered, Party, PlainBucket, PlainTake, Step, take_together};
pub use decision::{DecidedBy, Decision, RuleDecision, Source, Verdict};
pub use elsewhere::{looked_at_elsewhere, taken_elsewhere};
pub use error::{PolicyError, Problem, RuleError};
pub use policy::{Block, Policy, ReadyRule, Subject};
pub use quota::{Period, Quota};
pub use rule::{Algorithm, Align, DEFAULT_BUCKETS, OnStoreFailure, Refill, Rule};
pub use rules_told::RulesTold;
pub use store::{Ask, Immediate, Store, StoreError};
pub use time::Micros;
pub use verb::{Release, Take, Verb};
