//! The RESP wire compared with redis-server and throttlecrab-server, by redis-benchmark in one run.
//!
//!     cargo build --release -p ratekeeper-cli
//!     cargo run --release -p ratekeeper-bench --bin resp
//!
//! The median of five rounds; the servers take turns in every round, so that noise of the machine affects all of them. Every
//! server is a separate process on loopback; redis-benchmark uses 50 connections and 100,000 keys.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark prints, and stops if it cannot run"
)]

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    thread,
};

use ratekeeper_bench::peers::{Peer, ratekeeper, redis, throttlecrab};
use ratekeeper_testkit::servers::{Part, require};

/// A server and the command that is measured.
struct Case {
    server: Peer,
    command: &'static [&'static str],
}

fn main() {
    println!(
        "| server | command | pipeline 1, req/s | × SET | pipeline 16, req/s | × SET |\n|---|---|---|---|---|---|"
    );
    let cases = [
        Case { server: redis(), command: &["SET", "key:__rand_int__", "xxx"] },
        Case {
            server: ratekeeper("ratekeeper", "ietf"),
            command: &["CL.THROTTLE", "key:__rand_int__", "100", "1000", "60"],
        },
        Case { server: throttlecrab(), command: &["THROTTLE", "key:__rand_int__", "100", "1000", "60"] },
    ];
    let mut rates = vec![[const { Vec::new() }; 2]; cases.len()];
    for _ in 0..ROUNDS {
        for (case, rates) in cases.iter().zip(&mut rates) {
            rates[0].push(benchmark(case, 1, 120_000));
            rates[1].push(benchmark(case, 16, 300_000));
        }
    }
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let medians: Vec<[f64; 2]> = rates.iter_mut().map(|[one, many]| [median(one), median(many)]).collect();
    for (case, [one, many]) in cases.iter().zip(&medians) {
        let [set_one, set_many] = medians[0];
        let (name, command) = (case.server.name, case.command[0]);
        println!("| {name} | `{command}` | {one:.0} | {:.2} | {many:.0} | {:.2} |", one / set_one, many / set_many);
    }
    println!("\n| server | resident memory at 1,000,000 keys, above that at start |\n|---|---|");
    for case in &cases {
        let server = &case.server;
        server.restart();
        let before = server.resident();
        fill(case);
        let bytes = server.resident() - before;
        println!("| {} | {:.0} MiB, {} bytes per key |", server.name, bytes as f64 / 1_048_576.0, bytes / KEYS);
    }
}

/// Requests per second.
fn benchmark(case: &Case, pipeline: u32, requests: u32) -> f64 {
    let output = Command::new(require(Part::RedisBenchmark))
        .args(["-c", "50", "-r", "100000", "--csv", "-p"])
        .arg(case.server.resp.to_string())
        .args(["-P", &pipeline.to_string(), "-n", &requests.to_string()])
        .args(case.command)
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let rate = output.lines().nth(1).and_then(|line| line.split("\",\"").nth(1));
    rate.and_then(|rate| rate.parse().ok()).unwrap_or_else(|| panic!("redis-benchmark printed {output:?}"))
}

/// Sends one command for each of a million keys.
fn fill(case: &Case) {
    let mut stream = TcpStream::connect(("127.0.0.1", case.server.resp)).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let mark = b"$4\r\nlast\r\n";
    let reading = thread::spawn(move || {
        let (mut buffer, mut tail) = (vec![0; 1 << 16], Vec::new());
        loop {
            let count = reader.read(&mut buffer).unwrap();
            assert!(count > 0, "the server closed the connection");
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
        // An hour until a key is back in its initial state, so that all of them exist at the end.
        let words: Vec<String> = match case.command {
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
