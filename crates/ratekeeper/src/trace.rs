//! Events for `tracing`, and nothing without that feature.
//!
//! The front door reports what only it knows: cancelled waits, names that do not exist, replaced rules. Stores report
//! their own: connections lost and restored, fallback, migration. Keys are left out, since they may name persons.

/// `trace_event!(level, fields…, "message")`: an event of this crate.
#[cfg(feature = "tracing")]
macro_rules! trace_event {
    ($level:ident, $($event:tt)*) => { ::tracing::$level!(target: "ratekeeper", $($event)*) };
}

/// `trace_event!(level, fields…, "message")`: nothing.
#[cfg(not(feature = "tracing"))]
macro_rules! trace_event {
    ($($event:tt)*) => {};
}

pub(crate) use trace_event;
