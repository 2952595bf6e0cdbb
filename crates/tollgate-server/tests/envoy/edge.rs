//! The two processes: ours, which can be killed and started again, and Envoy in front of it.
//!
//! Ours is this test program once more, told by its environment to be a server. That it is a process of its own is the
//! point: it is killed as a machine that loses power would.

use std::{env, fs, net::TcpStream, path::Path, time::Duration};

use tempfile::TempDir;
use tollgate_server::{config::ServerConfig, run, security::Secret, shutdown, wiring::StorageSettings};
use tollgate_testkit::servers::{EnvoyServer, HttpReply, Process, wait_until};

/// Ours behind Envoy.
pub(crate) struct Edge {
    pub(crate) envoy: EnvoyServer,
    tollgate: Process,
    port: u16,
    _rules: TempDir,
}

/// The ports as they stand in the example.
pub(crate) const EDGE: u16 = 10_000;
const TOLLGATE: u16 = 8_081;

impl Edge {
    /// With the example's rules in memory.
    pub(crate) fn start() -> Self {
        Self::with("memory", |config| config)
    }

    /// With this store, and with a change to Envoy's configuration.
    pub(crate) fn with(store: &str, change: impl FnOnce(String) -> String) -> Self {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/envoy");
        let read = |name: &str| fs::read_to_string(example.join(name)).unwrap();
        // A window that ends in the middle of a test would let more pass than the test expects.
        let mut rules = read("rules.yaml");
        for unit in ["unit: minute", "unit: hour", "unit: day"] {
            assert!(rules.contains(unit), "the example has a limit with {unit}");
            rules = rules.replace(unit, "unit: year");
        }
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("rules.yaml");
        fs::write(&file, rules).unwrap();

        let port = Process::free_port();
        let tollgate = Process::new(env::current_exe().unwrap(), ["--exact", SERVER, "--ignored", "--nocapture"])
            .env(ADDRESS, format!("127.0.0.1:{port}"))
            .env(RULES, file.to_str().unwrap())
            .env(STORE, store);
        let config = read("envoy.yaml").replace("unit: MINUTE", "unit: YEAR");
        let envoy = EnvoyServer::start(&change(config), &[(TOLLGATE, port)]);
        let edge = Self { envoy, tollgate, port, _rules: home };
        edge.revive();
        edge
    }

    /// One request through Envoy.
    #[track_caller]
    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> HttpReply {
        self.envoy.get(EDGE, path, headers)
    }

    #[track_caller]
    pub(crate) fn status(&self, path: &str, headers: &[(&str, &str)]) -> u16 {
        self.get(path, headers).status
    }

    /// Our process is gone from one moment to the next.
    pub(crate) fn kill(&self) {
        self.tollgate.kill();
    }

    /// Starts it (again) on the same port, and waits until Envoy gets answers.
    pub(crate) fn revive(&self) {
        self.tollgate.start();
        wait_until("our process listens", START_BOUND, || {
            assert!(self.tollgate.is_running(), "it ended at once: {}", self.tollgate.log());
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        let asked = || self.envoy.counter(OK) + self.envoy.counter(OVER);
        let before = asked();
        wait_until("Envoy gets answers", START_BOUND, || {
            self.get("/", &[("x-user", "probe"), ("x-budget", "probe")]);
            asked() > before
        });
    }
}

/// Envoy's counters of answers.
pub(crate) const OK: &str = "cluster.service.ratelimit.ok";
pub(crate) const OVER: &str = "cluster.service.ratelimit.over_limit";
pub(crate) const ERROR: &str = "cluster.service.ratelimit.error";
pub(crate) const ALLOWED: &str = "cluster.service.ratelimit.failure_mode_allowed";

const SERVER: &str = "edge::be_the_server";
const ADDRESS: &str = "TOLLGATE_TEST_GRPC";
const RULES: &str = "TOLLGATE_TEST_RULES";
const STORE: &str = "TOLLGATE_TEST_STORE";
const START_BOUND: Duration = Duration::from_secs(60);

/// Not a test, but the process that the others ask.
#[test]
#[ignore = "the other tests start it as a process of its own"]
fn be_the_server() {
    let told = |name| env::var(name).unwrap_or_else(|_| panic!("{name} is not set; the other tests start this one"));
    let config = ServerConfig {
        rules: vec![told(RULES).into()],
        store: Secret::new(told(STORE)),
        storage: StorageSettings { deadline: Duration::from_secs(5), ..StorageSettings::default() },
        grpc: Some(told(ADDRESS).parse().unwrap()),
        http: None,
        resp: None,
        admin: None,
        ..ServerConfig::default()
    };
    let (_stopper, shutdown) = shutdown::channel();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run(config, shutdown)).unwrap();
}
