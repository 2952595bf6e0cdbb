//! Prepaid keys: allotments and remembered denials on a real server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::time::{Duration, Instant};

use ratekeeper_core::{
    Ask, Decision, OnQuotaChange, Policy, Quota, Rule, Source, Span, Speed, Store, Take, Verb, Verdict,
};
use ratekeeper_redis::{Counts, RedisConfig, RedisPolicy, RedisStore};
use ratekeeper_testkit::servers::RedisServer;

/// Deadline that a busy machine does not exceed.
const PATIENT: Duration = Duration::from_secs(20);

async fn connect(server: &RedisServer) -> RedisStore {
    RedisStore::connect_with(&server.url(), RedisConfig::default().deadline(PATIENT)).await.unwrap()
}

fn install(store: &RedisStore, rules: Vec<Rule>) -> RedisPolicy {
    let policy = Policy::new("prepaid", rules).unwrap().with_speed(Speed::prepaid());
    assert!(policy.prepaid().is_some());
    store.install(policy, OnQuotaChange::Keep).unwrap()
}

fn bucket(limit: u64) -> Vec<Rule> {
    vec![Rule::token_bucket("bucket", Quota::per_second(limit))]
}

async fn decide(store: &RedisStore, policy: &RedisPolicy, cost: u64, verb: Verb) -> Decision {
    store.decide(&[Ask::new(policy, "key").cost(cost)], verb).await.unwrap()
}

async fn take(store: &RedisStore, policy: &RedisPolicy) -> Decision {
    decide(store, policy, 1, Verb::Take(Take::now())).await
}

