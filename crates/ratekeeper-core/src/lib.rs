//! Exact rate limiting as pure functions of state and time: the core of ratekeeper.
//!
//! Nothing here reads a clock, opens a socket or needs a runtime. A store supplies the state and the time, a [`Policy`]
//! decides, and the store keeps the new state:
//!
//! ```
//! use ratekeeper_core::{Policy, Quota, Rule, Span, Take, Timestamp, Verb, Verdict};
//!
//! let policy = Policy::new("api", [
//!     Rule::token_bucket("burst", Quota::per_second(10).burst(2)),
//!     Rule::sliding_log("daily", Quota::per_day(1_000)),
//! ])?;
//! let mut key = policy.fresh();
//! let take = Verb::Take(Take::now());
//!
//! let noon = Timestamp::from_secs(1_700_000_000);
//! assert!(policy.decide(&mut key, 2, &take, noon).decision.is_allowed());
//!
//! let denied = policy.decide(&mut key, 2, &take, noon).decision;
//! assert_eq!(denied.verdict, Verdict::Deny { retry_after: Span::from_millis(200) });
//! assert!(policy.decide(&mut key, 2, &take, noon + Span::from_millis(200)).decision.is_allowed());
//! # Ok::<(), ratekeeper_core::PolicyError>(())
//! ```
//!
//! # Glossary
//!
//! - **key**: who is limited.
//! - **cost**: permits a request asks for; 0 looks only.
//! - **quota**: the numbers of a limit. **rule**: a named quota and the algorithm that keeps it. **policy**: rules
//!   decided together.
//! - **decision**: allow, deny or never, with numbers.
//! - **wait**: how long an admitted request must wait before it goes.
//! - **retry_after**: the time after which the same request passes, if no other comes first.
//! - **reset_after**: the time until the key is back to its initial state.
//! - **reservation**: permits charged now for a later time, so that a waiter asks only once.

mod adjust;
pub mod algorithm;
mod allotment;
pub mod bounds;
mod calendar;
mod combine;
mod decision;
mod effect;
mod error;
mod evaluate;
mod evaluation;
mod expiring;
mod from_script;
mod health;
mod held;
mod lease_ids;
mod local_calendar;
mod manual_clock;
mod migrate;
mod open_permits;
mod partial;
mod policy;
mod prepayable;
mod quota;
mod record;
mod refused;
mod request_id;
mod request_key;
mod rule;
mod rule_decisions;
mod single_rule;
mod speed;
mod store;
pub mod store_api;
mod terms;
mod time;
mod verb;
mod verdict;
mod zone;

pub use algorithm::LeaseId;
pub use calendar::{Calendar, CalendarUnit, UtcOffset};
pub use decision::{DecidedBy, Decision, Source};
pub use effect::Effect;
pub use error::{PolicyError, Problem, RuleError};
pub use health::HealthStatus;
pub use local_calendar::{LocalCalendar, LocalPeriods, Weekday};
pub use manual_clock::ManualClock;
pub use migrate::OnQuotaChange;
pub use policy::{Policy, ReadyRule};
pub use quota::{Period, Quota};
pub use request_id::{DEFAULT_LIFETIME, RequestId, RequestIdError};
pub use rule::{AlgorithmSpec, Align, BlockAfter, DEFAULT_BUCKETS, OnStoreFailure, Refill, Rule};
pub use rule_decisions::{RuleDecision, RuleDecisions, RuleRole};
pub use speed::{MIN_TURN, Prepaid, Speed};
pub use store::{Ask, Immediate, InlineLimits, Store, StoreError};
pub use terms::{OnExpiry, Terms};
pub use time::{Span, Timestamp};
pub use verb::{Release, Take, Verb};
pub use verdict::{RetryAfter, Verdict};
pub use zone::Zone;
