//! What is answered while the server cannot: each rule by its own word, and each decision says whose it is.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::time::{Duration, Instant};

use tollgate::Limiter;
use tollgate_core::{
    Ask, Carry, Decision, LeaseId, Micros, OnStoreFailure, Policy, Quota, Release, Rule, Source, Store, StoreError,
    Take, Verb, Verdict,
};
use tollgate_redis::{RedisConfig, RedisPolicy, RedisStore};
use tollgate_testkit::servers::{RedisServer, wait_until};

/// A store and one policy.
struct Desk {
    store: RedisStore,
    policy: RedisPolicy,
}

impl Desk {
    async fn at(server: &RedisServer, config: RedisConfig, rules: impl IntoIterator<Item = Rule>) -> Self {
        let store = RedisStore::connect_with(&server.url(), config).await.unwrap();
        let policy = store.install(Policy::new("desk", rules).unwrap(), Carry::Keep).unwrap();
        Self { store, policy }
    }

    /// At a server that has gone, and is known to have.
    async fn abandoned(config: RedisConfig, rules: impl IntoIterator<Item = Rule>) -> Self {
        let server = RedisServer::start();
        let desk = Self::at(&server, config, rules).await;
        server.kill();
        desk.until(|source| source != Source::Store).await;
        desk
    }

    async fn ask(&self, verb: Verb) -> Result<Decision, StoreError> {
        self.store.decide(&[Ask::new(&self.policy, "key")], verb).await
    }

    async fn take(&self, cost: u64) -> Decision {
        self.ask(Verb::Take(Take::now(cost))).await.unwrap()
    }

    async fn peek(&self) -> Decision {
        self.ask(Verb::Peek).await.unwrap()
    }

