//! The RESP wire beside redis-server and throttlecrab-server, all asked by redis-benchmark in one run.
//!
//!     cargo build --release -p tollgate-cli
//!     cargo run --release -p tollgate-bench --bin resp
//!
//! Five rounds, each server in turn, the median counts: what else the machine does hits all of them alike. Every server
//! is a process of its own on loopback; redis-benchmark uses 50 connections and 100,000 keys.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark talks, and stops"
)]

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    thread,
};

use tollgate_bench::contestants::{Contestant, redis, throttlecrab, tollgate};
use tollgate_testkit::servers::{Part, require};

/// A server and the command that it is asked.
struct Contender {
    server: Contestant,
    asks: &'static [&'static str],
}

fn main() {
    println!(
        "| server | command | pipeline 1, req/s | × SET | pipeline 16, req/s | × SET |\n|---|---|---|---|---|---|"
    );
    let contenders = [
        Contender { server: redis(), asks: &["SET", "key:__rand_int__", "xxx"] },
        Contender {
            server: tollgate("tollgate", "ietf"),
            asks: &["CL.THROTTLE", "key:__rand_int__", "100", "1000", "60"],
        },
        Contender { server: throttlecrab(), asks: &["THROTTLE", "key:__rand_int__", "100", "1000", "60"] },
    ];
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
        let (name, command) = (contender.server.name, contender.asks[0]);
        println!("| {name} | `{command}` | {one:.0} | {:.2} | {many:.0} | {:.2} |", one / set_one, many / set_many);
    }
    println!("\n| server | resident memory at 1,000,000 keys, above that at start |\n|---|---|");
    for contender in &contenders {
        let server = &contender.server;
        server.restart();
        let before = server.resident();
        fill(contender);
        let bytes = server.resident() - before;
        println!("| {} | {:.0} MiB, {} bytes per key |", server.name, bytes as f64 / 1_048_576.0, bytes / KEYS);
    }
}

/// Requests per second.
fn benchmark(contender: &Contender, pipeline: u32, requests: u32) -> f64 {
    let output = Command::new(require(Part::RedisBenchmark))
        .args(["-c", "50", "-r", "100000", "--csv", "-p"])
        .arg(contender.server.resp.to_string())
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
    let mut stream = TcpStream::connect(("127.0.0.1", contender.server.resp)).unwrap();
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

const ROUNDS: usize = 5;
const KEYS: u64 = 1_000_000;
