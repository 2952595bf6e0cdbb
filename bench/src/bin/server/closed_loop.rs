//! Closed-loop load: callers that send the next request after the response, and the result of a run.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

/// A client that sends the next request when the response is there.
pub(crate) trait Caller: Send + 'static {
    /// Sends one request for this key and awaits the response.
    fn ask(&mut self, key: usize) -> impl Future<Output = ()> + Send;
}

/// Runs all callers for this time.
pub(crate) async fn closed_loop<C: Caller>(callers: Vec<C>, time: Duration) -> RunResult {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for (index, mut caller) in callers.into_iter().enumerate() {
        tasks.spawn(async move {
            let mut latencies = Vec::with_capacity(1 << 16);
            // Every caller starts at a different key.
            let mut key = index * 7_919;
            while began.elapsed() < time {
                let sent = Instant::now();
                caller.ask(key % KEYS).await;
                latencies.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
                key += 104_729;
            }
            latencies
        });
    }
    let mut latencies = Vec::new();
    while let Some(some) = tasks.join_next().await {
        latencies.extend(some.expect("no caller fails"));
    }
    RunResult::new(latencies, began.elapsed())
}

/// The result of one run.
#[derive(Default)]
pub(crate) struct RunResult {
    /// Latencies in microseconds, sorted.
    latencies: Vec<u32>,
    took: Duration,
}

impl RunResult {
    fn new(mut latencies: Vec<u32>, took: Duration) -> Self {
        latencies.sort_unstable();
        Self { latencies, took }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64().max(0.001)
    }

    pub(crate) fn quantile(&self, part: f64) -> u32 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let index = (self.latencies.len() as f64 * part) as usize;
        self.latencies.get(index).copied().unwrap_or(0)
    }

    pub(crate) fn keep_better(&mut self, other: Self) {
        if other.rate() > self.rate() {
            *self = other;
        }
    }
}

/// Number of keys.
pub(crate) const KEYS: usize = 100_000;
