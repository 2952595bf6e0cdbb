//! Fallback: decisions while the server is unreachable, by each rule's `on_store_failure`, with their source.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

mod support;

use std::time::{Duration, Instant};

use ratekeeper::Limiter;
use ratekeeper_core::{
    Ask, Decision, LeaseId, OnQuotaChange, OnStoreFailure, Policy, Quota, Release, Rule, Source, Span, Store,
    StoreError, Take, Verb, Verdict,
};
use ratekeeper_redis::{RedisConfig, RedisPolicy, RedisStore};
use ratekeeper_testkit::servers::{RedisServer, wait_until};
use support::poll_until;

/// A store and one policy.
struct Fixture {
    store: RedisStore,
    policy: RedisPolicy,
}

impl Fixture {
    async fn at(server: &RedisServer, config: RedisConfig, rules: impl IntoIterator<Item = Rule>) -> Self {
        let store = RedisStore::connect_with(&server.url(), config).await.unwrap();
        let policy = store.install(Policy::new("policy", rules).unwrap(), OnQuotaChange::Keep).unwrap();
        Self { store, policy }
    }

    /// A fixture whose server was killed and is known to be down.
    async fn without_server(config: RedisConfig, rules: impl IntoIterator<Item = Rule>) -> Self {
        let server = RedisServer::start();
        let fixture = Self::at(&server, config, rules).await;
        server.kill();
        fixture.until(|source| source != Source::Store).await;
        fixture
    }

    async fn ask(&self, verb: Verb) -> Result<Decision, StoreError> {
        self.ask_n(1, verb).await
    }

    async fn ask_n(&self, cost: u64, verb: Verb) -> Result<Decision, StoreError> {
        self.store.decide(&[Ask::new(&self.policy, "key").cost(cost)], verb).await
    }

    async fn take(&self, cost: u64) -> Decision {
        self.ask_n(cost, Verb::Take(Take::now())).await.unwrap()
    }

    async fn peek(&self) -> Decision {
        self.ask(Verb::Peek).await.unwrap()
    }

    /// Peeks until the decision has the expected source.
    async fn until(&self, is_expected: impl Fn(Source) -> bool) {
        poll_until("expected source", TIMEOUT, async || is_expected(self.peek().await.source)).await;
    }
}

fn bucket(name: &str, limit: u64) -> Rule {
    Rule::token_bucket(name, Quota::per_day(limit))
}

fn on_failure(rule: Rule, answer: OnStoreFailure) -> Rule {
    rule.on_store_failure(answer)
}

#[track_caller]
fn allowed_by(source: Source, decision: &Decision) {
    assert!(decision.is_allowed() && decision.source == source, "{decision:?}");
}

#[track_caller]
fn denied_by(source: Source, decision: &Decision) -> Span {
    assert_eq!(decision.source, source, "{decision:?}");
    let Verdict::Deny { retry_after } = decision.verdict else { panic!("{decision:?}") };
    assert!(retry_after > Span::ZERO);
    retry_after
}

#[tokio::test]
async fn open_allows_every_request() {
    let fixture = Fixture::without_server(usual(), [on_failure(bucket("r", 2), OnStoreFailure::Open)]).await;
    let before = fixture.store.counts().let_through;
    for _ in 0..10 {
        allowed_by(Source::Open, &fixture.take(1).await);
    }
    assert_eq!(fixture.store.counts().let_through, before + 10);
}

#[tokio::test]
async fn closed_refuses_every_request() {
    let fixture = Fixture::without_server(usual(), [on_failure(bucket("r", 2), OnStoreFailure::Closed)]).await;
    let before = fixture.store.counts().turned_away;
    for _ in 0..10 {
        denied_by(Source::Closed, &fixture.take(1).await);
    }
    assert_eq!(fixture.store.counts().turned_away, before + 10);
}

