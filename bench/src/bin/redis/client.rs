//! Checks per second: the library with 50 calls in flight and redis-benchmark with 50 clients, with the same script and the
//! same number of keys.
//!
//! redis-benchmark cuts arguments at a zero byte, and the packed numbers of a call contain zero bytes. They are written into
//! its script instead, so it sends less than the library.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use ratekeeper::{Limiter, Quota, Rule};
use ratekeeper_redis::RedisStore;

use crate::{Options, server::Server, time::in_flight};

const KEYS: usize = 100_000;
const CHECKS: usize = 100_000;

pub(crate) async fn report(server: &Server, options: &Options) {
    let rules = vec![Rule::token_bucket("a", Quota::per_second(1_000_000))];
    let limiter = server.limiter("client", rules).await;
    let hash = capture_script(server, &limiter).await;
    let (mut ours, mut theirs) = (0.0_f64, 0.0_f64);
    for _ in 0..options.rounds.min(5) {
        ours = ours.max(library(&limiter).await);
        theirs = theirs.max(redis_benchmark(server, &hash));
    }
    println!(
        "checks per second, one token bucket, {KEYS} keys, 50 in flight, best of {} rounds\n",
        options.rounds.min(5)
    );
    println!("| library | redis-benchmark -c 50, same EVALSHA | ratio |");
    println!("|---|---|---|");
    println!("| {ours:.0} | {theirs:.0} | {:.2} |\n", ours / theirs);
}

#[allow(clippy::cast_precision_loss, reason = "a report")]
async fn library(limiter: &Limiter<RedisStore>) -> f64 {
    let began = Instant::now();
    let limiter = limiter.clone();
    in_flight(CHECKS, move |call| {
        let limiter = limiter.clone();
        async move {
            let _ = limiter.check(&format!("user:{:012}", call % KEYS)).await.expect("a reply");
        }
    })
    .await;
    CHECKS as f64 / began.elapsed().as_secs_f64()
}

/// Captures a check with `MONITOR` and loads it as a script that needs only the key; returns its hash.
async fn capture_script(server: &Server, limiter: &Limiter<RedisStore>) -> String {
    let stream = TcpStream::connect(server.server.address()).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    (&stream).write_all(b"MONITOR\r\n").expect("a command");
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    lines.read_line(&mut line).expect("a reply");
    let _ = server.server.command(&["SCRIPT", "FLUSH"]).expect_ok();
    let _ = limiter.check("captured").await.expect("a reply");
    // The scripts were flushed, so the call contains the text: text, number of keys, key, numbers.
    let words = loop {
        line.clear();
        lines.read_line(&mut line).expect("a line of MONITOR");
        if let Some((_, words)) = line.trim_end().split_once("\"EVAL\" \"") {
            let words = words.strip_suffix('"').unwrap_or(words);
            break words.split("\" \"").map(unquoted).collect::<Vec<_>>();
        }
    };
    let [text, _, _, numbers] = words.as_slice() else { unreachable!("text, number of keys, key, numbers") };
    let mut numbers = numbers.clone();
    // The deadline of this call would have passed.
    numbers[..8].copy_from_slice(&f64::INFINITY.to_be_bytes());
    let literal: String = numbers.iter().map(|byte| format!("\\{byte:03}")).collect();
    let text = String::from_utf8(text.clone()).expect("a script").replace("ARGV[1]", &format!("'{literal}'"));
    server.server.command(&["SCRIPT", "LOAD", &text]).expect_ok().text()
}

/// Reverts the escapes of `MONITOR`, such as `\x00`.
fn unquoted(word: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = word.bytes();
    while let Some(byte) = bytes.next() {
        match (byte, byte == b'\\') {
            (byte, false) => out.push(byte),
            _ => match bytes.next() {
                Some(b'x') => {
                    let digits = [bytes.next(), bytes.next()]
                        .map(|digit| digit.map_or(0, |digit| char::from(digit).to_digit(16).unwrap_or(0)));
                    out.push(u8::try_from(digits[0] * 16 + digits[1]).unwrap_or(0));
                }
                Some(b'n') => out.push(b'\n'),
                Some(b'r') => out.push(b'\r'),
                Some(b't') => out.push(b'\t'),
                Some(b'a') => out.push(7),
                Some(b'b') => out.push(8),
                Some(other) => out.push(other),
                None => {}
            },
        }
    }
    out
}

fn redis_benchmark(server: &Server, hash: &str) -> f64 {
    let output = Command::new("redis-benchmark")
        .args(["-p", &server.server.port().to_string(), "-c", "50", "-n", &CHECKS.to_string()])
        .args(["-r", &KEYS.to_string(), "--csv", "EVALSHA", hash, "1"])
        .arg("ratekeeper:1:/client:{user:__rand_int__}")
        .stderr(Stdio::inherit())
        .output()
        .expect("redis-benchmark; scripts/parts installs it with redis-tools");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let cells: Vec<&str> = text.lines().last().unwrap_or_default().split("\",\"").collect();
    cells.get(1).and_then(|cell| cell.trim_matches('"').parse().ok()).unwrap_or_default()
}