/// Asks in a loop for a time, yielding now and then. Returns the decisions by source: allowed and denied.
async fn hammer(store: &RedisStore, policy: &RedisPolicy, span: Duration) -> (u64, u64) {
    let (start, mut allowed, mut denied) = (Instant::now(), 0, 0);
    while start.elapsed() < span {
        for _ in 0..20 {
            match take(store, policy).await.is_allowed() {
                true => allowed += 1,
                false => denied += 1,
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (allowed, denied)
}

fn assert_books(counts: &Counts) {
    let spent = counts.allotment_used + counts.allotment_returned + counts.allotment_expired + counts.allotment_lost;
    assert_eq!(counts.allotment_granted, spent + counts.allotment_held, "{counts:?}");
}

/// Script calls so far.
fn script_calls(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text();
    let calls = |line: &str| line.split_once(":calls=")?.1.split(',').next()?.parse::<u64>().ok();
    stats.lines().filter(|line| line.starts_with("cmdstat_eval")).filter_map(calls).sum()
}

/// A busy key is decided in the process: far fewer calls than decisions, and never more than the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_is_decided_with_few_calls() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let policy = install(&store, bucket(1_000_000));
    let (allowed, denied) = hammer(&store, &policy, Duration::from_secs(2)).await;
    let (calls, counts) = (script_calls(&server), store.counts());
    assert_books(&counts);
    assert_eq!(denied, 0, "{counts:?}");
    assert!(counts.decided_by_allotment * 10 > allowed * 8, "{allowed} allowed, {calls} calls: {counts:?}");
    assert!(calls * 20 < allowed, "{allowed} allowed, {calls} calls: {counts:?}");
}

/// Several processes' stores on one key, demand above the limit: all uses stay within the bucket's bound in every window,
/// and most of the limit is used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_stores_share_one_limit_exactly() {
    const LIMIT: u64 = 2_000;
    let server = RedisServer::start();
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let store = connect(&server).await;
        let policy = install(&store, bucket(LIMIT));
        tasks.push(tokio::spawn(async move {
            let mut uses: Vec<u64> = Vec::new();
            while begin.elapsed() < Duration::from_secs(4) {
                for _ in 0..20 {
                    // Counted at the earliest time at which the use can have been decided.
                    let asked = begin.elapsed();
                    let decision = take(&store, &policy).await;
                    if decision.is_allowed() {
                        uses.push(u64::try_from(asked.as_micros()).unwrap());
                    } else if decision.source == Source::CachedDenial {
                        assert_eq!(decision.remaining(), 0, "{decision:?}");
                        assert!(!decision.rules[0].is_allowed(), "{decision:?}");
                    }
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            assert_books(&store.counts());
            (uses, store.counts())
        }));
    }
    let mut uses = Vec::new();
    let mut all = Vec::new();
    for task in tasks {
        let (own, counts) = task.await.unwrap();
        uses.extend(own);
        all.push(counts);
    }
    let span = begin.elapsed().as_secs_f64();
    // One-sided: over the whole run, which began with a full bucket, no more than the burst and the refill.
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let (admitted, bound) = (uses.len() as f64, LIMIT as f64 * (1.0 + span));
    assert!(admitted <= bound, "{admitted} admitted of {bound}: {all:?}");
    assert!(admitted >= 0.7 * bound, "{admitted} admitted of {bound}: {all:?}");
    assert!(all.iter().all(|counts| counts.decided_by_allotment > 0), "{all:?}");
    assert!(all.iter().any(|counts| counts.cached_denials > 0), "{all:?}");
}

/// An idle holder returns what it does not use: another process gets the whole limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_holder_returns_its_permits() {
    let server = RedisServer::start();
    let (first, second) = (connect(&server).await, connect(&server).await);
    let rules = || vec![Rule::fixed_window("hour", Quota::per_hour(100_000))];
    let (policy, other) = (install(&first, rules()), install(&second, rules()));
    let (allowed, _) = hammer(&first, &policy, Duration::from_millis(600)).await;
    assert!(first.counts().allotment_held > 0, "{:?}", first.counts());

    let deadline = Instant::now() + PATIENT;
    while first.counts().allotment_held > 0 {
        assert!(Instant::now() < deadline, "{:?}", first.counts());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_books(&first.counts());
    // The call that returned them may still be in flight.
    let remaining = loop {
        let peeked = decide(&second, &other, 0, Verb::Peek).await;
        if peeked.remaining() + allowed == 100_000 || Instant::now() > deadline {
            break peeked.remaining();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(remaining + allowed, 100_000, "{:?}", first.counts());
}

/// A process that ends returns its permits at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ends_returns_its_permits() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let policy = install(&store, vec![Rule::sliding_log("hour", Quota::per_hour(50_000))]);
    let (allowed, _) = hammer(&store, &policy, Duration::from_millis(600)).await;
    assert!(store.counts().allotment_held > 0, "{:?}", store.counts());
    store.return_allotments().await;
    let counts = store.counts();
    assert_eq!(counts.allotment_held, 0, "{counts:?}");
    assert_books(&counts);

    let exact = connect(&server).await;
    let other = install(&exact, vec![Rule::sliding_log("hour", Quota::per_hour(50_000))]);
    assert_eq!(decide(&exact, &other, 0, Verb::Peek).await.remaining() + allowed, 50_000);
}

/// A denial is repeated without a call; a permit that comes back here clears it at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denials_are_remembered_until_permits_come_back() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let policy = install(&store, vec![Rule::fixed_window("day", Quota::per_day(5))]);
    for _ in 0..5 {
        assert!(take(&store, &policy).await.is_allowed());
    }
    let denied = take(&store, &policy).await;
    assert_eq!(denied.source, Source::Store);
    assert!(!denied.is_allowed());
    let before = script_calls(&server);
    let begin = Instant::now();
    let mut cached = 0;
    for _ in 0..1_000 {
        let again = take(&store, &policy).await;
        assert!(!again.is_allowed());
        cached += u64::from(again.source == Source::CachedDenial);
        if again.source == Source::CachedDenial {
            let (Verdict::Deny { retry_after }, Verdict::Deny { retry_after: stated }) =
                (again.verdict, denied.verdict)
            else {
                panic!("{again:?}");
            };
            assert!(retry_after <= stated && stated - retry_after < Span::MINUTE, "{retry_after} after {stated}");
            assert_eq!((again.remaining(), again.limit()), (0, 5));
        }
    }
    // A call every 50 ms at most.
    let calls = script_calls(&server) - before;
    let turns = begin.elapsed().as_millis() / 20 + 2;
    assert!(u128::from(calls) <= turns && cached > 0, "{calls} calls in {:?}, {cached} cached", begin.elapsed());

    let _ = decide(&store, &policy, 1, Verb::Refund { at: None }).await;
    assert!(take(&store, &policy).await.is_allowed());
}

/// A larger cost than the denied one is denied as well; a smaller one asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_smaller_cost_is_not_denied_by_a_larger_one() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let policy = install(&store, vec![Rule::fixed_window("day", Quota::per_day(40))]);
    let now = Verb::Take(Take::now());
    for _ in 0..4 {
        assert!(decide(&store, &policy, 9, now).await.is_allowed());
    }
    assert!(!decide(&store, &policy, 9, now).await.is_allowed());
    assert!(decide(&store, &policy, 4, now).await.is_allowed());
    assert!(!decide(&store, &policy, 9, now).await.is_allowed());
}

/// A block and a reset take effect here at once, although permits are held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_stops_a_hot_key() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let policy = install(&store, bucket(100_000));
    let _ = hammer(&store, &policy, Duration::from_millis(400)).await;
    assert!(store.counts().decided_by_allotment > 0);
    let _ = decide(&store, &policy, 0, Verb::Block { span: Span::MINUTE }).await;
    for _ in 0..50 {
        assert!(!take(&store, &policy).await.is_allowed());
    }
    let _ = decide(&store, &policy, 0, Verb::Block { span: Span::ZERO }).await;
    assert!(take(&store, &policy).await.is_allowed());
    assert_books(&store.counts());
}

