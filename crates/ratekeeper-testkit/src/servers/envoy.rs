//! Real Envoy in front of a test's server, with a configuration of the documentation.
//!
//! Each port in the configuration is replaced by a free one, or by the real port of a server that the test has started.
//! The test refers to a port by the number in the file.

use std::{collections::BTreeMap, fs, time::Duration};

use tempfile::TempDir;

use super::{HttpReply, Part, Process, http_get, ports, require, wait_until};

/// An Envoy for one test. Killed when dropped.
#[derive(Debug)]
pub struct EnvoyServer {
    process: Process,
    /// The real port for each number in the file.
    ports: BTreeMap<u16, u16>,
    /// The first port in the file: Envoy's admin port.
    admin: u16,
    _home: TempDir,
}

impl EnvoyServer {
    /// Starts an Envoy with this configuration, and waits until it is ready. `known` are ports in the file
    /// that belong to other servers, each with the real one.
    #[track_caller]
    pub fn start(config: &str, known: &[(u16, u16)]) -> Self {
        let mut ports: BTreeMap<u16, u16> = known.iter().copied().collect();
        let mut admin = None;
        let (mut real, mut rest) = (String::new(), config);
        while let Some((before, after)) = rest.split_once(PORT) {
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let written: u16 = after[..digits].parse().expect("a port in the configuration");
            admin.get_or_insert(written);
            let port = *ports.entry(written).or_insert_with(ports::free);
            real.push_str(before);
            real.push_str(&format!("{PORT}{port}"));
            rest = &after[digits..];
        }
        real.push_str(rest);

        let home = tempfile::Builder::new().prefix("ratekeeper-").tempdir().expect("a temporary directory");
        let file = home.path().join("envoy.yaml");
        fs::write(&file, real).expect("the directory is writable");
        let words = ["--disable-hot-restart", "--concurrency", "1", "--log-level", "warn", "-c"];
        let words = words.into_iter().map(Into::into).chain([file.into_os_string()]);
        let process = Process::new(require(Part::Envoy), words.collect::<Vec<_>>());
        process.start();
        let admin = admin.expect("a configuration with an admin port, which comes first");
        let envoy = Self { process, ports, admin, _home: home };
        wait_until("Envoy is ready", START_BOUND, || {
            assert!(envoy.process.is_running(), "Envoy ended at once; its log:\n{}", envoy.process.log());
            envoy.admin("/ready").is_some_and(|reply| reply.status == 200)
        });
        envoy
    }

    /// The real port for one in the file.
    #[track_caller]
    pub fn port(&self, written: u16) -> u16 {
        *self.ports.get(&written).unwrap_or_else(|| panic!("no port {written} in the configuration"))
    }

    /// Sends a request to the listener whose port in the file is this.
    #[track_caller]
    pub fn get(&self, written: u16, path: &str, headers: &[(&str, &str)]) -> HttpReply {
        let port = self.port(written);
        http_get(port, path, headers).unwrap_or_else(|error| panic!("Envoy on {port}: {error}; {}", self.process.log()))
    }

    /// One of Envoy's counters, such as `cluster.service.ratelimit.ok`; 0 if it does not exist yet.
    pub fn counter(&self, name: &str) -> u64 {
        let stats = self.admin(&format!("/stats?filter=^{name}$")).map(|reply| reply.body).unwrap_or_default();
        stats.trim().rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    fn admin(&self, path: &str) -> Option<HttpReply> {
        http_get(self.port(self.admin), path, &[]).ok()
    }
}

const PORT: &str = "port_value: ";

/// A start takes about a second, and several on a busy machine.
const START_BOUND: Duration = Duration::from_secs(60);
