//! Several tasks that keep asking for several keys, and write down every answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{task::JoinHandle, time::sleep};
use tollgate_core::{Align, Ask, Carry, Micros, Policy, Quota, Rule, Source, Store, Take, Verb};
use tollgate_redis::{RedisConfig, RedisPolicy, RedisStore};

use crate::{
    PATIENCE,
    checker::{BURST, Books, Call, Clocks, DEAREST, Loss, Outcome, RATE, Told},
};

/// Traffic on its way.
pub(crate) struct Traffic {
    name: &'static str,
    pub(crate) asker: Asker,
    losses: Vec<Loss>,
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

/// A store, and the rules and keys it is asked about.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) store: RedisStore,
    pub(crate) policy: RedisPolicy,
}

#[derive(Default)]
struct Shared {
    requests: AtomicU64,
    calls: std::sync::Mutex<Vec<Call>>,
    is_over: AtomicBool,
}

/// One rule that bites, and one that only counts: what it has counted can be read back.
pub(crate) fn rules() -> Policy {
    let rate = Rule::token_bucket("rate", Quota::per_second(RATE).burst(BURST));
    let ledger = Rule::fixed_window("ledger", Quota::per_day(LEDGER)).align(Align::FirstRequest);
    Policy::new("faults", [rate, ledger]).unwrap()
}

/// With more time for everything than a busy machine needs: for faults that no caller should notice.
pub(crate) fn patient() -> RedisConfig {
    RedisConfig::default().deadline(PATIENCE)
}

pub(crate) fn key_name(key: usize) -> String {
    format!("key-{key}")
}

impl Asker {
    pub(crate) async fn connect(url: &str, config: RedisConfig) -> Self {
        let store = RedisStore::connect_with(url, config).await.unwrap();
        let policy = store.install(rules(), Carry::Keep).unwrap();
        Self { store, policy }
    }

    pub(crate) async fn take(&self, key: usize, cost: u64) -> Call {
        let name = key_name(key);
        let invoked = Instant::now();
        let ask = Ask::new(&self.policy, &name);
        let answer = self.store.decide(&[ask], Verb::Take(Take::now(cost))).await;
        let completed = Instant::now();
        let outcome = match answer {
            Err(_) => Outcome::Failed,
            Ok(decision) => {
                let told = Told { source: decision.source, at: decision.decided_at };
                if decision.is_allowed() { Outcome::Allowed(told) } else { Outcome::Denied(told) }
            }
        };
        Call { key, cost, invoked, completed, outcome }
    }

    /// What the store itself says has been used of this key.
    pub(crate) async fn used(&self, key: usize) -> Option<u64> {
        let name = key_name(key);
        let decision = self.store.decide(&[Ask::new(&self.policy, &name)], Verb::Peek).await.ok()?;
        (decision.source == Source::Store).then(|| LEDGER - decision.rules[1].remaining)
    }

    /// Asks until the store answers itself.
    pub(crate) async fn until_used(&self, key: usize) -> u64 {
        let start = Instant::now();
        loop {
            if let Some(used) = self.used(key).await {
                return used;
            }
            assert!(start.elapsed() < PATIENCE, "the store does not come back: {:?}", self.store.counts());
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Traffic {
    pub(crate) async fn start(name: &'static str, url: &str, config: RedisConfig) -> Self {
        let asker = Asker::connect(url, config).await;
        let shared = Arc::new(Shared::default());
        let tasks = (0..TASKS).map(|task| tokio::spawn(ask_on(asker.clone(), Arc::clone(&shared), task)));
        let tasks = tasks.collect();
        Self { name, asker, losses: Vec::new(), shared, tasks }
    }

    /// Lets so many more calls happen.
    pub(crate) async fn calls(&self, count: u64) {
        let enough = self.done() + count;
        let start = Instant::now();
        while self.done() < enough {
            assert!(start.elapsed() < PATIENCE + Duration::from_millis(count), "calls do not come to an end");
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Lets calls happen for so long.
    pub(crate) async fn calls_for(&self, span: Duration) {
        let start = Instant::now();
        while start.elapsed() < span {
            self.calls(1).await;
        }
    }

    /// The store has just forgotten these keys. Said while it is down, so that every admission is before or after.
    pub(crate) fn lost(&mut self, keys: impl IntoIterator<Item = usize>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        self.losses.push(Loss { at: Micros::from_duration(now), keys: keys.into_iter().collect() });
    }

    /// Waits until the store decides everything again, and says how long that took.
    pub(crate) async fn until_exact(&self, within: Duration) -> Duration {
        let start = Instant::now();
        loop {
            let since = |calls: &[Call]| {
                let recent = calls.iter().rev().take(4 * TASKS).take_while(|call| call.invoked >= start);
                let exact = recent.take_while(|call| call.is_from(Source::Store));
                let exact: Vec<&Call> = exact.collect();
                (exact.len() == 4 * TASKS).then(|| exact[exact.len() - 1].completed)
            };
            if let Some(first) = since(&self.shared.calls.lock().unwrap()) {
                let took = first - start;
                assert!(took <= within, "{}: exact again only after {took:?}", self.name);
                println!("{}: exact again after {took:?}", self.name);
                return took;
            }
            assert!(start.elapsed() < within + PATIENCE, "{}: {:?}", self.name, self.asker.store.counts());
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// The calls so far.
    pub(crate) fn so_far(&self) -> Vec<Call> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// Stops asking, and closes the books with what the store says has been used.
    pub(crate) async fn finish(self) -> Books {
        self.shared.is_over.store(true, Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        // Before more is asked: the questions that follow are not in the books.
        let counts = self.asker.store.counts();
        let mut used = Vec::new();
        for key in 0..KEYS {
            used.push(self.asker.until_used(key).await);
        }
        let (requests, calls) = (self.shared.requests.load(Relaxed), self.shared.calls.lock().unwrap().clone());
        Books { name: self.name, clock: Clocks::now(), requests, calls, losses: self.losses, counts, used }
    }

    fn done(&self) -> u64 {
        self.shared.calls.lock().unwrap().len() as u64
    }
}

async fn ask_on(asker: Asker, shared: Arc<Shared>, task: usize) {
    for turn in task.. {
        if shared.is_over.load(Relaxed) {
            return;
        }
        shared.requests.fetch_add(1, Relaxed);
        let call = asker.take(turn % KEYS, 1 + turn as u64 % DEAREST).await;
        shared.calls.lock().unwrap().push(call);
        sleep(BETWEEN_CALLS).await;
    }
}

pub(crate) const KEYS: usize = 5;
const TASKS: usize = 8;
/// Leaves the machine room to breathe, and still asks for several times what the rules let through.
const BETWEEN_CALLS: Duration = Duration::from_millis(1);
const LEDGER: u64 = 1_000_000_000;