#[tokio::test]
async fn local_enforces_the_limit() {
    let fixture = Fixture::without_server(usual(), [on_failure(bucket("r", 2), OnStoreFailure::Local)]).await;
    let before = fixture.store.counts().decided_locally;
    allowed_by(Source::Local, &fixture.take(1).await);
    allowed_by(Source::Local, &fixture.take(1).await);
    denied_by(Source::Local, &fixture.take(1).await);
    assert_eq!(fixture.store.counts().decided_locally, before + 3);
}

/// Under a rule that counts refused requests a take of 0 needs a permit; a peek does not, with the server or without.
#[tokio::test]
async fn a_peek_passes_where_a_take_of_nothing_does_not() {
    let counting = on_failure(bucket("r", 2).count_refused(true), OnStoreFailure::Local);
    let fixture = Fixture::without_server(usual(), [counting]).await;
    allowed_by(Source::Local, &fixture.take(2).await);
    denied_by(Source::Local, &fixture.take(0).await);
    let peek = fixture.peek().await;
    allowed_by(Source::Local, &peek);
    assert_eq!(peek.remaining(), 0);
}

/// Rules of one policy may differ: a closed one decides first, then a local one.
#[tokio::test]
async fn the_strictest_rule_of_a_policy_decides() {
    let rules =
        [on_failure(bucket("open", 3), OnStoreFailure::Open), on_failure(bucket("local", 2), OnStoreFailure::Local)];
    let fixture = Fixture::without_server(usual(), rules.clone()).await;
    allowed_by(Source::Local, &fixture.take(2).await);
    denied_by(Source::Local, &fixture.take(1).await);

    let fixture = Fixture::without_server(
        usual(),
        [on_failure(bucket("closed", 9), OnStoreFailure::Closed)].into_iter().chain(rules),
    )
    .await;
    for _ in 0..5 {
        let decision = fixture.take(1).await;
        denied_by(Source::Closed, &decision);
        assert_eq!(decision.rules[2].remaining, 2, "a refused request is charged to no rule");
    }
}

/// A shadow rule delays no request, whatever it decides.
#[tokio::test]
async fn a_shadow_rule_refuses_nothing() {
    let rules = [
        on_failure(bucket("closed", 9), OnStoreFailure::Closed).shadow(true),
        on_failure(bucket("local", 1), OnStoreFailure::Local).shadow(true),
    ];
    let fixture = Fixture::without_server(usual(), rules).await;
    for _ in 0..5 {
        let decision = fixture.take(1).await;
        assert!(decision.is_allowed(), "{decision:?}");
        assert!(decision.rules.iter().all(|rule| rule.shadow));
    }
    let decision = fixture.take(1).await;
    assert!(
        decision.rules.iter().all(|rule| matches!(rule.verdict, Verdict::Deny { .. })),
        "shadow rules report their verdicts: {decision:?}"
    );
}

/// Four processes share a limit of eight: each grants two.
#[tokio::test]
async fn a_node_grants_its_share_only() {
    let fixture = Fixture::without_server(usual().nodes(4), [bucket("r", 8)]).await;
    allowed_by(Source::Local, &fixture.take(1).await);
    allowed_by(Source::Local, &fixture.take(1).await);
    denied_by(Source::Local, &fixture.take(1).await);
}

/// A cost above the share may pass when the server is back; a cost above the limit never does.
#[tokio::test]
async fn a_cost_above_the_share_has_a_retry_after() {
    let fixture = Fixture::without_server(usual().nodes(4), [bucket("r", 8)]).await;
    denied_by(Source::Local, &fixture.take(3).await);
    denied_by(Source::Local, &fixture.take(8).await);
    assert_eq!(fixture.take(9).await.verdict, Verdict::Never);
}

