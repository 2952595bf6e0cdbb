//! What people do to a running server, and how it went: switches that are turned, secrets that are read again.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::rulebook::Switches;

/// The numbers of it. Clones share them.
#[derive(Clone, Debug)]
pub struct Upkeep {
    switches: Family<SwitchLabels, Gauge>,
    secret_reloads: Family<SecretLabels, Counter>,
}

/// A secret that is read again when its file changes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum SecretFile {
    /// Who may ask on the data ports.
    Tokens,
    /// Those of the ports, and the authority of clients.
    Certificates,
    /// That of the admin port.
    AdminToken,
    /// What proxies present at `/v1/auth`.
    AuthSecret,
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

impl Upkeep {
    /// Registers all of them, at zero: an alert needs something to compare the first failure with.
    pub(super) fn new(registry: &mut Registry) -> Self {
        let upkeep = Self { switches: Family::default(), secret_reloads: Family::default() };
        registry.register("switches", "Switches that are turned, by kind", upkeep.switches.clone());
        let help = "Times secrets were read again, by outcome";
        registry.register("secret_reloads", help, upkeep.secret_reloads.clone());
        upkeep.switched(&Switches::default());
        for what in SecretFile::ALL {
            let _ = upkeep.reload_counter(what, false);
        }
        upkeep
    }

    /// These switches are in force.
    pub(crate) fn switched(&self, switches: &Switches) {
        let turned = [
            ("everything_off", usize::from(switches.everything_off)),
            ("everything_watches", usize::from(switches.everything_watches)),
            ("off", switches.off.len()),
            ("watching", switches.watching.len()),
            ("enforcing", switches.enforcing.len()),
        ];
        for (kind, count) in turned {
            self.switches.get_or_create(&SwitchLabels { kind }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// A secret was read again, or could not be.
    pub(crate) fn secret_read(&self, what: SecretFile, worked: bool) {
        self.reload_counter(what, worked).inc();
    }

    fn reload_counter(&self, what: SecretFile, worked: bool) -> Counter {
        let outcome = if worked { "ok" } else { "failed" };
        self.secret_reloads.get_or_create_owned(&SecretLabels { what: what.name(), outcome })
    }
}
