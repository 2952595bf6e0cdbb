//! A server with a temporary directory, on free ports, for one test.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use ratekeeper_server::{
    config::ServerConfig,
    server::Server,
    shutdown::{self, Stopper},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::client::{self, Reply};

pub(crate) struct Fixture {
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) server: Option<Server>,
    pub(crate) stopper: Stopper,
    pub(crate) folder: TempDir,
    pub(crate) runtime: Runtime,
}

/// The default rules. A period of an hour is longer than any test.
pub(crate) const RULES: &str = r#"
domain: api
policies:
  - { name: per-key, match: { key: "*" }, rules: [{ name: few, algorithm: token_bucket, limit: 3, per: 1h }] }
  - name: two-rules
    match: { user: "*" }
    cost: 2
    rules:
      - { name: hour, algorithm: fixed_window, limit: 10, per: 1h }
      - { name: watched, algorithm: sliding_log, limit: 1, per: 1h, shadow: true }
  - { name: places, match: { job: "*" }, rules: [{ name: at-once, algorithm: concurrency, limit: 2, lease: 1h }] }
  - { name: shaped, match: { partner: "*" }, rules: [{ name: even, algorithm: token_bucket, limit: 1, per: 10s, burst: 1 }] }
"#;

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// With changes to the configuration.
    pub(crate) fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::start(|_, config| change(config))
    }

    /// With changes to the configuration that may name files in the temporary directory.
    pub(crate) fn start(change: impl FnOnce(&TempDir, &mut ServerConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rules = folder.path().join("rules.yaml");
        fs::write(&rules, RULES).unwrap();
        let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let mut config = ServerConfig {
            rules: vec![rules],
            http: free,
            admin: free,
            grpc: None,
            resp: None,
            poll_interval: Duration::from_millis(20),
            ..ServerConfig::default()
        };
        change(&folder, &mut config);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (stopper, shutdown) = shutdown::channel();
        let server = runtime.block_on(Server::start(config, shutdown)).unwrap_or_else(|error| panic!("{error}"));
        let (http, admin) = (server.addresses.http.unwrap(), server.addresses.admin.unwrap());
        Self { http, admin, server: Some(server), stopper, folder, runtime }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Reply {
        client::ask(self.http, "POST", path, &[], body.as_bytes())
    }

    /// Sends a check, and asserts status 200.
    pub(crate) fn check(&self, body: &str) -> Value {
        let reply = self.post("/v1/check", body);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        client::ask(self.http, "GET", path, headers, b"")
    }

    pub(crate) fn admin_get(&self, path: &str) -> Reply {
        client::ask(self.admin, "GET", path, &[], b"")
    }

    pub(crate) fn admin_send(&self, method: &str, path: &str, body: &str) -> Reply {
        client::ask(self.admin, method, path, &[("content-type", "application/json")], body.as_bytes())
    }

    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let page = self.admin_get("/metrics").body;
        page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.finished());
        }
    }
}