/// The server's state is lost while permits are held: the key goes on, and is charged for what was used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_state_is_charged_again() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let rules = || vec![Rule::fixed_window("day", Quota::per_day(1_000_000))];
    let policy = install(&store, rules());
    let _ = hammer(&store, &policy, Duration::from_millis(500)).await;
    let _ = server.command(&["FLUSHALL"]);
    let (allowed, _) = hammer(&store, &policy, Duration::from_millis(1_500)).await;
    let counts = store.counts();
    assert!(allowed > 0 && counts.allotment_unknown > 0, "{counts:?}");
    store.return_allotments().await;
    let used = 1_000_000 - decide(&store, &policy, 0, Verb::Peek).await.remaining();
    // What was used since the flush is charged; of what was used before, at most what was not reported.
    assert!(used >= allowed, "{used} used, {allowed} allowed: {counts:?}");
}

/// A waiter at the store's queue is not overtaken for long: held permits are returned, and it gets its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_request_recalls_what_is_held() {
    let server = RedisServer::start();
    let (store, other) = (connect(&server).await, connect(&server).await);
    let (policy, waiting) = (install(&store, bucket(1_000)), install(&other, bucket(1_000)));
    let hammered = tokio::spawn(async move {
        let counts = hammer(&store, &policy, Duration::from_secs(2)).await;
        assert_books(&store.counts());
        counts
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let patient = Verb::Take(Take::within(Span::from_secs(5)));
    let decision = decide(&other, &waiting, 100, patient).await;
    assert!(decision.is_allowed(), "{decision:?}");
    let _ = hammered.await.unwrap();
}

/// One process has the policy as prepaid and another as exact: slower, but the limit holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepaid_and_exact_processes_share_one_limit() {
    const LIMIT: u64 = 30_000;
    let server = RedisServer::start();
    let (prepaid, exact) = (connect(&server).await, connect(&server).await);
    let rules = || vec![Rule::fixed_window("day", Quota::per_day(LIMIT))];
    let policy = install(&prepaid, rules());
    let other = exact.install(Policy::new("prepaid", rules()).unwrap(), OnQuotaChange::Keep).unwrap();
    let span = Duration::from_secs(3);
    let (first, second) = tokio::join!(hammer(&prepaid, &policy, span), hammer(&exact, &other, span));
    prepaid.return_allotments().await;
    assert!(prepaid.counts().decided_by_allotment > 0, "{:?}", prepaid.counts());
    let used = LIMIT - decide(&exact, &other, 0, Verb::Peek).await.remaining();
    // What is held when the value is converted is charged as well.
    assert!(used >= first.0 + second.0 || used == LIMIT, "{used} used, {first:?} and {second:?}");
    assert!(first.0 + second.0 <= LIMIT, "{first:?} and {second:?}");
}

