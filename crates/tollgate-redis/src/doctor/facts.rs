//! What a server says about itself: `HELLO`, which everybody may ask, `INFO` and `CONFIG GET`, which not everybody may.

use std::collections::HashMap;

use super::{
    Finding,
    visit::{Trouble, Visit, pairs, text},
};

/// Everything one server told. What it would not tell is missing, and [`Facts::unseen`] says so.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    hello: HashMap<String, String>,
    /// Nothing: not allowed to ask.
    info: Option<HashMap<String, String>>,
    config: Option<HashMap<String, String>>,
}

impl Facts {
    /// Asks once for everything. An error means that the server does not answer at all, or does not let us in.
    pub(super) async fn gather(visit: &Visit) -> Result<Self, Trouble> {
        let hello = match visit.ask(&["HELLO"]).await {
            Ok(answer) => pairs(&answer).collect(),
            // Managed servers may hide even this.
            Err(Trouble::Denied(_)) => HashMap::new(),
            Err(Trouble::Refused { code, .. }) if code == "ERR" => HashMap::new(),
            Err(trouble) => return Err(trouble),
        };
        let info = visit.ask(&["INFO"]).await.ok().and_then(|answer| text(&answer)).map(|info| read_info(&info));
        let config = visit.ask(&[&["CONFIG", "GET"], SETTINGS].concat()).await.ok().map(|list| pairs(&list).collect());
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

    /// Whether it leads, if it says.
    pub(super) fn is_primary(&self) -> Option<bool> {
        let role = self.hello.get("role").map(String::as_str).or_else(|| self.info("role"))?;
        Some(role == "master")
    }

    /// Whether it is one of a cluster.
    pub(super) fn is_in_cluster(&self) -> bool {
        self.hello.get("mode").is_some_and(|mode| mode == "cluster") || self.info("cluster_enabled") == Some("1")
    }

    /// What remained hidden, and how to see it.
    pub(super) fn unseen(&self) -> Option<Finding> {
        let (hidden, grant) = match (&self.info, &self.config) {
            (Some(_), Some(_)) => return None,
            (None, None) => ("memory, eviction, persistence and replication", "+config|get +info"),
            (None, Some(_)) => ("persistence and replication as they are now", "+info"),
            (Some(_), None) => ("min-replicas, appendfsync, save and cluster-node-timeout", "+config|get"),
        };
        let finding = Finding::note("visibility", format!("cannot see {hidden}: the account may not ask"));
        Some(finding.change(format!("grant {grant} to the account used for doctor, or check by hand")))
    }

    #[cfg(test)]
    pub(super) fn made_up(info: &[(&str, &str)], config: &[(&str, &str)]) -> Self {
        let owned = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Self { hello: HashMap::new(), info: Some(owned(info)), config: Some(owned(config)) }
    }
}

/// `field:value` on a line each, with headings in between.
fn read_info(info: &str) -> HashMap<String, String> {
    let fields = info.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(field, value)| (field.to_owned(), value.trim_end().to_owned())).collect()
}

/// Known to every Redis since 7.0 and to every Valkey.
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
