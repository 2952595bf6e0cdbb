//! Checks per second: the library with 50 in flight beside redis-benchmark with 50 clients, running the same script with
//! the same numbers on as many keys.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tollgate::{Limiter, Quota, Rule};
use tollgate_redis::RedisStore;

use crate::{Options, server::Server, time::in_flight};

const KEYS: usize = 100_000;
const CHECKS: usize = 100_000;

pub(crate) async fn report(server: &Server, options: &Options) {
    let rules = vec![Rule::token_bucket("a", Quota::per_second(1_000_000))];
    let limiter = server.limiter("client", rules).await;
    let call = listen_in(server, &limiter).await;
    let (mut ours, mut theirs) = (0.0_f64, 0.0_f64);
    for _ in 0..options.rounds.min(5) {
        ours = ours.max(library(&limiter).await);
        theirs = theirs.max(redis_benchmark(server, &call));
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
            let _ = limiter.check(&format!("user:{:012}", call % KEYS)).await.expect("an answer");
        }
    })
    .await;
    CHECKS as f64 / began.elapsed().as_secs_f64()
}

/// The hash and the numbers of a check, as the server heard them.
struct Heard {
    hash: String,
    numbers: Vec<u8>,
}

async fn listen_in(server: &Server, limiter: &Limiter<RedisStore>) -> Heard {
    let stream = TcpStream::connect(server.server.address()).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    (&stream).write_all(b"MONITOR\r\n").expect("a command");
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    lines.read_line(&mut line).expect("an answer");
    // The first makes the script known; the second is how all later ones look.
    for _ in 0..2 {
        let _ = limiter.check("listening").await.expect("an answer");
    }
    loop {
        line.clear();
        lines.read_line(&mut line).expect("what the server heard");
        if let Some((_, words)) = line.trim_end().split_once("\"EVALSHA\" ") {
            let words: Vec<Vec<u8>> = words.split("\" \"").map(|word| unquoted(word.trim_matches('"'))).collect();
            let mut numbers = words.get(3).cloned().unwrap_or_default();
            // This check's deadline is past by the time it is repeated.
            numbers[..8].copy_from_slice(&f64::INFINITY.to_be_bytes());
            return Heard { hash: String::from_utf8(words[0].clone()).expect("hexadecimal"), numbers };
        }
    }
}

/// What `MONITOR` shows as `\x00` is a byte.
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

fn redis_benchmark(server: &Server, call: &Heard) -> f64 {
    let mut child = Command::new("redis-benchmark")
        .args(["-p", &server.server.port().to_string(), "-c", "50", "-n", &CHECKS.to_string()])
        .args(["-r", &KEYS.to_string(), "--csv", "-x", "EVALSHA", &call.hash, "1"])
        .arg("tollgate:1:/client:{user:__rand_int__}")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-benchmark; scripts/parts installs it with redis-tools");
    child.stdin.take().expect("a pipe").write_all(&call.numbers).expect("its last argument");
    let output = child.wait_with_output().expect("its end");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().last().unwrap_or_default();
    let cells: Vec<&str> = line.split("\",\"").collect();
    cells.get(1).and_then(|cell| cell.trim_matches('"').parse().ok()).unwrap_or_default()
}
