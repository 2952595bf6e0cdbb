//! The scripts of `docs/lua.md`, run in a real Redis: every number on the page, and the rule's number for the same requests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::{fs, path::Path};

use ratekeeper_core::{Ask, Immediate, ManualClock, OnQuotaChange, Policy, Quota, Rule, Store, Take, Timestamp, Verb};
use ratekeeper_memory::MemoryStore;
use ratekeeper_testkit::servers::RedisServer;
use redis::{Connection, cmd};

const MINUTE_MS: u64 = 60_000;

/// The page, and the script below each heading.
struct LuaPage {
    text: String,
}

impl LuaPage {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lua.md");
        Self { text: fs::read_to_string(path).unwrap() }
    }

    fn script(&self, heading: &str) -> &str {
        let section = self.text.split(&format!("\n## {heading}\n")).nth(1).unwrap();
        section.split("```lua\n").nth(1).unwrap().split("```").next().unwrap()
    }

    /// The row of the first table that has this cause says what was measured.
    #[track_caller]
    fn says(&self, cause: &str, script: &str, rule: &str) {
        let row = self.text.lines().find(|line| line.starts_with('|') && line.contains(cause)).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!((cells[3], cells[5]), (script, rule), "{row}");
    }
}

fn connect(server: &RedisServer) -> Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

/// Runs a script; true if it admits.
fn admits(redis: &mut Connection, script: &str, key: &str, args: &[String]) -> bool {
    cmd("EVAL").arg(script).arg(1).arg(key).arg(args).query::<u64>(redis).unwrap() == 1
}

fn ttl(redis: &mut Connection, key: &str) -> i64 {
    cmd("TTL").arg(key).query(redis).unwrap()
}

fn args<const N: usize>(numbers: [u64; N]) -> Vec<String> {
    numbers.map(|number| number.to_string()).to_vec()
}

/// How many requests at these times, in milliseconds, the rule admits.
fn admitted_by(rule: Rule, times: impl IntoIterator<Item = u64>) -> usize {
    let clock = ManualClock::at(Timestamp::from_secs(1_700_000_040));
    let began = clock.now();
    let store = MemoryStore::with_clock(clock.clone());
    let policy = store.install(Policy::new("page", [rule]).unwrap(), OnQuotaChange::Keep).unwrap();
    let admitted = times.into_iter().filter(|millis| {
        clock.set(began + ratekeeper_core::Span::from_millis(*millis));
        let ask = Ask::new(&policy, "user");
        Immediate::decide_now(&store, &[ask], &Verb::Take(Take::now())).unwrap().is_allowed()
    });
    admitted.count()
}

fn five_a_minute() -> Rule {
    Rule::sliding_log("minute", Quota::per_minute(5))
}

#[test]
fn incr_and_expire() {
    let (server, page) = (RedisServer::start(), LuaPage::read());
    let mut redis = connect(&server);
    let script = page.script("INCR and EXPIRE");
    let times = [59_900; 6].into_iter().chain([60_100; 6]);
    let admitted = times.clone().filter(|millis| {
        let key = format!("rate:user:{}", millis / MINUTE_MS);
        admits(&mut redis, script, &key, &args([60, 5]))
    });
    let admitted = admitted.count();
    let by_rule = admitted_by(five_a_minute(), times);
    page.says("two windows meet", &format!("{admitted} admitted within 200 ms"), &by_rule.to_string());
    assert_eq!((admitted, by_rule), (10, 5));

    // The client has stopped after INCR; the next ones use the same script.
    let _: u64 = cmd("INCR").arg("rate:lost:0").query(&mut redis).unwrap();
    let later: Vec<bool> = (0..10).map(|_| admits(&mut redis, script, "rate:lost:0", &args([60, 5]))).collect();
    assert_eq!(later.iter().filter(|admitted| **admitted).count(), 4, "then none, however long it waits");
    assert_eq!(ttl(&mut redis, "rate:lost:0"), -1);
    page.says("the client stops between", "refused forever, TTL −1", "TTL set with the value");
}

