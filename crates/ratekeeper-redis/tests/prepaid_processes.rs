//! Prepaid keys of several processes under faults: kill -9, SIGSTOP for longer than an allotment, lost replies, a stalled
//! server, a failover. Every use is recorded with the wall clock before and after its decision, and every window of every
//! length is checked against the rule's bound.
//!
//! The workers are this program, started again with `RATEKEEPER_PREPAID_WORKER`. Rules are `closed` without the store, so
//! that only the store and allotments admit. `RATEKEEPER_FAULT_CYCLES` repeats the faults more often; `scripts/hot-keys
//! processes` sets it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]
#![allow(clippy::print_stdout, reason = "what was admitted is worth reading")]

use std::{
    env,
    fs::{self, File},
    io::Write,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ratekeeper_core::{Ask, OnQuotaChange, OnStoreFailure, Policy, Quota, Rule, Source, Speed, Store, Take, Verb};
use ratekeeper_redis::{RedisConfig, RedisStore};
use ratekeeper_testkit::servers::{FaultProxy, RedisServer, Sentinels, wait_until};

/// The rule of a run, and how its uses are checked.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// A token bucket: permits a second, and burst.
    Bucket(u64, u64),
    /// A sliding log: permits per second.
    Log(u64),
    /// A fixed window of one second.
    Window(u64),
}

impl Limit {
    fn parse(text: &str) -> Self {
        let mut words = text.split(' ');
        let (kind, mut number) = (words.next().unwrap(), || words.next().unwrap().parse().unwrap());
        match kind {
            "bucket" => Self::Bucket(number(), number()),
            "log" => Self::Log(number()),
            _ => Self::Window(number()),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Bucket(rate, burst) => format!("bucket {rate} {burst}"),
            Self::Log(limit) => format!("log {limit}"),
            Self::Window(limit) => format!("window {limit}"),
        }
    }

    fn policy(self) -> Policy {
        let rule = match self {
            Self::Bucket(rate, burst) => Rule::token_bucket("rule", Quota::per_second(rate).burst(burst)),
            Self::Log(limit) => Rule::sliding_log("rule", Quota::per_second(limit)),
            Self::Window(limit) => Rule::fixed_window("rule", Quota::per_second(limit)),
        };
        let policy = Policy::new("processes", [rule.on_store_failure(OnStoreFailure::Closed)]).unwrap();
        policy.with_speed(Speed::prepaid())
    }

    /// The most permits by which any window was certainly exceeded: only uses that lie within it as a whole are counted.
    fn excess(self, uses: &[Use]) -> i64 {
        let mut begins: Vec<i64> = uses.iter().map(|used| used.invoked).collect();
        // Both times are rounded down, so a window may be a microsecond longer than it seems.
        let mut ends: Vec<i64> = uses.iter().map(|used| used.completed + 1).collect();
        begins.sort_unstable();
        ends.sort_unstable();
        let before = |times: &[i64], at: i64| i64::try_from(times.partition_point(|time| *time < at)).unwrap();
        match self {
            // The most of (ended by b − begun before a) − rate × (b − a), over all a ≤ b: in one pass over all b.
            Self::Bucket(rate, burst) => {
                let refill = |span: i64| i128::from(span) * i128::from(rate);
                let (mut best, mut worst, mut next) = (i128::MIN, i128::MIN, 0);
                for (index, end) in ends.iter().enumerate() {
                    while next < begins.len() && begins[next] <= *end {
                        best = best.max(refill(begins[next]) - 1_000_000 * i128::try_from(next).unwrap());
                        next += 1;
                    }
                    worst = worst.max(1_000_000 * i128::try_from(index + 1).unwrap() - refill(*end) + best);
                }
                let over = worst - 1_000_000 * i128::from(burst);
                // A part of a permit too many is a permit too many.
                i64::try_from(-(-over).div_euclid(1_000_000)).unwrap()
            }
            Self::Log(limit) => {
                let inside = |from: &i64| before(&ends, from + 1_000_000) - before(&begins, *from);
                begins.iter().map(inside).max().unwrap_or_default() - i64::try_from(limit).unwrap()
            }
            Self::Window(limit) => {
                let window = |time: i64| time - time.rem_euclid(1_000_000);
                let inside = |from: i64| before(&ends, from + 1_000_000) - before(&begins, from);
                let most = begins.iter().map(|time| inside(window(*time))).max().unwrap_or_default();
                most - i64::try_from(limit).unwrap()
            }
        }
    }

