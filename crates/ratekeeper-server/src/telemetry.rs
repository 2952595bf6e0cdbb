//! Telemetry: metrics, traces, and the keys that are denied most.
//!
//! Keys are never metric labels. The list of denied keys is bounded, and only the admin port returns it.

mod admin_metrics;
mod labels;
mod limits;
mod metrics;
mod policy_meters;
mod process;
pub(crate) mod prometheus_text;
mod store;
mod top;
pub mod traces;

pub(crate) use self::{
    admin_metrics::SwitchCounts,
    limits::MAX_LISTED,
    traces::{DecisionAttributes, Trace},
};
pub use self::{
    admin_metrics::{AdminMetrics, SecretFile},
    labels::{ClosureLabels, OutcomeLabels, Wire, WireLabels},
    metrics::{INLINE_POLICY, Telemetry},
    policy_meters::{PolicyMeters, Totals},
    top::{Denial, DeniedKey, TopDenied},
    traces::{TraceConfig, TraceError, TraceTls, Traces, shown_endpoint},
};
