//! Traffic generator: tasks that take from several keys and record every call.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use ratekeeper_core::{Align, Ask, OnQuotaChange, Policy, Quota, Rule, Source, Store, Take, Verb};
use ratekeeper_redis::{RedisConfig, RedisPolicy, RedisStore};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    TIMEOUT,
    checker::{BURST, Books, Call, Clocks, DEAREST, Loss, Outcome, RATE, Report},
};

/// The running traffic of one test.
pub(crate) struct Traffic {
    name: &'static str,
    pub(crate) asker: Asker,
    losses: Vec<Loss>,
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

/// A store and the installed policy of a run.
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

/// Two rules: `rate` limits, and `ledger` only counts. A peek reads the charged permits from `ledger`.
pub(crate) fn rules() -> Policy {
    let rate = Rule::token_bucket("rate", Quota::per_second(RATE).burst(BURST));
    let ledger = Rule::fixed_window_aligned("ledger", Quota::per_day(LEDGER), Align::FirstRequest);
    Policy::new("faults", [rate, ledger]).unwrap()
}

/// A configuration with a long deadline, for faults that clients should not notice.
pub(crate) fn patient() -> RedisConfig {
    RedisConfig::default().deadline(TIMEOUT)
}

pub(crate) fn key_name(key: usize) -> String {
    format!("key-{key}")
}

impl Asker {
    pub(crate) async fn connect(url: &str, config: RedisConfig) -> Self {
        let store = RedisStore::connect_with(url, config).await.unwrap();
        let policy = store.install(rules(), OnQuotaChange::Keep).unwrap();
        Self { store, policy }
    }

    pub(crate) async fn take(&self, key: usize, cost: u64) -> Call {
        let name = key_name(key);
        let invoked = Instant::now();
        let ask = Ask::new(&self.policy, &name).cost(cost);
        let answer = self.store.decide(&[ask], Verb::Take(Take::now())).await;
        let completed = Instant::now();
        let outcome = match answer {
            Err(_) => Outcome::Failed,
            Ok(decision) => {
                let report = Report { source: decision.source, at: decision.decided_at };
                if decision.is_allowed() { Outcome::Allowed(report) } else { Outcome::Denied(report) }
            }
        };
        Call { key, cost, invoked, completed, outcome }
    }

    /// Permits of this key that the store has charged; `None` if another source decides.
    pub(crate) async fn used(&self, key: usize) -> Option<u64> {
        let name = key_name(key);
        let decision = self.store.decide(&[Ask::new(&self.policy, &name)], Verb::Peek).await.ok()?;
        (decision.source == Source::Store).then(|| LEDGER - decision.rules[1].remaining)
    }

    /// The same, repeated until the store decides.
    pub(crate) async fn until_used(&self, key: usize) -> u64 {
        let start = Instant::now();
        loop {
            if let Some(used) = self.used(key).await {
                return used;
            }
            assert!(start.elapsed() < TIMEOUT, "no decision by the store: {:?}", self.store.counts());
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

    /// Waits for `count` more calls.
    pub(crate) async fn calls(&self, count: u64) {
        let enough = self.done() + count;
        let start = Instant::now();
        while self.done() < enough {
            assert!(start.elapsed() < TIMEOUT + Duration::from_millis(count), "calls do not complete");
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits for calls until `span` has passed.
    pub(crate) async fn calls_for(&self, span: Duration) {
        let start = Instant::now();
        while start.elapsed() < span {
            self.calls(1).await;
        }
    }

    /// Records that the store has lost these keys. Called while the server is down, so that every admission is before
    /// or after the loss.
    pub(crate) fn lost(&mut self, keys: impl IntoIterator<Item = usize>) {
        self.losses.push(Loss { at: SystemTime::now().into(), keys: keys.into_iter().collect() });
    }

    /// Waits until the store decides all calls again; returns the time.
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
            assert!(start.elapsed() < within + TIMEOUT, "{}: {:?}", self.name, self.asker.store.counts());
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until no local grant is uncharged.
    pub(crate) async fn until_charged(&self) {
        let start = Instant::now();
        while self.asker.store.counts().local_keys_owing > 0 {
            assert!(start.elapsed() < TIMEOUT, "{}: {:?}", self.name, self.asker.store.counts());
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// The calls so far.
    pub(crate) fn so_far(&self) -> Vec<Call> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// Ends the traffic and reads the charged permits from the store.
    pub(crate) async fn finish(self) -> Books {
        self.shared.is_over.store(true, Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        // Read before the peeks below, which are not in the record.
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
/// Short enough for several times the rate of the rules, long enough not to saturate the machine.
const BETWEEN_CALLS: Duration = Duration::from_millis(1);
const LEDGER: u64 = 1_000_000_000;
