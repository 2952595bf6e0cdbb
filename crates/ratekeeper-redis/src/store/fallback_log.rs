//! Fallback log: one INFO when decisions without the store begin, one when they end.
//!
//! An episode begins with the first decision by `on_store_failure` and ends with the first decision of the store at least
//! [`SETTLED`] after the last one without it. Occasional slow calls are therefore not one line each; and episodes that
//! begin within ten seconds of the last logged one are counted, not logged.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    events::{EventLimit, TARGET},
    policies::FailureAnswers,
};

/// The current episode of decisions without the store.
#[derive(Debug, Default)]
pub(super) struct FallbackLog {
    /// Checked by every decision of the store, without a lock.
    is_active: AtomicBool,
    episode: Mutex<Option<Episode>>,
    limit: EventLimit,
}

#[derive(Debug)]
struct Episode {
    since: Instant,
    last: Instant,
    decisions: u64,
    is_logged: bool,
}

impl FallbackLog {
    /// Records a decision without the store.
    pub(super) fn decided_without_store(&self, cause: &str, answers: impl FnOnce() -> FailureAnswers, now: Instant) {
        let mut episode = self.episode.lock();
        if let Some(episode) = &mut *episode {
            (episode.last, episode.decisions) = (now, episode.decisions + 1);
            return;
        }
        let episodes = self.limit.admit(now);
        *episode = Some(Episode { since: now, last: now, decisions: 1, is_logged: episodes.is_some() });
        self.is_active.store(true, Relaxed);
        drop(episode);
        if let Some(episodes) = episodes {
            let FailureAnswers { local, open, closed } = answers();
            tracing::info!(
                target: TARGET, cause, episodes, local_rules = local, open_rules = open, closed_rules = closed,
                "fallback begins: rules decide by `on_store_failure`"
            );
        }
    }

    /// Records a decision of the store, which ends an episode that has settled.
    pub(super) fn decided_by_store(&self) {
        if self.is_active.load(Relaxed) {
            self.end_if_settled(Instant::now());
        }
    }

    fn end_if_settled(&self, now: Instant) {
        let ended = self.episode.lock().take_if(|episode| now.saturating_duration_since(episode.last) >= SETTLED);
        let Some(Episode { since, last, decisions, is_logged }) = ended else { return };
        self.is_active.store(false, Relaxed);
        if is_logged {
            let seconds = last.saturating_duration_since(since).as_secs_f64();
            tracing::info!(target: TARGET, decisions, "fallback ends after {seconds:.1} s: the store decides again");
        }
    }
}

/// Time without a fallback decision after which the episode is over.
const SETTLED: Duration = Duration::from_secs(1);
