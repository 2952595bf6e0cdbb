//! Local grants and the store's together, while the server hangs, connections are reset, and a primary dies.
//!
//! One process, one key, 100 permits a day: however often and in whichever way the server is lost with its data intact,
//! no more than 100 are admitted in all.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate_core::{Ask, Carry, Decision, Policy, Quota, Rule, Source, Store, Take, Verb};
use tollgate_redis::{RedisConfig, RedisPolicy, RedisStore};
use tollgate_testkit::servers::{FaultProxy, RedisServer};

use crate::PATIENCE;

const LIMIT: u64 = 100;
const KEY: &str = "key";

/// A store with one rule, and what it has admitted.
struct Desk {
    store: RedisStore,
    policy: RedisPolicy,
    by_store: u64,
    here: u64,
}

impl Desk {
    async fn at(url: &str, rule: Rule) -> Self {
        let config = RedisConfig::default().deadline(Duration::from_millis(30));
        let store = RedisStore::connect_with(url, config).await.unwrap();
        let policy = store.install(Policy::new("desk", [rule]).unwrap(), Carry::Keep).unwrap();
        Self { store, policy, by_store: 0, here: 0 }
    }

    async fn ask(&self, verb: Verb) -> Decision {
        self.store.decide(&[Ask::new(&self.policy, KEY)], verb).await.unwrap()
    }

    /// Several tasks that ask for so long.
    async fn ask_for(&mut self, span: Duration) {
        let ends = Instant::now() + span;
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (store, policy) = (self.store.clone(), self.policy.clone());
                tokio::spawn(async move {
                    let (mut by_store, mut here) = (0, 0);
                    while Instant::now() < ends {
                        let verb = Verb::Take(Take::now(1));
                        let told = store.decide(&[Ask::new(&policy, KEY)], verb).await.unwrap();
                        match told.source {
                            Source::Store => by_store += u64::from(told.is_allowed()),
                            _ => here += u64::from(told.is_allowed()),
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

    /// Asks until the store answers that nothing is left.
    async fn until_used_up(&mut self) {
        let start = Instant::now();
        loop {
            let told = self.store.decide(&[Ask::new(&self.policy, KEY)], Verb::Take(Take::now(1))).await.unwrap();
            match (told.source, told.is_allowed()) {
                (Source::Store, false) => return,
                (Source::Store, true) => self.by_store += 1,
                (_, allowed) => self.here += u64::from(allowed),
            }
            assert!(start.elapsed() < PATIENCE, "{:?}", self.store.counts());
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

/// The server hangs for three seconds with its data intact. (A bucket of 100 a day gives none back in that time.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_server_costs_nothing() {
    for rule in rules() {
        let server = RedisServer::start();
        let mut desk = Desk::at(&server.url(), rule).await;
        desk.ask_for(Duration::from_millis(100)).await;
        server.pause();
        desk.ask_for(Duration::from_secs(3)).await;
        server.resume();
        desk.until_used_up().await;
        desk.check("hang");
        assert!(desk.here > 0, "the local share has decided something");
    }
}

/// Connections are reset every 0.4 s, with calls under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resets_earn_nothing() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(("127.0.0.1", server.port()));
    let mut desk = Desk::at(&proxy.url(), Rule::token_bucket("r", Quota::per_day(LIMIT))).await;
    for _ in 0..8 {
        desk.ask_for(Duration::from_millis(200)).await;
        proxy.reset();
        desk.ask_for(Duration::from_millis(200)).await;
    }
    desk.until_used_up().await;
    desk.check("reset");
}

/// The reply to a take is lost, then the one to the charge for its local grant: the charge is sent again, and made once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_whose_reply_is_lost_is_made_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(("127.0.0.1", server.port()));
    let desk = Desk::at(&proxy.url(), Rule::fixed_window("r", Quota::per_day(LIMIT))).await;
    let _ = desk.ask(Verb::Take(Take::now(1))).await;
    let (mut granted, mut lost) = (0, 0);
    while lost < 3 {
        let before = desk.store.counts();
        proxy.swallow_next_replies(1);
        let told = desk.ask(Verb::Take(Take::now(1))).await;
        granted += u64::from(told.is_allowed() && told.source == Source::Local);
        proxy.swallow_next_replies(1);
        let start = Instant::now();
        while desk.store.counts().local_charges_sent == before.local_charges_sent && told.source == Source::Local {
            assert!(start.elapsed() < PATIENCE, "{:?}", desk.store.counts());
            let _ = desk.ask(Verb::Peek).await;
        }
        sleep(Duration::from_millis(50)).await;
        lost += u64::from(desk.store.counts().ambiguous_calls >= before.ambiguous_calls + 2);
        proxy.pass();
        proxy.reset();
        let start = Instant::now();
        while desk.ask(Verb::Peek).await.source != Source::Store {
            assert!(start.elapsed() < PATIENCE, "{:?}", desk.store.counts());
            sleep(Duration::from_millis(5)).await;
        }
    }
    let counts = desk.store.counts();
    let used = LIMIT - desk.ask(Verb::Peek).await.remaining();
    // The takes that were carried out with their replies lost, and their grants here, each once.
    assert!(used <= 1 + 2 * granted, "{used} used, {granted} granted here: {counts:?}");
    assert!(used > granted && counts.local_grants_charged == granted, "{used} used: {counts:?}");
}
