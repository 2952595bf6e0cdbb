//! Memory and latency of a server whose HTTP/2 clients open streams and never grant a window for the responses.
//!
//! For each port (HTTP, gRPC, admin) a fresh `ratekeeper serve` is started on loopback, one good client measures the
//! latency of its requests without and with the attack, and the resident memory is sampled every 20 ms. The attackers
//! read their frames and acknowledge PING and SETTINGS, so only missing windows distinguish them from good clients.
//!
//! ```sh
//! cargo build --release -p ratekeeper-cli
//! cargo run --release -p ratekeeper-bench --bin unread -- target/release/ratekeeper
//! ```
//!
//! Options: `--connections 400`, `--streams 256`, `--seconds 8` (of attack), `--persist` (attackers reconnect, and open
//! a new stream for each one that was refused), `--port http|grpc|admin` (one port only).

#![allow(clippy::print_stdout, reason = "the report is the point")]
#![allow(clippy::expect_used, reason = "a benchmark that cannot run should stop")]

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, sleep},
    time::{Duration, Instant},
};

#[derive(Clone)]
struct Options {
    server: String,
    connections: usize,
    streams: u32,
    seconds: u64,
    is_persistent: bool,
    port: Option<String>,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    println!(
        "{} connections, {} streams each, {} s{}",
        options.connections,
        options.streams,
        options.seconds,
        if options.is_persistent { ", attackers persist" } else { "" }
    );
    println!("port   idle MB  peak +MB  after +MB  p99 idle  p99 attack  failed  served  open at end");
    for port in ["http", "grpc", "admin"] {
        if options.port.as_deref().is_none_or(|only| only == port) {
            measure(port, &options)?;
        }
    }
    Ok(())
}

impl Options {
    fn parse() -> Self {
        let mut options = Self {
            server: String::new(),
            connections: 400,
            streams: 256,
            seconds: 8,
            is_persistent: false,
            port: None,
        };
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number follows the option");
            match word.as_str() {
                "--connections" => options.connections = usize::try_from(number()).expect("fits"),
                "--streams" => options.streams = u32::try_from(number()).expect("fits"),
                "--seconds" => options.seconds = number(),
                "--persist" => options.is_persistent = true,
                "--port" => options.port = words.next(),
                _ => options.server = word,
            }
        }
        assert!(!options.server.is_empty(), "name the program, for example target/release/ratekeeper");
        options
    }
}

fn measure(port: &'static str, options: &Options) -> io::Result<()> {
    let server = Server::start(&options.server)?;
    let address = server.address(port);
    let (before, _) = good_client(port, address, Duration::from_secs(3));
    let idle = server.resident();
    let is_over = Arc::new(AtomicBool::new(false));
    let peak = Arc::new(AtomicUsize::new(0));
    let sampler = {
        let (is_over, peak, status) = (Arc::clone(&is_over), Arc::clone(&peak), server.status());
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                peak.fetch_max(resident(&status), Ordering::Relaxed);
                sleep(Duration::from_millis(20));
            }
        })
    };
    let attack = {
        let options = options.clone();
        thread::spawn(move || attack(port, address, &options))
    };
    let (during, failed) = good_client(port, address, Duration::from_secs(options.seconds));
    let open = attack.join().expect("the attack ends");
    is_over.store(true, Ordering::Relaxed);
    let _ = sampler.join();
    sleep(Duration::from_secs(10));
    let after = server.resident();
    let above = |bytes: usize| bytes.saturating_sub(idle) as f64 / 1e6;
    println!(
        "{port:6} {:7.1}  {:8.1}  {:9.1}  {:7.2}ms  {:8.2}ms  {failed:6}  {:6}  {open:4}",
        idle as f64 / 1e6,
        above(peak.load(Ordering::Relaxed)),
        above(after),
        percentile_99(before),
        percentile_99(during.clone()),
        during.len(),
    );
    Ok(())
}

/// A server process, ended when dropped.
struct Server {
    child: Child,
    ports: BTreeMap<&'static str, u16>,
}

