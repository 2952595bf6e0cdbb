//! Tells people, once, that the store has stopped answering, and once that it answers again.
//!
//! Decisions go on meanwhile, by each rule's own word, so nothing else would show in the log. Looked at ten times a
//! second; a breaker that opened and closed in between is known by its count. Who is back for less than a second is not
//! back: a server at the edge of its strength would fill the log.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate_core::OnStoreFailure;

use crate::{
    engine::Engine,
    shutdown::Shutdown,
    wiring::{Standing, StoreHealth},
};

/// Looks at the engine's store until the word to stop. One in this process is always there.
pub(crate) async fn watch(engine: Engine, mut shutdown: Shutdown) {
    if engine.store().is_immediate() {
        return;
    }
    let mut outages = Outages::default();
    loop {
        if let Some(news) = outages.on(&engine.store().health(), Instant::now()) {
            tell(&news, &engine);
        }
        tokio::select! {
            () = shutdown.begun() => return,
            () = sleep(EVERY) => {}
        }
    }
}

/// What is known of an outage, if there is one.
#[derive(Debug, Default)]
struct Outages {
    current: Option<Outage>,
    breaker_opened: u64,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    is_partial: bool,
    /// Since when all has been well again.
    well_since: Option<Instant>,
}

/// What is worth a line.
#[derive(Debug, Eq, PartialEq)]
enum News {
    Away { cause: String },
    Partly { cause: String },
    Back { after: Duration },
}

impl Outages {
    fn on(&mut self, health: &StoreHealth, now: Instant) -> Option<News> {
        let was_rested = health.breaker_opened() > self.breaker_opened;
        self.breaker_opened = health.breaker_opened();
        let (cause, is_partial) = match &health.standing {
            Standing::Away(cause) => (cause.clone(), false),
            Standing::Partly(cause) => (cause.clone(), true),
            Standing::Well if was_rested && self.current.is_none() => (A_MOMENT.to_owned(), false),
            Standing::Well => return self.is_well(was_rested, now),
        };
        let outage = self.current.get_or_insert(Outage { since: now, is_partial: true, well_since: None });
        let is_news = outage.since == now || (outage.is_partial && !is_partial);
        outage.is_partial &= is_partial;
        outage.well_since = None;
        let news = if is_partial { News::Partly { cause } } else { News::Away { cause } };
        is_news.then_some(news)
    }

    fn is_well(&mut self, was_rested: bool, now: Instant) -> Option<News> {
        let outage = self.current.as_mut()?;
        if was_rested {
            outage.well_since = None;
        }
        let well_since = *outage.well_since.get_or_insert(now);
        if now.saturating_duration_since(well_since) < SETTLED {
            return None;
        }
        let after = well_since.saturating_duration_since(outage.since);
        self.current = None;
        Some(News::Back { after })
    }
}

fn tell(news: &News, engine: &Engine) {
    match news {
        News::Away { cause } => {
            tracing::warn!(%cause, "the store does not answer; until it does, {}", meanwhile(engine));
        }
        News::Partly { cause } => {
            tracing::warn!(%cause, "a part of the store does not answer; until it does, for keys that are kept there {}", meanwhile(engine));
        }
        News::Back { after } => {
            let seconds = after.as_secs_f64();
            tracing::info!("the store answers again after {seconds:.1} s");
        }
    }
}

/// What rules do without the store.
fn meanwhile(engine: &Engine) -> String {
    if engine.rulebook().switches().everything_off {
        return "nobody is limited, since everything is switched off".to_owned();
    }
    let policies = engine.rulebook().policies();
    let count = |answer: OnStoreFailure| {
        let rules = policies.iter().flat_map(|policy| policy.rules());
        rules.filter(|rule| rule.rule().failure_answer() == answer).count()
    };
    let said = [
        (OnStoreFailure::Local, "by this process's share (`local`)"),
        (OnStoreFailure::Open, "by letting everybody pass (`open`)"),
        (OnStoreFailure::Closed, "by turning everybody away (`closed`)"),
    ];
    let said = said.map(|(answer, what)| (count(answer), what));
    let said: Vec<String> =
        said.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if said.is_empty() { "no rule is in force".to_owned() } else { format!("rules decide: {}", said.join(", ")) }
}

/// What is known of an outage that was over before it was looked at.
const A_MOMENT: &str = "too many calls in a row had no answer in time; it was left alone for a moment";
/// How often the store is looked at.
const EVERY: Duration = Duration::from_millis(100);
/// How long a store has to be well before it is said to be back.
const SETTLED: Duration = Duration::from_secs(1);

#[cfg(test)]
#[path = "outage_tests.rs"]
mod tests;
