//! Test environment of two processes: ratekeeper, which can be killed and restarted, and Envoy in front of it.
//!
//! The ratekeeper process is this test binary, started as a server by environment variables. It is a separate process
//! so that it can be killed without a shutdown, as in a power failure.

use std::{env, fs, net::TcpStream, path::Path, time::Duration};

use ratekeeper_server::{config::ServerConfig, run, security::Secret, shutdown, wiring::StorageSettings};
use ratekeeper_testkit::servers::{EnvoyServer, HttpReply, Process, wait_until};
use tempfile::TempDir;

/// Envoy with ratekeeper behind it.
pub(crate) struct Edge {
    pub(crate) envoy: EnvoyServer,
    ratekeeper: Process,
    port: u16,
    _rules: TempDir,
}

/// The ports in the example's configuration.
pub(crate) const EDGE: u16 = 10_000;
const RATEKEEPER: u16 = 8_081;

impl Edge {
    /// Starts both with the example's rules and the embedded store.
    pub(crate) fn start() -> Self {
        Self::with("memory", |config| config)
    }

    /// Starts both with this store and a change to Envoy's configuration.
    pub(crate) fn with(store: &str, change: impl FnOnce(String) -> String) -> Self {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/envoy");
        let read = |name: &str| fs::read_to_string(example.join(name)).unwrap();
        // A window that ends during a test would let more requests pass than the test expects.
        let mut rules = read("rules.yaml");
        for unit in ["unit: minute", "unit: hour", "unit: day"] {
            assert!(rules.contains(unit), "the example has a limit with {unit}");
            rules = rules.replace(unit, "unit: year");
        }
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("rules.yaml");
        fs::write(&file, rules).unwrap();

        let port = Process::free_port();
        let ratekeeper = Process::new(env::current_exe().unwrap(), ["--exact", SERVER, "--ignored", "--nocapture"])
            .env(ADDRESS, format!("127.0.0.1:{port}"))
            .env(RULES, file.to_str().unwrap())
            .env(STORE, store);
        let config = read("envoy.yaml").replace("unit: MINUTE", "unit: YEAR");
        let envoy = EnvoyServer::start(&change(config), &[(RATEKEEPER, port)]);
        let edge = Self { envoy, ratekeeper, port, _rules: home };
        edge.revive();
        edge
    }

    /// Makes one request through Envoy.
    #[track_caller]
    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> HttpReply {
        self.envoy.get(EDGE, path, headers)
    }

    #[track_caller]
    pub(crate) fn status(&self, path: &str, headers: &[(&str, &str)]) -> u16 {
        self.get(path, headers).status
    }

    /// Kills the ratekeeper process without a shutdown.
    pub(crate) fn kill(&self) {
        self.ratekeeper.kill();
    }

    /// Starts or restarts ratekeeper on the same port, and waits until Envoy gets responses.
    pub(crate) fn revive(&self) {
        self.ratekeeper.start();
        wait_until("the server listens", START_BOUND, || {
            assert!(self.ratekeeper.is_running(), "it ended at once: {}", self.ratekeeper.log());
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

/// Envoy's counters of rate limit responses.
pub(crate) const OK: &str = "cluster.service.ratelimit.ok";
pub(crate) const OVER: &str = "cluster.service.ratelimit.over_limit";
pub(crate) const ERROR: &str = "cluster.service.ratelimit.error";
pub(crate) const ALLOWED: &str = "cluster.service.ratelimit.failure_mode_allowed";

const SERVER: &str = "edge::run_the_server";
const ADDRESS: &str = "RATEKEEPER_TEST_GRPC";
const RULES: &str = "RATEKEEPER_TEST_RULES";
const STORE: &str = "RATEKEEPER_TEST_STORE";
const START_BOUND: Duration = Duration::from_secs(60);

/// Not a test: the server process of the other tests.
#[test]
#[ignore = "the other tests start it as a separate process"]
fn run_the_server() {
    let value = |name| env::var(name).unwrap_or_else(|_| panic!("{name} is not set; the other tests start this one"));
    let config = ServerConfig {
        rules: vec![value(RULES).into()],
        store: Secret::new(value(STORE)),
        storage: StorageSettings { deadline: Duration::from_secs(5), ..StorageSettings::default() },
        grpc: Some(value(ADDRESS).parse().unwrap()),
        http: None,
        resp: None,
        admin: None,
        ..ServerConfig::default()
    };
    let (_stopper, shutdown) = shutdown::channel();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run(config, shutdown)).unwrap();
}
