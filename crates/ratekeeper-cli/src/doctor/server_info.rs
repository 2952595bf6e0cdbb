//! Facts about a server: `HELLO`, which every account may call, `INFO` and `CONFIG GET`, which need permission.

use std::collections::HashMap;

use super::{
    Finding,
    probe::{Probe, ProbeError, pairs, text},
};

/// The facts of one server. [`ServerInfo::unseen`] names those that the account may not read.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerInfo {
    hello: HashMap<String, String>,
    /// `None` without the permission.
    info: Option<HashMap<String, String>>,
    config: Option<HashMap<String, String>>,
}

impl ServerInfo {
    /// Reads everything once. An error means that the server does not answer or rejects the login.
    pub(super) async fn gather(probe: &Probe) -> Result<Self, ProbeError> {
        let hello = match probe.ask(&["HELLO"]).await {
            Ok(answer) => pairs(&answer).collect(),
            // Managed services may deny even this.
            Err(ProbeError::Denied(_)) => HashMap::new(),
            Err(ProbeError::Refused { code, .. }) if code == "ERR" => HashMap::new(),
            Err(error) => return Err(error),
        };
        let info = probe.ask(&["INFO"]).await.ok().and_then(|answer| text(&answer)).map(|info| read_info(&info));
        let config = probe.ask(&[&["CONFIG", "GET"], SETTINGS].concat()).await.ok().map(|list| pairs(&list).collect());
        Ok(Self { hello, info, config })
    }

    /// A field of `INFO`.
    pub(super) fn info(&self, field: &str) -> Option<&str> {
        self.info.as_ref()?.get(field).map(String::as_str)
    }

    /// A field of `INFO` that is a number.
    pub(super) fn number(&self, field: &str) -> Option<u64> {
        self.info(field)?.parse().ok()
    }

    /// A setting of the server.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.config.as_ref()?.get(name).map(String::as_str)
    }

    /// A setting that is a number.
    pub(super) fn setting_number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }

    /// `Redis` or `Valkey`, and its version.
    pub(super) fn product(&self) -> Option<(&'static str, String)> {
        let hello = |field: &str| self.hello.get(field).map(String::as_str);
        let valkey =
            self.info("valkey_version").or_else(|| hello("version").filter(|_| hello("server") == Some("valkey")));
        match valkey {
            Some(version) => Some(("Valkey", version.to_owned())),
            None => {
                hello("version").or_else(|| self.info("redis_version")).map(|version| ("Redis", version.to_owned()))
            }
        }
    }

    /// Whether it is a primary; `None` if unknown.
    pub(super) fn is_primary(&self) -> Option<bool> {
        let role = self.hello.get("role").map(String::as_str).or_else(|| self.info("role"))?;
        Some(role == "master")
    }

    /// Whether it is a member of a cluster.
    pub(super) fn is_in_cluster(&self) -> bool {
        self.hello.get("mode").is_some_and(|mode| mode == "cluster") || self.info("cluster_enabled") == Some("1")
    }

    /// A finding about facts that the account may not read.
    pub(super) fn unseen(&self) -> Option<Finding> {
        let (hidden, grant) = match (&self.info, &self.config) {
            (Some(_), Some(_)) => return None,
            (None, None) => ("memory, eviction, persistence and replication", "+config|get +info"),
            (None, Some(_)) => ("the current state of persistence and replication", "+info"),
            (Some(_), None) => ("min-replicas, appendfsync, save and cluster-node-timeout", "+config|get"),
        };
        let finding = Finding::note("visibility", format!("cannot see {hidden}: the account lacks the permission"));
        Some(finding.change(format!("grant {grant} to the account used for doctor, or check by hand")))
    }

    #[cfg(test)]
    pub(super) fn of_parts(info: &[(&str, &str)], config: &[(&str, &str)]) -> Self {
        let owned = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Self { hello: HashMap::new(), info: Some(owned(info)), config: Some(owned(config)) }
    }
}

/// Parses `INFO`: lines of `field:value`, with headings between them.
fn read_info(info: &str) -> HashMap<String, String> {
    let fields = info.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(field, value)| (field.to_owned(), value.trim_end().to_owned())).collect()
}

/// Settings of every Redis since 7.0 and of every Valkey.
const SETTINGS: &[&str] = &[
    "maxmemory",
    "maxmemory-policy",
    "appendonly",
    "appendfsync",
    "save",
    "stop-writes-on-bgsave-error",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "cluster-node-timeout",
    "cluster-require-full-coverage",
];
