//! Local and store grants of one key in total, while the server hangs, connections are reset or replies are lost.
//!
//! One process, one key, 100 permits per day. As long as the server keeps its data, at most 100 permits are admitted,
//! for any number of outages.

use std::time::{Duration, Instant};

use ratekeeper_core::{Ask, Decision, OnQuotaChange, Policy, Quota, Rule, Source, Store, Take, Verb};
use ratekeeper_redis::{RedisConfig, RedisPolicy, RedisStore};
use ratekeeper_testkit::servers::{FaultProxy, RedisServer};
use tokio::time::sleep;

use crate::TIMEOUT;

const LIMIT: u64 = 100;
const KEY: &str = "key";
/// Concurrent callers.
const TASKS: u64 = 8;

/// A store with one rule, and the permits admitted so far: by the store, and locally.
struct Fixture {
    store: RedisStore,
    policy: RedisPolicy,
    by_store: u64,
    here: u64,
}

impl Fixture {
    async fn at(url: &str, rule: Rule) -> Self {
        let config = RedisConfig::default().deadline(Duration::from_millis(30));
        let store = RedisStore::connect_with(url, config).await.unwrap();
        let policy = store.install(Policy::new("fixture", [rule]).unwrap(), OnQuotaChange::Keep).unwrap();
        Self { store, policy, by_store: 0, here: 0 }
    }

    async fn ask(&self, verb: Verb) -> Decision {
        self.store.decide(&[Ask::new(&self.policy, KEY)], verb).await.unwrap()
    }

    /// Takes in several tasks until `span` has passed.
    async fn ask_for(&mut self, span: Duration) {
        let ends = Instant::now() + span;
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (store, policy) = (self.store.clone(), self.policy.clone());
                tokio::spawn(async move {
                    let (mut by_store, mut here) = (0, 0);
                    while Instant::now() < ends {
                        let verb = Verb::Take(Take::now());
                        let decision = store.decide(&[Ask::new(&policy, KEY)], verb).await.unwrap();
                        match decision.source {
                            Source::Store => by_store += u64::from(decision.is_allowed()),
                            _ => here += u64::from(decision.is_allowed()),
                        }
                        sleep(Duration::from_millis(20)).await;
                    }
                    (by_store, here)
                })
            })
            .collect();
        for task in tasks {
            let (by_store, here) = task.await.unwrap();
            (self.by_store, self.here) = (self.by_store + by_store, self.here + here);
        }
    }

    /// Takes until the store refuses.
    async fn until_used_up(&mut self) {
        let start = Instant::now();
        loop {
            let decision = self.store.decide(&[Ask::new(&self.policy, KEY)], Verb::Take(Take::now())).await.unwrap();
            match (decision.source, decision.is_allowed()) {
                (Source::Store, false) => return,
                (Source::Store, true) => self.by_store += 1,
                (_, allowed) => self.here += u64::from(allowed),
            }
            assert!(start.elapsed() < TIMEOUT, "{:?}", self.store.counts());
            sleep(Duration::from_millis(2)).await;
        }
    }

    #[track_caller]
    fn check(&self, name: &str) {
        let (all, counts) = (self.by_store + self.here, self.store.counts());
        println!("{name}: {} by the store and {} here, of {LIMIT}; {counts:?}", self.by_store, self.here);
        assert!(all <= LIMIT, "{name}: {all} admitted of {LIMIT}: {counts:?}");
        assert_eq!(counts.local_grants_owing, 0);
    }
}

fn rules() -> [Rule; 3] {
    let quota = Quota::per_day(LIMIT);
    [Rule::token_bucket("bucket", quota), Rule::fixed_window("window", quota), Rule::sliding_log("log", quota)]
}

