//! Servers under comparison: separate processes on loopback with default settings.
//!
//! throttlecrab-server is installed with cargo into `target/peers` if it is missing.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use ratekeeper_testkit::servers::{Part, Process, require, wait_until};
use tempfile::NamedTempFile;

/// A server and its ports; 0 for a protocol it does not have.
#[derive(Debug)]
pub struct Peer {
    /// Its name in the tables.
    pub name: &'static str,
    /// gRPC.
    pub grpc: u16,
    /// HTTP/1.1.
    pub http: u16,
    /// RESP.
    pub resp: u16,
    process: Process,
    _rules: Option<NamedTempFile>,
}

/// `ratekeeper serve` with one bucket per key, so large that nothing is denied; `headers` is the style of header fields.
pub fn ratekeeper(name: &'static str, headers: &str) -> Peer {
    let program = std::env::current_exe().expect("this program").with_file_name("ratekeeper");
    assert!(program.is_file(), "{} is missing; run `cargo build --release -p ratekeeper-cli`", program.display());
    let rules = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a file for rules");
    fs::write(rules.path(), RULES).expect("it can be written");
    let [grpc, http, resp] = free_ports();
    let args = [
        "serve".to_owned(),
        format!("--rules={}", rules.path().display()),
        format!("--headers={headers}"),
        format!("--grpc=127.0.0.1:{grpc}"),
        format!("--http=127.0.0.1:{http}"),
        format!("--resp=127.0.0.1:{resp}"),
        "--admin=off".to_owned(),
    ];
    let process = Process::new(program, args);
    Peer { name, grpc, http, resp, process, _rules: Some(rules) }.started()
}

/// `throttlecrab-server` with all its protocols.
pub fn throttlecrab() -> Peer {
    let [grpc, http, resp] = free_ports();
    let mut args = vec!["--log-level=error".to_owned()];
    for (wire, port) in [("grpc", grpc), ("http", http), ("redis", resp)] {
        args.extend([format!("--{wire}"), format!("--{wire}-host=127.0.0.1"), format!("--{wire}-port={port}")]);
    }
    let process = Process::new(throttlecrab_program(), args);
    Peer { name: "throttlecrab-server", grpc, http, resp, process, _rules: None }.started()
}

/// `redis-server` that writes nothing to disk.
pub fn redis() -> Peer {
    let [resp, ..] = free_ports();
    let args = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &resp.to_string()];
    let process = Process::new(require(Part::RedisServer), args.map(str::to_owned));
    Peer { name: "redis-server", grpc: 0, http: 0, resp, process, _rules: None }.started()
}

impl Peer {
    /// Starts the server again, with an empty memory.
    pub fn restart(&self) {
        self.process.start();
        wait_until("a server listens", Duration::from_secs(20), || {
            assert!(self.process.is_running(), "{} ended at once: {}", self.name, self.process.log());
            let ports = [self.grpc, self.http, self.resp];
            ports.iter().filter(|port| **port != 0).all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
        });
    }

    /// Resident memory, in bytes.
    pub fn resident(&self) -> u64 {
        self.process.resident_bytes()
    }

    fn started(self) -> Self {
        self.restart();
        self
    }
}

fn throttlecrab_program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers");
    let program = root.join("bin/throttlecrab-server");
    if !program.is_file() {
        let args = ["install", "throttlecrab-server", "--version", "0.4.40", "--locked", "--root"];
        let status = Command::new("cargo").args(args).arg(&root).status().expect("cargo");
        let hint = "it needs protoc: apt-get install protobuf-compiler";
        assert!(status.success(), "throttlecrab-server was not installed; {hint}");
    }
    program
}

fn free_ports() -> [u16; 3] {
    [Process::free_port(), Process::free_port(), Process::free_port()]
}

/// A limit that denies nothing, as in the calls to the peers.
const RULES: &str = "
domain: bench
policies:
  - name: per-key
    match: { key: '*' }
    rules:
      - { name: bucket, algorithm: token_bucket, limit: 1000000, per: 1s }
";
