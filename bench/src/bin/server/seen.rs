//! A closed loop of callers, and what a run of it has seen: how many answers, in which time, how late each.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

/// Somebody who asks, and asks again when the answer is there.
pub(crate) trait Caller: Send + 'static {
    /// One question about this key, answered.
    fn ask(&mut self, key: usize) -> impl Future<Output = ()> + Send;
}

/// Lets them all ask for so long.
pub(crate) async fn closed_loop<C: Caller>(callers: Vec<C>, time: Duration) -> Seen {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for (place, mut caller) in callers.into_iter().enumerate() {
        tasks.spawn(async move {
            let mut late = Vec::with_capacity(1 << 16);
            // Every caller walks over the keys in strides of its own.
            let mut key = place * 7_919;
            while began.elapsed() < time {
                let sent = Instant::now();
                caller.ask(key % KEYS).await;
                late.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
                key += 104_729;
            }
            late
        });
    }
    let mut late = Vec::new();
    while let Some(some) = tasks.join_next().await {
        late.extend(some.expect("no caller fails"));
    }
    Seen::new(late, began.elapsed())
}

/// The outcome of one run.
#[derive(Default)]
pub(crate) struct Seen {
    /// Microseconds of every answer; sorted when the run is over.
    late: Vec<u32>,
    took: Duration,
}

impl Seen {
    fn new(mut late: Vec<u32>, took: Duration) -> Self {
        late.sort_unstable();
        Self { late, took }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.late.len() as f64 / self.took.as_secs_f64().max(0.001)
    }

    pub(crate) fn quantile(&self, part: f64) -> u32 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
        let place = (self.late.len() as f64 * part) as usize;
        self.late.get(place).copied().unwrap_or(0)
    }

    pub(crate) fn keep_better(&mut self, other: Self) {
        if other.rate() > self.rate() {
            *self = other;
        }
    }
}

/// Keys that are asked about.
pub(crate) const KEYS: usize = 100_000;