/// The server hangs for three seconds and keeps its data. A bucket of 100 per day refills nothing in that time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_server_costs_nothing() {
    for rule in rules() {
        let server = RedisServer::start();
        let mut fixture = Fixture::at(&server.url(), rule).await;
        fixture.ask_for(Duration::from_millis(100)).await;
        server.pause();
        fixture.ask_for(Duration::from_secs(3)).await;
        server.resume();
        fixture.until_used_up().await;
        fixture.check("hang");
        assert!(fixture.here > 0, "some calls are granted locally");
        // Each of the eight tasks may send the charge before the breaker opens. After that none is sent until the
        // server answers.
        let attempts = fixture.store.counts().local_charges_sent;
        assert!(attempts <= 3 * TASKS, "{attempts} attempts");
    }
}

/// While the breaker is open no charge is sent, for any number of calls, and every call is decided locally.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_breaker_stops_attempts_to_charge() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server.url(), Rule::token_bucket("r", Quota::per_day(LIMIT))).await;
    let _ = fixture.ask(Verb::Take(Take::now())).await;
    server.pause();
    let start = Instant::now();
    while fixture.store.counts().breaker_opened == 0 {
        assert!(start.elapsed() < TIMEOUT, "{:?}", fixture.store.counts());
        let _ = fixture.ask(Verb::Take(Take::now())).await;
    }
    let before = fixture.store.counts();
    assert!(before.local_grants_owing > 0, "{before:?}");
    for _ in 0..500 {
        assert_eq!(fixture.ask(Verb::Take(Take::now())).await.source, Source::Local);
    }
    let after = fixture.store.counts();
    assert_eq!((after.local_charges_sent, after.breaker_closed), (before.local_charges_sent, 0), "{after:?}");
    server.resume();
    assert_eq!(fixture.store.charge_local_grants(TIMEOUT).await, 0);
}

/// Connections are reset every 0.4 s with calls in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resets_earn_nothing() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(("127.0.0.1", server.port()));
    let mut fixture = Fixture::at(&proxy.url(), Rule::token_bucket("r", Quota::per_day(LIMIT))).await;
    for _ in 0..8 {
        fixture.ask_for(Duration::from_millis(200)).await;
        proxy.reset();
        fixture.ask_for(Duration::from_millis(200)).await;
    }
    fixture.until_used_up().await;
    fixture.check("reset");
}

/// The reply to a take is lost, then the reply to the charge for its local grant. The charge is sent again and executed
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_whose_reply_is_lost_is_made_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(("127.0.0.1", server.port()));
    let fixture = Fixture::at(&proxy.url(), Rule::fixed_window("r", Quota::per_day(LIMIT))).await;
    let _ = fixture.ask(Verb::Take(Take::now())).await;
    let (mut granted, mut lost) = (0, 0);
    while lost < 3 {
        let before = fixture.store.counts();
        proxy.swallow_next_replies(1);
        let decision = fixture.ask(Verb::Take(Take::now())).await;
        granted += u64::from(decision.is_allowed() && decision.source == Source::Local);
        proxy.swallow_next_replies(1);
        let start = Instant::now();
        while fixture.store.counts().local_charges_sent == before.local_charges_sent && decision.source == Source::Local
        {
            assert!(start.elapsed() < TIMEOUT, "{:?}", fixture.store.counts());
            let _ = fixture.ask(Verb::Peek).await;
        }
        sleep(Duration::from_millis(50)).await;
        lost += u64::from(fixture.store.counts().ambiguous_calls >= before.ambiguous_calls + 2);
        proxy.pass();
        proxy.reset();
        let start = Instant::now();
        while fixture.ask(Verb::Peek).await.source != Source::Store {
            assert!(start.elapsed() < TIMEOUT, "{:?}", fixture.store.counts());
            sleep(Duration::from_millis(5)).await;
        }
    }
    let counts = fixture.store.counts();
    let used = LIMIT - fixture.ask(Verb::Peek).await.remaining();
    // Takes that were executed without a reply, and their local grants, each charged once.
    assert!(used <= 1 + 2 * granted, "{used} used, {granted} granted here: {counts:?}");
    assert!(used > granted && counts.local_grants_charged == granted, "{used} used: {counts:?}");
}
