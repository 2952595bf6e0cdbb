//! The RESP wire beside redis-server and throttlecrab-server, all asked by redis-benchmark in one run.
//!
//!     cargo run --release -p tollgate-bench --bin resp
//!
//! Three rounds, each server in turn, the median counts: what else the machine does hits all of them alike. Every server
//! is a process of its own on loopback; redis-benchmark uses 50 connections and 100,000 keys. throttlecrab-server is
//! installed into target/peers if it is not there, which needs protoc (`apt-get install protobuf-compiler`).

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark talks, and stops"
)]

use std::{
    env, fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use tollgate_server::{
    config::Bounds,
    engine::Engine,
    listen::Listener,
    resp::Resp,
    security::Access,
    shutdown,
    telemetry::{Telemetry, Wire},
    wiring::{Storage, StorageSettings},
};
use tollgate_testkit::servers::{Part, require};

/// One of those compared.
struct Contender {
    name: &'static str,
    asks: &'static [&'static str],
    process: Child,
    port: u16,
}

fn main() {
    if let Some(port) = env::args().skip_while(|word| word != "--serve").nth(1) {
        return serve(port.parse().unwrap());
    }
    println!(
        "| server | command | pipeline 1, req/s | × SET | pipeline 16, req/s | × SET |\n|---|---|---|---|---|---|"
    );
    let mut contenders = [redis(), tollgate(), throttlecrab()];
    let mut rates = vec![[const { Vec::new() }; 2]; contenders.len()];
    for _ in 0..ROUNDS {
        for (contender, rates) in contenders.iter().zip(&mut rates) {
            rates[0].push(benchmark(contender, 1, 120_000));
            rates[1].push(benchmark(contender, 16, 300_000));
        }
    }
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let medians: Vec<[f64; 2]> = rates.iter_mut().map(|[one, many]| [median(one), median(many)]).collect();
    for (contender, [one, many]) in contenders.iter().zip(&medians) {
        let [set_one, set_many] = medians[0];
        let (name, command) = (contender.name, contender.asks[0]);
        println!("| {name} | `{command}` | {one:.0} | {:.2} | {many:.0} | {:.2} |", one / set_one, many / set_many);
    }
    println!("\n| server | resident memory at 1,000,000 keys, above that at start |\n|---|---|");
    for contender in &mut contenders {
        contender.restart();
        let before = resident(contender);
        fill(contender);
        let bytes = resident(contender) - before;
        println!("| {} | {:.0} MiB, {} bytes per key |", contender.name, bytes as f64 / 1_048_576.0, bytes / KEYS);
    }
}

fn redis() -> Contender {
    Contender::start("redis-server", &["SET", "key:__rand_int__", "xxx"])
}

fn tollgate() -> Contender {
    Contender::start("tollgate", &["CL.THROTTLE", "key:__rand_int__", "100", "1000", "60"])
}

fn throttlecrab() -> Contender {
    Contender::start("throttlecrab-server", &["THROTTLE", "key:__rand_int__", "100", "1000", "60"])
}

impl Contender {
    fn start(name: &'static str, asks: &'static [&'static str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = launch(name, port);
        Self { name, asks, process, port }
    }

    fn restart(&mut self) {
        self.stop();
        self.process = launch(self.name, self.port);
    }

    fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        self.stop();
    }
}

fn launch(name: &str, port: u16) -> Child {
    let mut command = match name {
        "redis-server" => {
            let mut command = Command::new(require(Part::RedisServer));
            command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]).arg(port.to_string());
            command
        }
        "tollgate" => {
            let mut command = Command::new(env::current_exe().unwrap());
            command.arg("--serve").arg(port.to_string());
            command
        }
        _ => {
            let mut command = Command::new(peer());
            command.args(["--redis", "--redis-host", "127.0.0.1", "--log-level", "error", "--redis-port"]);
            command.arg(port.to_string());
            command
        }
    };
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let listens = (0..500).any(|_| {
        thread::sleep(Duration::from_millis(10));
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    assert!(listens, "{name} does not listen");
    child
}

/// throttlecrab-server, installed if need be.
fn peer() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers");
    let program = root.join("bin/throttlecrab-server");
    if !program.is_file() {
        let install = ["install", "throttlecrab-server", "--version", "0.4.40", "--locked", "--root"];
        let done = Command::new("cargo").args(install).arg(&root).status().unwrap();
        assert!(
            done.success(),
            "throttlecrab-server was not installed; is protoc there? apt-get install protobuf-compiler"
        );
    }
    program
}

/// Requests per second.
fn benchmark(contender: &Contender, pipeline: u32, requests: u32) -> f64 {
    let output = Command::new(require(Part::RedisBenchmark))
        .args(["-c", "50", "-r", "100000", "--csv", "-p"])
        .arg(contender.port.to_string())
        .args(["-P", &pipeline.to_string(), "-n", &requests.to_string()])
        .args(contender.asks)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let rate = told.lines().nth(1).and_then(|line| line.split("\",\"").nth(1));
    rate.and_then(|rate| rate.parse().ok()).unwrap_or_else(|| panic!("redis-benchmark said {told:?}"))
}

/// A million keys, one after the other, each asked about once.
fn fill(contender: &Contender) {
    let mut stream = TcpStream::connect(("127.0.0.1", contender.port)).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let mark = b"$4\r\nlast\r\n";
    let reading = thread::spawn(move || {
        let (mut buffer, mut tail) = (vec![0; 1 << 16], Vec::new());
        loop {
            let count = reader.read(&mut buffer).unwrap();
            assert!(count > 0, "the server has hung up");
            tail.extend_from_slice(&buffer[..count]);
            if tail.ends_with(mark) {
                return;
            }
            tail.drain(..tail.len().saturating_sub(mark.len()));
        }
    });
    let mut send = |words: &[String]| {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.write_all(bytes.as_bytes()).unwrap();
    };
    for key in 0..KEYS {
        // An hour until a key is as good as new, so that all of them are there at the end.
        let words: Vec<String> = match contender.asks {
            [set @ "SET", _, value] => vec![(*set).to_owned(), format!("key:{key:012}"), (*value).to_owned()],
            [name, ..] => [name, format!("key:{key:012}").as_str(), "100", "1", "3600"].map(str::to_owned).into(),
            [] => return,
        };
        send(&words);
    }
    send(&["PING".to_owned(), "last".to_owned()]);
    reading.join().unwrap();
}

fn resident(contender: &Contender) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", contender.process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

/// What `tollgate serve` does for this port, and nothing else.
fn serve(port: u16) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
        let storage = Storage::open("memory", &StorageSettings::default()).await.unwrap();
        let telemetry = Arc::new(Telemetry::default());
        let engine = Engine::new(storage, Arc::clone(&telemetry));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let listener = Listener::bind(Wire::Resp, address, None, Bounds::default(), telemetry).await.unwrap();
        let (_stopper, word) = shutdown::channel();
        Resp::new(engine, Access::open()).serve(listener, word).await;
    });
}

const ROUNDS: usize = 3;
const KEYS: u64 = 1_000_000;
