//! Telemetry: metrics, traces, the decision log, the keys that are denied most, recent callers and refusals.
//!
//! Keys are never metric labels. Lists of keys are bounded, and only the admin port returns them.

mod admin_metrics;
mod decision_log;
mod labels;
mod limits;
mod metrics;
mod policy_meters;
mod process;
pub(crate) mod prometheus_text;
mod rate_gate;
mod recent;
mod record;
mod store;
mod top;
pub mod traces;

pub(crate) use self::{
    admin_metrics::SwitchCounts,
    limits::MAX_LISTED,
    recent::CALLERS,
    record::DecisionRecord,
    traces::{DecisionAttributes, Trace},
};
pub use self::{
    admin_metrics::{AdminMetrics, SecretFile},
    decision_log::DecisionLogConfig,
    labels::{ClosureLabels, OutcomeLabels, Wire, WireLabels},
    metrics::{INLINE_POLICY, Telemetry},
    policy_meters::{PolicyMeters, Totals},
    recent::{RecentCaller, RecentRefusal, RecentRefusals},
    top::{Denial, DeniedKey, TopDenied},
    traces::{TraceConfig, TraceError, TraceTls, Traces, shown_endpoint},
};
