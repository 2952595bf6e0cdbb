//! Label sets of the server's metrics.
//!
//! Their values come from rule files and from this program, never from requests, so the number of time series is
//! bounded.

use prometheus_client::encoding::EncodeLabelSet;

/// Labels of decisions.
#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
pub(super) struct DecisionLabels {
    pub(super) domain: String,
    pub(super) policy: String,
    pub(super) rule: String,
    pub(super) verdict: &'static str,
    pub(super) source: &'static str,
}

/// Labels of one rule.
#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
pub(super) struct RuleLabels {
    pub(super) domain: String,
    pub(super) policy: String,
    pub(super) rule: String,
}

/// Labels of the program.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
pub(super) struct BuildLabels {
    pub(super) version: &'static str,
    pub(super) commit: &'static str,
}

/// Label of requests that no rule limits.
#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
pub(super) struct ReasonLabels {
    pub(super) reason: &'static str,
}

/// Label of a wire.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
pub struct WireLabels {
    wire: &'static str,
}

/// Labels of connections closed for abuse.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
pub struct ClosureLabels {
    /// The name of the wire.
    pub wire: &'static str,
    /// Why the connection was closed.
    pub reason: &'static str,
}

/// Label of an outcome: `ok` or `failed`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
pub struct OutcomeLabels {
    outcome: &'static str,
}

/// A wire or the admin port, for labels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wire {
    /// The HTTP data port.
    Http,
    /// The gRPC port: Envoy's rate limit protocol.
    Grpc,
    /// The RESP port: the Redis protocol.
    Resp,
    /// The admin port.
    Admin,
}

impl Wire {
    /// Its name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
            Self::Admin => "admin",
        }
    }

    /// Its label.
    pub const fn label(self) -> WireLabels {
        WireLabels { wire: self.name() }
    }
}

impl OutcomeLabels {
    /// The operation succeeded.
    pub const OK: Self = Self { outcome: "ok" };
    /// The operation failed; the previous rules stay in force.
    pub const FAILED: Self = Self { outcome: "failed" };
}