#[test]
fn a_list_of_times() {
    let (server, page) = (RedisServer::start(), LuaPage::read());
    let mut redis = connect(&server);
    let script = page.script("A list of times");
    let now = 1_700_000_000_000;
    let mut at = |clock: u64| admits(&mut redis, script, "list", &args([clock, MINUTE_MS, 5]));
    let here = (0..6).filter(|_| at(now)).count();
    let ahead = (0..6).filter(|_| at(now + MINUTE_MS)).count();
    page.says("a minute ahead", &format!("{} admitted at once", here + ahead), "5");
    assert_eq!((here, ahead), (5, 5));
    assert_eq!(admitted_by(five_a_minute(), [0; 12]), 5, "the rule has one clock");
    assert_eq!(ttl(&mut redis, "list"), -1);
    page.says("never deleted", "TTL −1", "gone after the window");
}

#[test]
fn a_sorted_set() {
    let (server, page) = (RedisServer::start(), LuaPage::read());
    let mut redis = connect(&server);
    let script = page.script("A sorted set");
    let mut ask = |key: &str, now: u64, member: u64| {
        admits(&mut redis, script, key, &args([1_700_000_000_000 + now, MINUTE_MS, 5, member]))
    };
    let every_second = || (0..600).map(|second| second * 1_000);
    let admitted = every_second().filter(|now| ask("hammer", *now, *now)).count();
    let by_rule = admitted_by(five_a_minute(), every_second());
    page.says("refused requests are counted", &format!("{admitted} admitted in 10 minutes"), &by_rule.to_string());
    assert_eq!((admitted, by_rule), (5, 50));

    (0..600).for_each(|request| _ = ask("flood", request * 100, request));
    let same = (0..10).filter(|_| ask("same", 0, 1_700_000_000_000)).count();
    page.says("in one millisecond", &format!("{same} of 10 admitted"), "5");
    assert_eq!(admitted_by(five_a_minute(), [0; 10]), 5);
    let entries = |redis: &mut Connection, key: &str| cmd("ZCARD").arg(key).query::<u64>(redis).unwrap();
    assert_eq!(entries(&mut redis, "hammer"), 60);
    page.says(
        "and stored",
        &format!("{} entries, of 5 admissions", entries(&mut redis, "flood")),
        "a denial writes nothing",
    );
}

#[test]
fn a_hash_as_bucket() {
    let (server, page) = (RedisServer::start(), LuaPage::read());
    let mut redis = connect(&server);
    let script = page.script("A hash as bucket");
    let times = || (0..100).map(|request| request * 900);
    let admitted =
        times().filter(|now| admits(&mut redis, script, "hash", &args([1_700_000_000_000 + now, 5, 1]))).count();
    let by_rule = admitted_by(Rule::token_bucket("second", Quota::per_second(1).burst(5)), times());
    page.says("fractions of a token", &format!("{admitted} of 100 admitted"), &by_rule.to_string());
}

/// Ten clients read before any of them writes; then ten requests of one decision each.
#[test]
fn get_compare_set() {
    let (server, page) = (RedisServer::start(), LuaPage::read());
    let mut clients: Vec<Connection> = (0..10).map(|_| connect(&server)).collect();
    let _: () = cmd("SET").arg("count").arg(4).query(&mut clients[0]).unwrap();
    let read: Vec<u64> = clients.iter_mut().map(|client| cmd("GET").arg("count").query(client).unwrap()).collect();
    let mut admitted = 0;
    for (client, count) in clients.iter_mut().zip(read) {
        if count < 5 {
            let _: () = cmd("SET").arg("count").arg(count + 1).query(client).unwrap();
            admitted += 1;
        }
    }
    assert_eq!(admitted_by(five_a_minute(), [0; 14]), 5, "four, and one of the ten");
    page.says("read the same count", &format!("{admitted} admitted with 1 left"), "1");
}