impl Server {
    fn start(program: &str) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg("serve").stdout(Stdio::null()).stderr(Stdio::null());
        let mut ports = BTreeMap::new();
        for wire in ["http", "grpc", "resp", "admin"] {
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            command.arg(format!("--{wire}")).arg(format!("127.0.0.1:{port}"));
            ports.insert(wire, port);
        }
        let server = Self { child: command.spawn()?, ports };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(server.address("admin")).is_err() {
            assert!(Instant::now() < deadline, "the server does not listen");
            sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn address(&self, wire: &str) -> SocketAddr {
        ([127, 0, 0, 1], self.ports[wire]).into()
    }

    fn status(&self) -> String {
        format!("/proc/{}/status", self.child.id())
    }

    fn resident(&self) -> usize {
        resident(&self.status())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes of resident memory, by a process's status file.
fn resident(status: &str) -> usize {
    let status = fs::read_to_string(status).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<usize>().ok()).unwrap_or(0) * 1024
}

/// One attacker's connection.
struct Attacker {
    stream: TcpStream,
    received: Vec<u8>,
    unsent: Vec<u8>,
    next_stream: u32,
}

impl Attacker {
    fn connect(port: &str, address: SocketAddr, streams: u32) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nonblocking(true)?;
        let mut attacker = Self { stream, received: Vec::new(), unsent: preface(0), next_stream: 1 };
        (0..streams).for_each(|_| attacker.open(port));
        Ok(attacker)
    }

    fn open(&mut self, port: &str) {
        self.unsent.extend(request(port, self.next_stream));
        self.next_stream += 2;
    }

    /// Reads and writes what the socket has and takes; an error means that the connection has ended.
    fn step(&mut self, port: &str, is_persistent: bool) -> io::Result<()> {
        let mut piece = [0; 16_384];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        while let Some(Frame { kind, flags, payload, .. }) = next_frame(&mut self.received) {
            match kind {
                SETTINGS if flags & ACK == 0 => self.unsent.extend(frame(SETTINGS, ACK, 0, &[])),
                PING if flags & ACK == 0 => self.unsent.extend(frame(PING, ACK, 0, &payload)),
                HEADERS if flags & END_STREAM != 0 && is_persistent => self.open(port),
                _ => {}
            }
        }
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Runs all attackers on one thread; how many connections are open at the end.
fn attack(port: &str, address: SocketAddr, options: &Options) -> usize {
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let connect = || Attacker::connect(port, address, options.streams).ok();
    let mut attackers: Vec<Option<Attacker>> = (0..options.connections).map(|_| None).collect();
    let mut is_first = true;
    while Instant::now() < end {
        for attacker in &mut attackers {
            if attacker.is_none() && (is_first || options.is_persistent) {
                *attacker = connect();
            }
            if attacker.as_mut().is_some_and(|open| open.step(port, options.is_persistent).is_err()) {
                *attacker = None;
            }
        }
        is_first = false;
        sleep(Duration::from_millis(5));
    }
    attackers.into_iter().flatten().count()
}

/// Requests one after another on one connection, with windows: latencies in milliseconds, and how many failed.
fn good_client(port: &str, address: SocketAddr, time: Duration) -> (Vec<f64>, usize) {
    let (end, mut latencies, mut failed) = (Instant::now() + time, Vec::new(), 0);
    while Instant::now() < end {
        if good_connection(port, address, end, &mut latencies).is_err() {
            failed += 1;
            sleep(Duration::from_millis(10));
        }
    }
    (latencies, failed)
}

fn good_connection(port: &str, address: SocketAddr, end: Instant, latencies: &mut Vec<f64>) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(&preface(65_535))?;
    let (mut received, mut id) = (Vec::new(), 1);
    while Instant::now() < end {
        let start = Instant::now();
        stream.write_all(&request(port, id))?;
        let (mut is_answered, mut has_body) = (false, false);
        while !is_answered {
            let Some(Frame { kind, flags, stream: of, payload }) = next_frame(&mut received) else {
                let mut piece = [0; 16_384];
                match stream.read(&mut piece)? {
                    0 => return Err(ErrorKind::UnexpectedEof.into()),
                    count => received.extend_from_slice(&piece[..count]),
                }
                continue;
            };
            match kind {
                SETTINGS if flags & ACK == 0 => stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
                PING if flags & ACK == 0 => stream.write_all(&frame(PING, ACK, 0, &payload))?,
                DATA if !payload.is_empty() => {
                    has_body = true;
                    let size = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
                    stream.write_all(&frame(WINDOW_UPDATE, 0, 0, &size))?;
                }
                // A response without a body is a refusal.
                HEADERS if flags & END_STREAM != 0 && !has_body => return Err(ErrorKind::Other.into()),
                GOAWAY | RST_STREAM => return Err(ErrorKind::ConnectionReset.into()),
                _ => {}
            }
            is_answered = of == id && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0;
        }
        latencies.push(start.elapsed().as_secs_f64() * 1e3);
        id += 2;
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn percentile_99(mut latencies: Vec<f64>) -> f64 {
    latencies.sort_by(f64::total_cmp);
    latencies.get(latencies.len() * 99 / 100).copied().unwrap_or(f64::NAN)
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn next_frame(received: &mut Vec<u8>) -> Option<Frame> {
    let (head, rest) = received.split_first_chunk::<9>()?;
    let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    let found = Frame { kind: head[3], flags: head[4], stream, payload: rest.get(..length)?.to_vec() };
    received.drain(..9 + length);
    Some(found)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// The connection preface, with the initial window of streams.
fn preface(window: u32) -> Vec<u8> {
    let settings = [&[0, 4][..], &window.to_be_bytes()].concat();
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &settings)].concat()
}

/// A request that needs no token and has a response with a body; HPACK literals without indexing or Huffman codes.
fn request(port: &str, stream: u32) -> Vec<u8> {
    let json: &[(&str, &str)] = &[("content-type", "application/json")];
    let grpc: &[(&str, &str)] = &[("content-type", "application/grpc"), ("te", "trailers")];
    let (method, path, fields, body): (_, _, _, &[u8]) = match port {
        "http" => ("POST", "/v1/check", json, br#"{"domain":"api","key":"u","cost":0}"#),
        "grpc" => ("POST", RATE_LIMIT, grpc, b"\0\0\0\0\x15\x0a\x03api\x12\x0e\x0a\x0c\x0a\x04user\x12\x04u123"),
        _ => ("GET", "/nix", &[], b""),
    };
    let mut block = Vec::new();
    let pseudo = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)];
    for (name, value) in pseudo.iter().chain(fields) {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("below 127"));
            block.extend_from_slice(text.as_bytes());
        }
    }
    if body.is_empty() {
        return frame(HEADERS, END_HEADERS | END_STREAM, stream, &block);
    }
    [frame(HEADERS, END_HEADERS, stream, &block), frame(DATA, END_STREAM, stream, body)].concat()
}

const RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