/// A cost above the limit never passes, not even under `open`.
#[tokio::test]
async fn a_cost_above_the_limit_never_passes() {
    for answer in [OnStoreFailure::Open, OnStoreFailure::Closed, OnStoreFailure::Local] {
        let fixture = Fixture::without_server(usual(), [on_failure(bucket("r", 8), answer)]).await;
        assert_eq!(fixture.take(9).await.verdict, Verdict::Never, "{answer:?}");
    }
    let rules =
        [on_failure(bucket("open", 5), OnStoreFailure::Open), on_failure(bucket("local", 100), OnStoreFailure::Local)];
    let fixture = Fixture::without_server(usual(), rules).await;
    let (before, turned_away) = (fixture.store.counts().let_through, fixture.store.counts().decided_locally);
    assert_eq!(fixture.take(50).await.verdict, Verdict::Never);
    let decision = fixture.take(1).await;
    assert_eq!((decision.is_allowed(), decision.rules[1].remaining), (true, 99), "refused requests charge nothing");
    assert_eq!((fixture.store.counts().let_through, fixture.store.counts().decided_locally), (before, turned_away + 2));
}

/// A process that has never reached the server does not know its earlier grants: its share starts empty.
#[tokio::test]
async fn a_share_starts_empty_if_the_server_was_never_reached() {
    let gone = RedisServer::start();
    let port = gone.port();
    drop(gone);
    let store = RedisStore::connect_with(&format!("redis://127.0.0.1:{port}"), usual()).await.unwrap();
    let policy = store.install(Policy::new("policy", [bucket("r", 100)]).unwrap(), OnQuotaChange::Keep).unwrap();
    let fixture = Fixture { store, policy };
    denied_by(Source::Local, &fixture.take(1).await);
    let server = RedisServer::with().port(port).start();
    fixture.until(|source| source == Source::Store).await;
    server.kill();
    fixture.until(|source| source == Source::Local).await;
    allowed_by(Source::Local, &fixture.take(100).await);
}

/// Without room to record another grant, none is made, and that is counted.
#[tokio::test]
async fn a_full_ledger_refuses() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server, usual().local_bytes(16 << 10), [bucket("r", 5)]).await;
    let _ = fixture.peek().await;
    server.kill();
    fixture.until(|source| source == Source::Local).await;
    for number in 0..200 {
        let key = format!("key {number}");
        let _ = fixture.store.decide(&[Ask::new(&fixture.policy, &key)], Verb::Take(Take::now())).await.unwrap();
    }
    let counts = fixture.store.counts();
    assert!(counts.local_no_room > 0 && counts.local_keys_owing > 10, "{counts:?}");
    assert_eq!(counts.local_no_room + counts.local_grants_owing, 200, "{counts:?}");
}

/// Keys without traffic are charged in the background, and a graceful end of the process charges the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uncharged_grants_are_charged_without_traffic() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server, usual(), [bucket("r", 5)]).await;
    let _ = fixture.peek().await;
    server.pause();
    fixture.until(|source| source == Source::Local).await;
    for number in 0..300 {
        let key = format!("key {number}");
        let decision =
            fixture.store.decide(&[Ask::new(&fixture.policy, &key).cost(2)], Verb::Take(Take::now())).await.unwrap();
        allowed_by(Source::Local, &decision);
    }
    assert_eq!(fixture.store.counts().local_keys_owing, 300);
    server.resume();
    assert_eq!(fixture.store.charge_local_grants(TIMEOUT).await, 0);
    let counts = fixture.store.counts();
    assert_eq!((counts.local_grants_owing, counts.local_grants_charged), (0, 300), "{counts:?}");
    for number in [0, 150, 299] {
        let key = format!("key {number}");
        let decision = fixture.store.decide(&[Ask::new(&fixture.policy, &key)], Verb::Peek).await.unwrap();
        assert_eq!((decision.source, decision.remaining()), (Source::Store, 3));
    }
}