    /// What a lost state may admit once more.
    fn whole(self) -> i64 {
        match self {
            Self::Bucket(_, limit) | Self::Log(limit) | Self::Window(limit) => i64::try_from(limit).unwrap(),
        }
    }
}

/// An admitted request: wall clock in µs before and after its decision.
#[derive(Clone, Copy, Debug)]
struct Use {
    invoked: i64,
    completed: i64,
}

fn wall() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// The worker: asks for one key until it is ended, and writes every use to its file. Without the variable, nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn worker() {
    let Ok(settings) = env::var("RATEKEEPER_PREPAID_WORKER") else { return };
    let mut lines = settings.lines();
    let (url, limit, file) = (lines.next().unwrap(), Limit::parse(lines.next().unwrap()), lines.next().unwrap());
    let mut out = File::create(file).unwrap();
    let config = RedisConfig::default().deadline(Duration::from_millis(200));
    let store = RedisStore::connect_with(url, config).await.unwrap();
    let policy = store.install(limit.policy(), OnQuotaChange::Keep).unwrap();
    let begun = Instant::now();
    let mut by_allotment = 0_u64;
    // The parent ends this process; the bound is for a parent that was ended itself.
    while begun.elapsed() < Duration::from_secs(600) {
        let mut record = String::new();
        for _ in 0..10 {
            let invoked = wall();
            let decided = store.decide(&[Ask::new(&policy, "key")], Verb::Take(Take::now())).await;
            if let Ok(decision) = decided
                && decision.is_allowed()
            {
                by_allotment += u64::from(decision.source == Source::Allotment);
                record.push_str(&format!("{invoked} {} {by_allotment}\n", wall()));
            }
        }
        out.write_all(record.as_bytes()).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The workers of one run.
struct Workers {
    url: String,
    limit: Limit,
    directory: PathBuf,
    running: Vec<Child>,
    files: Vec<PathBuf>,
}

impl Workers {
    fn start(name: &str, url: &str, limit: Limit, number: usize) -> Self {
        let directory = env::temp_dir().join(format!("ratekeeper-prepaid-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let mut workers = Self { url: url.to_owned(), limit, directory, running: Vec::new(), files: Vec::new() };
        for _ in 0..number {
            workers.spawn();
        }
        workers
    }

    fn spawn(&mut self) {
        let file = self.directory.join(format!("worker-{}", self.files.len()));
        let settings = format!("{}\n{}\n{}", self.url, self.limit.text(), file.display());
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "worker", "--nocapture"])
            .env("RATEKEEPER_PREPAID_WORKER", settings)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.running.push(child);
        self.files.push(file);
    }

    /// Ends a worker as by the kernel, without warning, and starts another.
    fn replace(&mut self, index: usize) {
        let mut child = self.running.remove(index % self.running.len());
        child.kill().unwrap();
        child.wait().unwrap();
        self.spawn();
    }

    fn pause(&self, index: usize, span: Duration) {
        let id = self.running[index % self.running.len()].id().to_string();
        let signal = |name: &str| assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
        signal("-STOP");
        thread::sleep(span);
        signal("-CONT");
    }

    /// Uses recorded so far, and how many of them were admitted by an allotment.
    fn uses(&self) -> (Vec<Use>, u64) {
        let (mut uses, mut by_allotment) = (Vec::new(), 0);
        for file in &self.files {
            let text = fs::read_to_string(file).unwrap_or_default();
            // The last line of a worker that was ended may be cut.
            let lines = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let mut last = 0;
            for line in lines.lines() {
                let mut numbers = line.split(' ').map(|number| number.parse::<i64>().unwrap());
                let (invoked, completed) = (numbers.next().unwrap(), numbers.next().unwrap());
                last = numbers.next().unwrap();
                uses.push(Use { invoked, completed });
            }
            by_allotment += u64::try_from(last).unwrap();
        }
        (uses, by_allotment)
    }

    /// Waits until this many more uses were recorded.
    fn wait_for_uses(&self, more: usize) {
        let before = self.uses().0.len();
        wait_until("more uses", Duration::from_secs(60), || self.uses().0.len() >= before + more);
    }

    /// Ends all workers and checks every window. `losses` is how often the server's state may have been lost.
    fn check(mut self, name: &str, losses: i64) {
        for child in &mut self.running {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let (uses, by_allotment) = self.uses();
        let excess = self.limit.excess(&uses);
        let span = uses.iter().map(|used| used.completed).max().unwrap_or_default()
            - uses.iter().map(|used| used.invoked).min().unwrap_or_default();
        println!(
            "{name}: {} uses in {} ms, {by_allotment} by allotments; fullest window {} below its bound",
            uses.len(),
            span / 1_000,
            losses * self.limit.whole() - excess
        );
        assert!(excess <= losses * self.limit.whole(), "{name}: {excess} too many in one window");
        assert!(by_allotment * 2 > u64::try_from(uses.len()).unwrap(), "{name}: {by_allotment} of {}", uses.len());
        fs::remove_dir_all(&self.directory).unwrap();
    }
}

/// The check counts what is too much, and nothing else.
#[test]
fn the_checks_find_one_use_too_many() {
    let uses = |times: &[i64]| times.iter().map(|at| Use { invoked: *at, completed: *at + 5 }).collect::<Vec<_>>();
    let at_once: Vec<i64> = (0..11).map(|index| 1_000_000 + 10 * index).collect();
    for limit in [Limit::Bucket(1, 10), Limit::Log(10), Limit::Window(10)] {
        assert_eq!(limit.excess(&uses(&at_once)), 1, "{limit:?}");
        assert_eq!(limit.excess(&uses(&at_once[..10])), 0, "{limit:?}");
    }
    // Ten at once and one a second later: a bucket refills one, a log has room again.
    let spread = [&at_once[..10], &[2_000_200]].concat();
    for limit in [Limit::Bucket(1, 10), Limit::Log(10), Limit::Window(10)] {
        assert!(limit.excess(&uses(&spread)) <= 0, "{limit:?}");
    }
}

fn cycles() -> usize {
    env::var("RATEKEEPER_FAULT_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// Longer than an allotment, which lasts a second under these rules.
const LONGER_THAN_AN_ALLOTMENT: Duration = Duration::from_millis(1_500);

fn faults(name: &str, limit: Limit) {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let mut workers = Workers::start(name, &proxy.url(), limit, 3);
    for cycle in 0..cycles() {
        workers.wait_for_uses(500);
        workers.replace(cycle);
        workers.wait_for_uses(300);
        workers.pause(cycle, LONGER_THAN_AN_ALLOTMENT);
        workers.wait_for_uses(300);
        proxy.swallow_next_replies(20);
        workers.wait_for_uses(300);
        proxy.delay_replies(Duration::from_millis(60));
        thread::sleep(Duration::from_millis(400));
        proxy.pass();
        workers.wait_for_uses(300);
        server.pause();
        thread::sleep(LONGER_THAN_AN_ALLOTMENT);
        server.resume();
        workers.wait_for_uses(300);
        proxy.reset();
    }
    workers.wait_for_uses(500);
    workers.check(name, 0);
}

#[test]
fn a_token_bucket_is_never_exceeded() {
    faults("token bucket", Limit::Bucket(600, 600));
}

#[test]
fn a_sliding_log_is_never_exceeded() {
    faults("sliding log", Limit::Log(600));
}

#[test]
fn a_fixed_window_is_never_exceeded() {
    faults("fixed window", Limit::Window(600));
}

/// The writes that a replica has not received are lost, with the records of allotments: one limit per failover at most.
#[test]
fn a_failover_costs_one_limit_at_most() {
    let servers = Sentinels::start();
    for sentinel in servers.sentinels() {
        // A busy machine is not a dead primary.
        let words = ["SENTINEL", "SET", "mymaster", "down-after-milliseconds", "3000"];
        let _ = sentinel.command(&words).expect_ok();
    }
    let workers = Workers::start("failover", &servers.url(), Limit::Bucket(600, 600), 3);
    let kills = cycles().div_ceil(2);
    for _ in 0..kills {
        workers.wait_for_uses(800);
        let old = servers.primary();
        old.kill();
        servers.wait_for_failover(old, Duration::from_secs(30));
        workers.wait_for_uses(800);
        old.restart();
    }
    let losses = i64::try_from(servers.failovers().max(kills)).unwrap();
    workers.check("failover", losses);
}
