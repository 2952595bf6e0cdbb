//! From flags and variables to the configuration of the server.

use std::{env::VarError, path::Path, time::Duration};

use ratekeeper_core::OnQuotaChange;
use ratekeeper_http::ClientAddress;
use ratekeeper_server::{
    config::{AllowedHosts, AuthConfig, Bounds, ServerConfig},
    security::{RequiredSecret, Secret, TlsFiles},
    telemetry::DecisionLogConfig,
    wiring::{OnForeignState, StorageSettings, WhenFull},
};

use super::{ForeignValues, MemoryFull, OnChange, ServeArgs};
use crate::{report::Failure, serve::traces};

impl ServeArgs {
    pub(crate) fn config(&self) -> Result<ServerConfig, Failure> {
        let store = match &self.store_file {
            Some(file) => secret_from(file)?,
            None => Secret::new(self.store.clone()),
        };
        let admin_token = secret_of(self.admin_token_file.as_deref(), "RATEKEEPER_ADMIN_TOKEN", "a token")?;
        let auth_secret = secret_of(self.auth_secret_file.as_deref(), "RATEKEEPER_AUTH_SECRET", "a secret")?;
        let allowed_hosts = AllowedHosts::new(&self.allowed_hosts)
            .map_err(|problem| Failure::Option(format!("--allowed-hosts: {problem}")))?;
        if [self.http.0, self.grpc.0, self.resp.0, self.admin.0].iter().all(Option::is_none) {
            return Err(Failure::Option(
                "every port is off; leave one of --http, --grpc, --resp, --admin on".to_owned(),
            ));
        }
        let tls = self.tls_cert.clone().zip(self.tls_key.clone());
        let header = self.auth_header.parse().map_err(|_| {
            Failure::Option(format!(
                "--auth-header: \"{}\" is not a name of a header field",
                self.auth_header.escape_debug()
            ))
        })?;
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        Ok(ServerConfig {
            rules: self.rules.clone(),
            store,
            storage: StorageSettings {
                memory_bytes: usize::try_from(self.memory).unwrap_or(usize::MAX).saturating_mul(1 << 20),
                when_full: match self.memory_full {
                    MemoryFull::Refuse => WhenFull::Refuse,
                    MemoryFull::Admit => WhenFull::Admit,
                },
                prefix: self.prefix.clone(),
                nodes: self.nodes,
                local_start: self.local_start,
                on_foreign_state: match self.foreign_values {
                    ForeignValues::Keep => OnForeignState::Fail,
                    ForeignValues::Exhausted => OnForeignState::Spent,
                    ForeignValues::Initial => OnForeignState::Fresh,
                },
                deadline: Duration::from_millis(u64::from(self.store_deadline)),
            },
            http: self.http.0,
            grpc: self.grpc.0,
            resp: self.resp.0,
            admin: self.admin.0,
            tls: tls.map(|(cert, key)| TlsFiles { cert, key, client_ca: self.tls_client_ca.clone() }),
            admin_tls: self.admin_tls,
            tokens: self.tokens.clone(),
            admin_token,
            admin_token_file: self.admin_token_file.clone(),
            auth_secret_file: self.auth_secret_file.clone(),
            allowed_hosts,
            bounds: Bounds {
                connections: usize::try_from(self.max_connections).unwrap_or(usize::MAX),
                drain: seconds(self.drain),
                ..Bounds::default()
            },
            headers: self.headers,
            auth: AuthConfig {
                domain: self.auth_domain.clone(),
                entries: self.auth_entry.clone(),
                address: ClientAddress::behind(usize::from(self.auth_proxies))
                    .header(header)
                    .ipv6_prefix(self.ipv6_prefix),
                deny_status: self.auth_deny_status,
                secret: RequiredSecret::new(auth_secret),
            },
            carry: match self.on_change {
                OnChange::Keep => OnQuotaChange::Keep,
                OnChange::Scale => OnQuotaChange::Scale,
                OnChange::Fresh => OnQuotaChange::Fresh,
            },
            envoy_counts_refused: !(self.envoy_all_or_none || stop_counting_refused()?),
            stop_delay: seconds(self.stop_delay),
            traces: traces::wanted(self),
            decision_log: self.decision_log.clone().map(|file| DecisionLogConfig {
                file,
                sample: self.decision_log_sample,
                per_second: self.decision_log_rate,
            }),
            ..ServerConfig::default()
        })
    }
}

/// A secret from a file, else from a variable. An empty variable is an error: it must not disable the check.
fn secret_of(file: Option<&Path>, variable: &str, what: &str) -> Result<Option<Secret>, Failure> {
    if let Some(file) = file {
        return secret_from(file).map(Some);
    }
    match std::env::var(variable) {
        Ok(secret) if !secret.is_empty() => Ok(Some(Secret::new(secret))),
        Err(VarError::NotPresent) => Ok(None),
        Ok(_) | Err(VarError::NotUnicode(_)) => {
            Err(Failure::Option(format!("{variable} is empty or not text; set it to {what}, or unset it")))
        }
    }
}

/// The variable of envoyproxy/ratelimit, with the spellings of true and false that it accepts.
fn stop_counting_refused() -> Result<bool, Failure> {
    const VARIABLE: &str = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT";
    match std::env::var(VARIABLE).as_deref() {
        Ok("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
        Ok("" | "0" | "f" | "F" | "false" | "FALSE" | "False") | Err(VarError::NotPresent) => Ok(false),
        Ok(_) | Err(VarError::NotUnicode(_)) => {
            Err(Failure::Option(format!("{VARIABLE} is neither true nor false; set it to one of them, or unset it")))
        }
    }
}

fn secret_from(file: &Path) -> Result<Secret, Failure> {
    let unreadable = |cause| Failure::Unreadable { file: file.display().to_string(), cause };
    Secret::from_file(file).map_err(unreadable)
}