/// The local share starts from the store's last report: an outage frees no permits that were used before it.
#[tokio::test]
async fn an_outage_frees_no_permits() {
    let server = RedisServer::start();
    for (nodes, left) in [(1, 0), (2, 0)] {
        let fixture = Fixture::at(&server, usual().nodes(nodes).prefix(format!("n{nodes}")), [bucket("r", 10)]).await;
        for _ in 0..10 {
            allowed_by(Source::Store, &fixture.take(1).await);
        }
        server.pause();
        for _ in 0..10 {
            let decision = fixture.take(1).await;
            denied_by(Source::Local, &decision);
            assert_eq!(decision.rules[0].remaining, left);
        }
        server.resume();
    }
}

/// Leases are granted and released locally.
#[tokio::test]
async fn a_local_lease_is_released_locally() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server, usual(), [Rule::concurrency("r", 2, Duration::from_secs(60))]).await;
    let hold = |lease| fixture.ask(Verb::Take(Take::now().with_lease(LeaseId(lease))));
    let release = |lease| fixture.ask(Verb::Release(Release::Lease(LeaseId(lease))));
    server.pause();
    fixture.until(|source| source == Source::Local).await;
    for lease in [1, 2] {
        let decision = hold(lease).await.unwrap();
        allowed_by(Source::Local, &decision);
        assert_eq!(decision.lease, Some(LeaseId(lease)));
    }
    denied_by(Source::Local, &hold(3).await.unwrap());
    assert_eq!(release(1).await.unwrap().lease, Some(LeaseId(1)));
    assert_eq!(fixture.ask(Verb::Heartbeat(LeaseId(2))).await.unwrap().lease, Some(LeaseId(2)));
    assert!(release(1).await.is_err(), "the lease is not known here, and the server is unreachable");
    allowed_by(Source::Local, &hold(3).await.unwrap());

    // The server is charged for the local leases. Leases released there are free in the next outage as well.
    server.resume();
    fixture.until(|source| source == Source::Store).await;
    wait_for_store(&fixture, |decision| decision.remaining() == 0).await;
    for lease in [2, 3] {
        let _ = release(lease).await.unwrap();
    }
    server.pause();
    fixture.until(|source| source == Source::Local).await;
    allowed_by(Source::Local, &hold(4).await.unwrap());
    allowed_by(Source::Local, &hold(5).await.unwrap());
    server.resume();
}

/// The server is charged for local grants before it decides again; an undo after that goes to the server. Grants of an
/// open rule were not counted, and nothing is refunded.
#[tokio::test]
async fn a_local_grant_is_charged_and_can_be_undone() {
    for (answer, charged) in [(OnStoreFailure::Local, 2), (OnStoreFailure::Open, 0)] {
        let server = RedisServer::start();
        let fixture = Fixture::at(&server, usual(), [on_failure(bucket("r", 10), answer)]).await;
        allowed_by(Source::Store, &fixture.take(5).await);
        server.pause();
        let decision = fixture.take(2).await;
        assert!(decision.is_allowed() && decision.source != Source::Store, "{decision:?}");
        server.resume();
        fixture.until(|source| source == Source::Store).await;
        assert_eq!(fixture.peek().await.remaining(), 5 - charged, "{answer:?}");
        let at = decision.proceed_at();
        let _ = fixture.ask_n(2, Verb::Undo { at, lease: None }).await.unwrap();
        let after = fixture.peek().await;
        assert_eq!((after.source, after.remaining()), (Source::Store, 5), "{answer:?}");
    }
}

/// An undo of a local grant frees its permits locally.
#[tokio::test]
async fn an_uncharged_local_grant_is_undone_locally() {
    let fixture = Fixture::without_server(usual(), [bucket("r", 3)]).await;
    let decision = fixture.take(3).await;
    allowed_by(Source::Local, &decision);
    denied_by(Source::Local, &fixture.take(1).await);
    let _ = fixture.ask_n(3, Verb::Undo { at: decision.proceed_at(), lease: None }).await.unwrap();
    allowed_by(Source::Local, &fixture.take(3).await);
}