/// The scripts of the release before allotments, as they are committed for a policy that is not prepaid, read a value with
/// allotments as not theirs: they return it, and change nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_without_allotments_does_not_misread_their_values() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let policy = install(&store, bucket(1_000));
    let _ = hammer(&store, &policy, Duration::from_millis(500)).await;
    let name = "ratekeeper:1:/prepaid:{key}";
    let value = server.command(&["GET", name]);
    let before = value.bytes().to_vec();
    assert_eq!(before[0], b'V', "{before:?}");

    #[allow(clippy::cast_precision_loss, reason = "a tag is below 2^53")]
    let number = tag_of(&before) as f64;
    let numbers = |numbers: &[f64]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    // A bucket of 1 000 a second: deadline, cost, tag, capacity, unit, drain, max_wait, tolerance.
    let take = numbers(&[f64::INFINITY, 1.0, number, 1e6, 1e3, 1.0, 0.0, 1e5]);
    // Deadline, runs, tag, capacity, unit, drain, tolerance; one run of one take of 1.
    let merge = numbers(&[f64::INFINITY, 1.0, number, 1e6, 1e3, 1.0, 1e5, 1.0, 1.0, 0.0, 0.0]);
    for (script, argument) in [("take_token_bucket", take), ("merge_token_bucket", merge)] {
        let file = format!("{}/lua/assembled/{script}.lua", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(file).unwrap();
        let text = text.split_once("#!lua").map(|(_, code)| format!("#!lua{code}")).unwrap();
        let reply = server.command(&[b"EVAL".as_slice(), text.as_bytes(), b"1", name.as_bytes(), &argument]);
        let reply = reply.bytes();
        assert_eq!(&reply[..6], [0, 0, 0, 0, 0, 4], "{script}: {reply:?}");
        assert_eq!(reply[14], b'V', "{script} returns the value: {reply:?}");
    }
}

/// The tag of the plain layout with the same fingerprint.
fn tag_of(value: &[u8]) -> u64 {
    value[1..6].iter().fold(u64::from(b'T'), |tag, byte| tag << 8 | u64::from(*byte))
}

/// Many callers at once, some of which wait for a call: every used permit has admitted one request, and no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_used_permit_has_admitted_a_request() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let policy = install(&store, bucket(20_000));
    let begin = Instant::now();
    let callers = (0..64).map(|_| {
        let (store, policy) = (store.clone(), policy.clone());
        tokio::spawn(async move {
            let (mut by_allotment, mut by_store) = (0_u64, 0_u64);
            while begin.elapsed() < Duration::from_secs(2) {
                for cost in [1, 3, 1, 2] {
                    let decision = decide(&store, &policy, cost, Verb::Take(Take::now())).await;
                    match decision.source {
                        Source::Allotment if decision.is_allowed() => by_allotment += cost,
                        Source::Store if decision.is_allowed() => by_store += cost,
                        _ => {}
                    }
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            (by_allotment, by_store)
        })
    });
    let (mut by_allotment, mut by_store) = (0, 0);
    for caller in callers.collect::<Vec<_>>() {
        let (allotment, store) = caller.await.unwrap();
        (by_allotment, by_store) = (by_allotment + allotment, by_store + store);
    }
    let counts = store.counts();
    assert_books(&counts);
    assert!(by_allotment > 0 && by_store > 0, "{by_allotment} and {by_store}: {counts:?}");
    assert_eq!(counts.allotment_used, by_allotment, "{counts:?}");
}
