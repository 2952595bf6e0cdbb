//! What is counted and told about the server's own work. User keys never become labels; the busiest denied ones are
//! kept in a bounded list that only the admin listener shows.

pub(crate) mod exposition;
mod metrics;
mod store;
mod top;
pub mod traces;
mod upkeep;

pub(crate) use self::traces::{Told, Trace};
pub use self::{
    metrics::{ADHOC, ClosureLabels, OutcomeLabels, PolicyMeters, Telemetry, Wire, WireLabels},
    top::{Denial, DeniedKey, TopDenied},
    traces::{TraceConfig, TraceError, TraceTls, Traces, shown_endpoint},
    upkeep::{SecretFile, Upkeep},
};