    /// Looks until answers come from where they should.
    async fn until(&self, fits: impl Fn(Source) -> bool) {
        let start = Instant::now();
        while !fits(self.peek().await.source) {
            assert!(start.elapsed() < PATIENCE, "{:?}", self.store.counts());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn bucket(name: &str, limit: u64) -> Rule {
    Rule::token_bucket(name, Quota::per_day(limit))
}

fn says(rule: Rule, answer: OnStoreFailure) -> Rule {
    rule.on_store_failure(answer)
}

#[track_caller]
fn allowed_by(source: Source, decision: &Decision) {
    assert!(decision.is_allowed() && decision.source == source, "{decision:?}");
}

#[track_caller]
fn denied_by(source: Source, decision: &Decision) -> Micros {
    assert_eq!(decision.source, source, "{decision:?}");
    let Verdict::Deny { retry_after } = decision.verdict else { panic!("{decision:?}") };
    assert!(retry_after > Micros::ZERO);
    retry_after
}

#[tokio::test]
async fn open_lets_everybody_pass() {
    let desk = Desk::abandoned(usual(), [says(bucket("r", 2), OnStoreFailure::Open)]).await;
    let before = desk.store.counts().let_through;
    for _ in 0..10 {
        allowed_by(Source::Open, &desk.take(1).await);
    }
    assert_eq!(desk.store.counts().let_through, before + 10);
}

#[tokio::test]
async fn closed_turns_everybody_away() {
    let desk = Desk::abandoned(usual(), [says(bucket("r", 2), OnStoreFailure::Closed)]).await;
    let before = desk.store.counts().turned_away;
    for _ in 0..10 {
        denied_by(Source::Closed, &desk.take(1).await);
    }
    assert_eq!(desk.store.counts().turned_away, before + 10);
}

#[tokio::test]
async fn local_goes_on_counting() {
    let desk = Desk::abandoned(usual(), [says(bucket("r", 2), OnStoreFailure::Local)]).await;
    let before = desk.store.counts().decided_locally;
    allowed_by(Source::Local, &desk.take(1).await);
    allowed_by(Source::Local, &desk.take(1).await);
    denied_by(Source::Local, &desk.take(1).await);
    assert_eq!(desk.store.counts().decided_locally, before + 3);
}

/// Under a rule that counts refused requests a take of 0 needs a permit; a peek does not, with the server or without.
#[tokio::test]
async fn a_peek_passes_where_a_take_of_nothing_does_not() {
    let counting = says(bucket("r", 2).count_refused(true), OnStoreFailure::Local);
    let desk = Desk::abandoned(usual(), [counting]).await;
    allowed_by(Source::Local, &desk.take(2).await);
    denied_by(Source::Local, &desk.take(0).await);
    let peek = desk.peek().await;
    allowed_by(Source::Local, &peek);
    assert_eq!(peek.remaining(), 0);
}

/// Rules of one policy may differ: the closed one has the last word, then the local one.
#[tokio::test]
async fn in_one_policy_the_strictest_word_counts() {
    let rules = [says(bucket("open", 3), OnStoreFailure::Open), says(bucket("local", 2), OnStoreFailure::Local)];
    let desk = Desk::abandoned(usual(), rules.clone()).await;
    allowed_by(Source::Local, &desk.take(2).await);
    denied_by(Source::Local, &desk.take(1).await);

    let desk =
        Desk::abandoned(usual(), [says(bucket("closed", 9), OnStoreFailure::Closed)].into_iter().chain(rules)).await;
    for _ in 0..5 {
        let told = desk.take(1).await;
        denied_by(Source::Closed, &told);
        assert_eq!(told.rules[2].remaining, 2, "what one rule refuses is not charged to another");
    }
}

/// A rule that only watches holds nobody back, whatever it says.
#[tokio::test]
async fn a_shadow_rule_refuses_nobody() {
    let rules = [
        says(bucket("closed", 9), OnStoreFailure::Closed).shadow(true),
        says(bucket("local", 1), OnStoreFailure::Local).shadow(true),
    ];
    let desk = Desk::abandoned(usual(), rules).await;
    for _ in 0..5 {
        let told = desk.take(1).await;
        assert!(told.is_allowed(), "{told:?}");
        assert!(told.rules.iter().all(|rule| rule.shadow));
    }
    let told = desk.take(1).await;
    assert!(
        told.rules.iter().all(|rule| matches!(rule.verdict, Verdict::Deny { .. })),
        "but they say what they would: {told:?}"
    );
}

/// Four processes share a limit of eight: each gives two on its own.
#[tokio::test]
async fn a_node_gives_its_share_only() {
    let desk = Desk::abandoned(usual().nodes(4), [bucket("r", 8)]).await;
    allowed_by(Source::Local, &desk.take(1).await);
    allowed_by(Source::Local, &desk.take(1).await);
    denied_by(Source::Local, &desk.take(1).await);
}

/// What outweighs the share may pass again when the server is back; what outweighs the limit never will.
#[tokio::test]
async fn a_cost_above_the_share_is_told_to_come_back() {
    let desk = Desk::abandoned(usual().nodes(4), [bucket("r", 8)]).await;
    denied_by(Source::Local, &desk.take(3).await);
    denied_by(Source::Local, &desk.take(8).await);
    assert_eq!(desk.take(9).await.verdict, Verdict::Never);
}

/// Nor will it while nobody counts.
#[tokio::test]
async fn a_cost_above_the_limit_never_passes_whatever_the_rule_says() {
    for answer in [OnStoreFailure::Open, OnStoreFailure::Closed, OnStoreFailure::Local] {
        let desk = Desk::abandoned(usual(), [says(bucket("r", 8), answer)]).await;
        assert_eq!(desk.take(9).await.verdict, Verdict::Never, "{answer:?}");
    }
    let rules = [says(bucket("open", 5), OnStoreFailure::Open), says(bucket("local", 100), OnStoreFailure::Local)];
    let desk = Desk::abandoned(usual(), rules).await;
    let (before, turned_away) = (desk.store.counts().let_through, desk.store.counts().decided_locally);
    assert_eq!(desk.take(50).await.verdict, Verdict::Never);
    let told = desk.take(1).await;
    assert_eq!((told.is_allowed(), told.rules[1].remaining), (true, 99), "what is refused is charged nowhere");
    assert_eq!((desk.store.counts().let_through, desk.store.counts().decided_locally), (before, turned_away + 2));
}

/// A process that has never reached the server does not know what it granted before it began: its share starts empty.
#[tokio::test]
async fn a_share_starts_empty_where_the_server_was_never_reached() {
    let gone = RedisServer::start();
    let port = gone.port();
    drop(gone);
    let store = RedisStore::connect_with(&format!("redis://127.0.0.1:{port}"), usual()).await.unwrap();
    let policy = store.install(Policy::new("desk", [bucket("r", 100)]).unwrap(), Carry::Keep).unwrap();
    let desk = Desk { store, policy };
    denied_by(Source::Local, &desk.take(1).await);
    let server = RedisServer::with().port(port).start();
    desk.until(|source| source == Source::Store).await;
    server.kill();
    desk.until(|source| source == Source::Local).await;
    allowed_by(Source::Local, &desk.take(100).await);
}

/// Where there is no room to note another grant, none is made, and that is counted.
#[tokio::test]
async fn a_full_ledger_refuses() {
    let server = RedisServer::start();
    let desk = Desk::at(&server, usual().local_bytes(16 << 10), [bucket("r", 5)]).await;
    let _ = desk.peek().await;
    server.kill();
    desk.until(|source| source == Source::Local).await;
    for number in 0..200 {
        let key = format!("key {number}");
        let _ = desk.store.decide(&[Ask::new(&desk.policy, &key)], Verb::Take(Take::now(1))).await.unwrap();
    }
    let counts = desk.store.counts();
    assert!(counts.local_no_room > 0 && counts.local_keys_owing > 10, "{counts:?}");
    assert_eq!(counts.local_no_room + counts.local_grants_owing, 200, "{counts:?}");
}

/// Keys that are not asked about again are charged in the background, and the end of a process charges what is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_owed_is_charged_without_being_asked_about() {
    let server = RedisServer::start();
    let desk = Desk::at(&server, usual(), [bucket("r", 5)]).await;
    let _ = desk.peek().await;
    server.pause();
    desk.until(|source| source == Source::Local).await;
    for number in 0..300 {
        let key = format!("key {number}");
        let told = desk.store.decide(&[Ask::new(&desk.policy, &key)], Verb::Take(Take::now(2))).await.unwrap();
        allowed_by(Source::Local, &told);
    }
    assert_eq!(desk.store.counts().local_keys_owing, 300);
    server.resume();
    assert_eq!(desk.store.charge_local_grants(PATIENCE).await, 0);
    let counts = desk.store.counts();
    assert_eq!((counts.local_grants_owing, counts.local_grants_charged), (0, 300), "{counts:?}");
    for number in [0, 150, 299] {
        let key = format!("key {number}");
        let told = desk.store.decide(&[Ask::new(&desk.policy, &key)], Verb::Peek).await.unwrap();
        assert_eq!((told.source, told.remaining()), (Source::Store, 3));
    }
}

/// The local share has counted along: an outage hands out nothing that was used before it.
#[tokio::test]
async fn an_outage_is_no_fresh_burst() {
    let server = RedisServer::start();
    for (nodes, left) in [(1, 0), (2, 0)] {
        let desk = Desk::at(&server, usual().nodes(nodes).prefix(format!("n{nodes}")), [bucket("r", 10)]).await;
        for _ in 0..10 {
            allowed_by(Source::Store, &desk.take(1).await);
        }
        server.pause();
        for _ in 0..10 {
            let told = desk.take(1).await;
            denied_by(Source::Local, &told);
            assert_eq!(told.rules[0].remaining, left);
        }
        server.resume();
    }
}

/// Places are held locally too, and given up there.
#[tokio::test]
async fn a_local_lease_is_released_locally() {
    let server = RedisServer::start();
    let desk = Desk::at(&server, usual(), [Rule::concurrency("r", 2, Duration::from_secs(60))]).await;
    let hold = |lease| desk.ask(Verb::Take(Take::now(1).held_as(LeaseId(lease))));
    let release = |lease| desk.ask(Verb::Release(Release::Lease(LeaseId(lease))));
    server.pause();
    desk.until(|source| source == Source::Local).await;
    for lease in [1, 2] {
        let told = hold(lease).await.unwrap();
        allowed_by(Source::Local, &told);
        assert_eq!(told.lease, Some(LeaseId(lease)));
    }
    denied_by(Source::Local, &hold(3).await.unwrap());
    assert_eq!(release(1).await.unwrap().lease, Some(LeaseId(1)));
    assert_eq!(desk.ask(Verb::Heartbeat(LeaseId(2))).await.unwrap().lease, Some(LeaseId(2)));
    assert!(release(1).await.is_err(), "nobody here holds it, and the server cannot be asked");
    allowed_by(Source::Local, &hold(3).await.unwrap());

    // Back again, the server knows who holds; given up there, the place is free for the next outage as well.
    server.resume();
    desk.until(|source| source == Source::Store).await;
    wait_for_store(&desk, |told| told.remaining() == 0).await;
    for lease in [2, 3] {
        let _ = release(lease).await.unwrap();
    }
    server.pause();
    desk.until(|source| source == Source::Local).await;
    allowed_by(Source::Local, &hold(4).await.unwrap());
    allowed_by(Source::Local, &hold(5).await.unwrap());
    server.resume();
}

/// The server is charged for what the local share granted, before it answers again; undone after that, it is given back
/// there. What an open rule let through was counted nowhere, and nothing is given back.
#[tokio::test]
async fn a_local_grant_is_charged_and_can_be_undone() {
    for (answer, charged) in [(OnStoreFailure::Local, 2), (OnStoreFailure::Open, 0)] {
        let server = RedisServer::start();
        let desk = Desk::at(&server, usual(), [says(bucket("r", 10), answer)]).await;
        allowed_by(Source::Store, &desk.take(5).await);
        server.pause();
        let told = desk.take(2).await;
        assert!(told.is_allowed() && told.source != Source::Store, "{told:?}");
        server.resume();
        desk.until(|source| source == Source::Store).await;
        assert_eq!(desk.peek().await.remaining(), 5 - charged, "{answer:?}");
        let at = told.decided_at + told.wait();
        let _ = desk.ask(Verb::Undo { cost: 2, at, lease: None }).await.unwrap();
        let after = desk.peek().await;
        assert_eq!((after.source, after.remaining()), (Source::Store, 5), "{answer:?}");
    }
}

/// Undone here, a local grant can be had again here.
#[tokio::test]
async fn undoing_a_local_grant_gives_it_back_here() {
    let desk = Desk::abandoned(usual(), [bucket("r", 3)]).await;
    let told = desk.take(3).await;
    allowed_by(Source::Local, &told);
    denied_by(Source::Local, &desk.take(1).await);
    let _ = desk.ask(Verb::Undo { cost: 3, at: told.decided_at + told.wait(), lease: None }).await.unwrap();
    allowed_by(Source::Local, &desk.take(3).await);
}

/// An estimate charged during an outage and corrected after it: the server ends up with what it came to.
#[tokio::test]
async fn a_local_reservation_is_settled_at_the_server() {
    let server = RedisServer::start();
    let store = RedisStore::connect_with(&server.url(), usual()).await.unwrap();
    let limiter = Limiter::builder().rule(bucket("r", 10)).store(store).build().unwrap();
    allowed_by(Source::Store, &limiter.check_n("key", 5).await.unwrap());
    server.pause();
    let reservation = limiter.reserve("key", 4).await.unwrap();
    allowed_by(Source::Local, reservation.decision());
    server.resume();
    let start = Instant::now();
    while limiter.peek("key").await.unwrap().source != Source::Store {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(limiter.peek("key").await.unwrap().remaining(), 1, "charged before it is asked");
    let _ = reservation.settle(1).await.unwrap();
    assert_eq!(limiter.peek("key").await.unwrap().remaining(), 4);
}

/// Instructions that only the server can carry out say so, and that trying again may help.
#[tokio::test]
async fn what_cannot_be_done_here_is_an_error() {
    let desk = Desk::abandoned(usual(), [bucket("r", 3)]).await;
    for verb in [Verb::Penalize { cost: 1 }, Verb::Reset, Verb::Block { span: Micros::SECOND }] {
        let error = desk.ask(verb).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
}

/// Waiting goes on, too: for the moment at which the local share has a permit again.
#[tokio::test]
async fn waiters_are_served_by_the_local_share() {
    let server = RedisServer::start();
    let store = RedisStore::connect_with(&server.url(), usual()).await.unwrap();
    let rule = Rule::token_bucket("r", Quota::per_second(10).burst(1));
    let limiter = Limiter::builder().rule(rule).store(store).build().unwrap();
    server.kill();
    let start = Instant::now();
    for _ in 0..4 {
        assert_eq!(limiter.acquire("key", 1).await.unwrap().decision.source, Source::Local);
    }
    assert!(start.elapsed() >= Duration::from_millis(290), "{:?}", start.elapsed());
}

/// No server yet: connecting works, answers come at once, and when it appears it is charged and takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_starts_without_its_server() {
    let gone = RedisServer::start();
    let port = gone.port();
    drop(gone);
    let config = usual().local_start(0.5);
    let store = RedisStore::connect_with(&format!("redis://127.0.0.1:{port}"), config).await.unwrap();
    let policy = store.install(Policy::new("desk", [bucket("r", 6)]).unwrap(), Carry::Keep).unwrap();
    let desk = Desk { store, policy };
    let start = Instant::now();
    allowed_by(Source::Local, &desk.take(1).await);
    allowed_by(Source::Local, &desk.take(2).await);
    denied_by(Source::Local, &desk.take(1).await);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(desk.store.counts().ambiguous_calls, 0, "nothing was sent anywhere");

    let server = RedisServer::with().port(port).start();
    let start = Instant::now();
    desk.until(|source| source == Source::Store).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    allowed_by(Source::Store, &desk.take(3).await);
    denied_by(Source::Store, &desk.take(1).await);
    wait_until("the rules to be written down", PATIENCE, || {
        !server.command(&["KEYS", "tollgate:1:rules:*"]).items().is_empty()
    });
}

/// Looks until the server itself says so.
async fn wait_for_store(desk: &Desk, fits: impl Fn(&Decision) -> bool) {
    let start = Instant::now();
    loop {
        let told = desk.peek().await;
        if told.source == Source::Store && fits(&told) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{told:?} {:?}", desk.store.counts());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn usual() -> RedisConfig {
    RedisConfig::default().deadline(Duration::from_millis(100))
}

const PATIENCE: Duration = Duration::from_secs(10);