/// An estimate charged during an outage and settled after it: the server has the actual cost.
#[tokio::test]
async fn a_local_reservation_is_settled_at_the_server() {
    let server = RedisServer::start();
    let store = RedisStore::connect_with(&server.url(), usual()).await.unwrap();
    let limiter = Limiter::builder().rule(bucket("r", 10)).store(store).build().unwrap();
    allowed_by(Source::Store, &limiter.check(("key", 5)).await.unwrap());
    server.pause();
    let reservation = limiter.reserve(("key", 4)).await.unwrap();
    allowed_by(Source::Local, reservation.decision());
    server.resume();
    let is_back = async || limiter.peek("key").await.unwrap().source == Source::Store;
    poll_until("decision by the store", TIMEOUT, is_back).await;
    assert_eq!(limiter.peek("key").await.unwrap().remaining(), 1, "the local grant is charged first");
    let _ = reservation.settle(1).await.unwrap();
    assert_eq!(limiter.peek("key").await.unwrap().remaining(), 4);
}

/// Verbs that only the server can execute are errors.
#[tokio::test]
async fn verbs_that_need_the_server_are_errors() {
    let fixture = Fixture::without_server(usual(), [bucket("r", 3)]).await;
    for verb in [Verb::Penalize, Verb::Reset, Verb::Block { span: Span::SECOND }] {
        let error = fixture.ask(verb).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
}

/// A wait lasts until the local share has a permit again.
#[tokio::test]
async fn waiters_are_served_by_the_local_share() {
    let server = RedisServer::start();
    let store = RedisStore::connect_with(&server.url(), usual()).await.unwrap();
    let rule = Rule::token_bucket("r", Quota::per_second(10).burst(1));
    let limiter = Limiter::builder().rule(rule).store(store).build().unwrap();
    server.kill();
    let start = Instant::now();
    for _ in 0..4 {
        assert_eq!(limiter.acquire("key").await.unwrap().decision.source, Source::Local);
    }
    assert!(start.elapsed() >= Duration::from_millis(290), "{:?}", start.elapsed());
}

/// Without a server connecting succeeds and decisions are local; when the server starts it is charged and decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_starts_without_its_server() {
    let gone = RedisServer::start();
    let port = gone.port();
    drop(gone);
    let config = usual().local_start(0.5);
    let store = RedisStore::connect_with(&format!("redis://127.0.0.1:{port}"), config).await.unwrap();
    let policy = store.install(Policy::new("policy", [bucket("r", 6)]).unwrap(), OnQuotaChange::Keep).unwrap();
    let fixture = Fixture { store, policy };
    let start = Instant::now();
    allowed_by(Source::Local, &fixture.take(1).await);
    allowed_by(Source::Local, &fixture.take(2).await);
    denied_by(Source::Local, &fixture.take(1).await);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(fixture.store.counts().ambiguous_calls, 0, "no call was sent");

    let server = RedisServer::with().port(port).start();
    let start = Instant::now();
    fixture.until(|source| source == Source::Store).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    allowed_by(Source::Store, &fixture.take(3).await);
    denied_by(Source::Store, &fixture.take(1).await);
    wait_until("stored definition of the rules", TIMEOUT, || {
        !server.command(&["KEYS", "ratekeeper:1:rules:*"]).items().is_empty()
    });
}

/// Peeks until the store decides as expected.
async fn wait_for_store(fixture: &Fixture, is_expected: impl Fn(&Decision) -> bool) {
    poll_until("expected decision by the store", TIMEOUT, async || {
        let decision = fixture.peek().await;
        decision.source == Source::Store && is_expected(&decision)
    })
    .await;
}

fn usual() -> RedisConfig {
    RedisConfig::default().deadline(Duration::from_millis(100))
}

const TIMEOUT: Duration = Duration::from_secs(10);
