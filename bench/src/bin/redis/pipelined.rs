//! Checks of many keys on one connection: the library, a bare `redis` client that calls the minimal script, and the bare
//! client with the library's script and arguments, which is the bound for any client of that script.
//!
//! All have the same number of tasks in a closed loop and take turns in every round. The server's time per call is its
//! CPU time, system calls included.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::Instant,
};

use ratekeeper::{Limiter, Quota, Rule};
use ratekeeper_redis::RedisStore;
use redis::aio::MultiplexedConnection;

use crate::{Options, server::Server, time::FLOOR};

const KEYS: usize = 10_000;
const CHECKS: usize = 100_000;
/// Fields of `INFO`.
const CPU: &[&str] = &["used_cpu_sys", "used_cpu_user"];
const READS: &[&str] = &["total_reads_processed"];

/// The figures of each round.
#[derive(Default)]
struct Rounds {
    per_second: Vec<f64>,
    server_us: Vec<f64>,
    reads: Vec<f64>,
}

pub(crate) async fn report(server: &Server, options: &Options) {
    let limiter = server.limiter("piped-0", vec![Rule::token_bucket("a", Quota::per_second(1_000_000))]).await;
    let connection = server.connection().await;
    let load = redis::cmd("SCRIPT").arg("LOAD").arg(FLOOR).to_owned();
    let hash: String = load.query_async(&mut connection.clone()).await.expect("a script");
    let rounds = options.rounds.min(7);
    println!("checks per second, one token bucket, {KEYS} keys, one connection, median of {rounds} rounds\n");
    println!(
        "| tasks | bare client, minimal script | bare client, our script | library | library ÷ minimal | library ÷ our script | server CPU, µs: minimal | our script | library | calls per read: bare | library |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let (script, argument) = call_of(server, &limiter).await;
    for tasks in [50, 256] {
        let (mut bare, mut same, mut library) = (Rounds::default(), Rounds::default(), Rounds::default());
        for _ in 0..rounds {
            let (from, hash) = (connection.clone(), hash.clone());
            bare.add(server, tasks, move |call| ask_bare(from.clone(), hash.clone(), call)).await;
            let (from, script, argument) = (connection.clone(), script.clone(), argument.clone());
            same.add(server, tasks, move |call| ask_same(from.clone(), script.clone(), argument.clone(), call)).await;
            let limiter = limiter.clone();
            library.add(server, tasks, move |call| check(limiter.clone(), call)).await;
        }
        let (theirs, ours) = (median(&mut bare.per_second), median(&mut library.per_second));
        let same_script = median(&mut same.per_second);
        println!(
            "| {tasks} | {theirs:.0} | {same_script:.0} | {ours:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} | {:.0} |",
            ours / theirs,
            ours / same_script,
            median(&mut bare.server_us),
            median(&mut same.server_us),
            median(&mut library.server_us),
            1.0 / median(&mut bare.reads),
            1.0 / median(&mut library.reads),
        );
    }
    println!();
}

async fn ask_bare(mut connection: MultiplexedConnection, hash: String, call: usize) {
    let key = format!("ratekeeper:1:/floor-0:{{user:{}}}", call % KEYS);
    let mut command = redis::cmd("EVALSHA");
    command.arg(hash).arg(1).arg(key).arg(&[7_u8; 27]);
    let _: i64 = command.query_async(&mut connection).await.expect("a reply");
}

/// The library's script and argument, and a bulk reply.
async fn ask_same(mut connection: MultiplexedConnection, script: String, argument: Vec<u8>, call: usize) {
    let key = format!("ratekeeper:1:/piped-0:{{user:{}}}", call % KEYS);
    let mut command = redis::cmd("EVALSHA");
    command.arg(script).arg(1).arg(key).arg(argument);
    let reply: Vec<u8> = command.query_async(&mut connection).await.expect("a reply");
    assert!(!reply.is_empty(), "the script answers");
}

/// The hash and the argument of the call that a check makes, as the server's monitor shows it. Without a deadline.
async fn call_of(server: &Server, limiter: &Limiter<RedisStore>) -> (String, Vec<u8>) {
    let address = server.server.url();
    let address = address.trim_start_matches("redis://").trim_end_matches('/');
    let mut monitor = TcpStream::connect(address).expect("a server");
    monitor.write_all(b"MONITOR\r\n").expect("a connection");
    let mut lines = BufReader::new(monitor).lines().map(|line| line.expect("a line"));
    assert_eq!(lines.next().as_deref(), Some("+OK"));
    let _ = limiter.check("user:0").await.expect("a reply");
    let line = lines.find(|line| line.contains("\"EVALSHA\"")).expect("a call");
    let words: Vec<Vec<u8>> = quoted(line.split_once("\"EVALSHA\"").expect("a call").1);
    let [hash, _, _, argument] = words.as_slice() else { panic!("other arguments: {line}") };
    let mut argument = argument.clone();
    argument[..8].copy_from_slice(&f64::INFINITY.to_be_bytes());
    (String::from_utf8(hash.clone()).expect("a hash"), argument)
}

/// Quoted words with escapes, as the monitor writes them.
fn quoted(mut text: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    while let Some(start) = text.find('"') {
        let (mut word, mut chars) = (Vec::new(), text[start + 1..].char_indices());
        while let Some((at, char)) = chars.next() {
            let escaped = if char == '\\' { chars.next().map(|(_, char)| char) } else { None };
            match (char, escaped) {
                ('"', _) => {
                    text = &text[start + 1 + at + 1..];
                    break;
                }
                (_, Some('x')) => {
                    let digits: String = chars.by_ref().take(2).map(|(_, digit)| digit).collect();
                    word.push(u8::from_str_radix(&digits, 16).expect("two digits"));
                }
                (_, Some('n')) => word.push(b'\n'),
                (_, Some('r')) => word.push(b'\r'),
                (_, Some('t')) => word.push(b'\t'),
                (_, Some('a')) => word.push(7),
                (_, Some('b')) => word.push(8),
                (plain, None) | (_, Some(plain)) => word.push(u8::try_from(plain).expect("one byte")),
            }
        }
        words.push(word);
    }
    words
}

async fn check(limiter: Limiter<RedisStore>, call: usize) {
    let _ = limiter.check(&format!("user:{}", call % KEYS)).await.expect("a reply");
}

impl Rounds {
    #[allow(clippy::cast_precision_loss, reason = "a report")]
    async fn add<F>(&mut self, server: &Server, tasks: usize, make: impl Fn(usize) -> F + Clone + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (cpu, reads, began) = (server.info(CPU), server.info(READS), Instant::now());
        let callers: Vec<_> = (0..tasks)
            .map(|first| {
                let make = make.clone();
                tokio::spawn(async move {
                    for call in (first..CHECKS).step_by(tasks) {
                        make(call).await;
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.expect("a call");
        }
        self.per_second.push(CHECKS as f64 / began.elapsed().as_secs_f64());
        self.server_us.push((server.info(CPU) - cpu) * 1e6 / CHECKS as f64);
        self.reads.push((server.info(READS) - reads) / CHECKS as f64);
    }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
