//! Administration metrics: switches that are set, and reloads of secret files.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Metrics of administration. Clones share them.
#[derive(Clone, Debug)]
pub struct AdminMetrics {
    switches: Family<SwitchLabels, Gauge>,
    secret_reloads: Family<SecretLabels, Counter>,
}

/// A secret file that is reloaded when it changes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum SecretFile {
    /// Bearer tokens of the data ports.
    Tokens,
    /// Certificates of the ports, and the CA of client certificates.
    Certificates,
    /// The token of the admin port.
    AdminToken,
    /// The secret that proxies send to `/v1/auth`.
    AuthSecret,
}

/// Switches that are set, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SwitchCounts {
    pub(crate) everything_off: bool,
    pub(crate) everything_shadow: bool,
    pub(crate) off: usize,
    pub(crate) shadow: usize,
    pub(crate) enforce: usize,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct SwitchLabels {
    kind: &'static str,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct SecretLabels {
    what: &'static str,
    outcome: &'static str,
}

impl SecretFile {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tokens, Self::Certificates, Self::AdminToken, Self::AuthSecret];

    /// Its label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Certificates => "certificates",
            Self::AdminToken => "admin_token",
            Self::AuthSecret => "auth_secret",
        }
    }
}

impl AdminMetrics {
    /// Registers all of them at zero, so that an alert on the first failure has a value to compare with.
    pub(super) fn new(registry: &mut Registry) -> Self {
        let admin_metrics = Self { switches: Family::default(), secret_reloads: Family::default() };
        registry.register("switches", "Switches that are set, by kind", admin_metrics.switches.clone());
        let help = "Reloads of secret files, by outcome";
        registry.register("secret_reloads", help, admin_metrics.secret_reloads.clone());
        admin_metrics.switched(SwitchCounts::default());
        for what in SecretFile::ALL {
            let _ = admin_metrics.reload_counter(what, false);
        }
        admin_metrics
    }

    /// Sets the gauges to these counts.
    pub(crate) fn switched(&self, counts: SwitchCounts) {
        let by_kind = [
            ("everything_off", usize::from(counts.everything_off)),
            ("everything_shadow", usize::from(counts.everything_shadow)),
            ("off", counts.off),
            ("shadow", counts.shadow),
            ("enforce", counts.enforce),
        ];
        for (kind, count) in by_kind {
            self.switches.get_or_create(&SwitchLabels { kind }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Counts a reload of a secret file by its outcome.
    pub(crate) fn secret_read(&self, what: SecretFile, succeeded: bool) {
        self.reload_counter(what, succeeded).inc();
    }

    fn reload_counter(&self, what: SecretFile, succeeded: bool) -> Counter {
        let outcome = if succeeded { "ok" } else { "failed" };
        self.secret_reloads.get_or_create_owned(&SecretLabels { what: what.name(), outcome })
    }
}
