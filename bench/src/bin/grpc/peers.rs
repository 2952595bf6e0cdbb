//! The servers: ours as people start it, and throttlecrab-server as people start it.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tempfile::NamedTempFile;
use tollgate_testkit::servers::{Process, wait_until};

/// `tollgate serve`.
pub(crate) struct Ours {
    pub(crate) grpc: u16,
    pub(crate) http: u16,
    _process: Process,
    _rules: NamedTempFile,
}

impl Ours {
    pub(crate) fn start(headers: &str) -> Self {
        let program = std::env::current_exe().expect("this program").with_file_name("tollgate");
        assert!(program.is_file(), "{} is missing; run `cargo build --release -p tollgate-cli`", program.display());
        let rules = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a file for rules");
        fs::write(rules.path(), RULES).expect("it can be written");
        let (grpc, http) = (Process::free_port(), Process::free_port());
        let at = |port: u16| format!("127.0.0.1:{port}");
        let rules_file = rules.path().display().to_string();
        let words = [
            ["--rules".to_owned(), rules_file],
            ["--headers".to_owned(), headers.to_owned()],
            ["--grpc".to_owned(), at(grpc)],
            ["--http".to_owned(), at(http)],
            ["--resp".to_owned(), at(Process::free_port())],
            ["--admin".to_owned(), at(Process::free_port())],
        ];
        let process = Process::new(program, ["serve".to_owned()].into_iter().chain(words.into_iter().flatten()));
        started(&process, &[grpc, http]);
        Self { grpc, http, _process: process, _rules: rules }
    }
}

/// `throttlecrab-server`.
pub(crate) struct Crab {
    pub(crate) grpc: u16,
    pub(crate) http: u16,
    _process: Process,
}

impl Crab {
    pub(crate) fn start() -> Self {
        let (grpc, http) = (Process::free_port(), Process::free_port());
        let (grpc_port, http_port) = (grpc.to_string(), http.to_string());
        let words = [
            "--grpc",
            "--grpc-host",
            "127.0.0.1",
            "--grpc-port",
            &grpc_port,
            "--http",
            "--http-host",
            "127.0.0.1",
            "--http-port",
            &http_port,
            "--log-level",
            "error",
        ];
        let process = Process::new(installed(), words.map(str::to_owned));
        started(&process, &[grpc, http]);
        Self { grpc, http, _process: process }
    }
}

fn installed() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers");
    let program = root.join("bin/throttlecrab-server");
    if !program.is_file() {
        let words = ["install", "throttlecrab-server", "--version", "0.4.40", "--locked", "--root"];
        let status = Command::new("cargo").args(words).arg(&root).status().expect("cargo");
        assert!(status.success(), "throttlecrab-server could not be installed");
    }
    program
}

fn started(process: &Process, ports: &[u16]) {
    process.start();
    wait_until("a server listens", Duration::from_secs(20), || {
        assert!(process.is_running(), "it ended at once: {}", process.log());
        ports.iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
    });
}

/// So much that nobody is refused, as in the calls to the other server.
const RULES: &str = "
domain: bench
policies:
  - name: per-key
    match: { key: '*' }
    rules:
      - { name: bucket, algorithm: token_bucket, limit: 1000000, per: 1s }
";
