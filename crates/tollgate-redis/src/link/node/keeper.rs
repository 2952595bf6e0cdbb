//! Keeps a node's connection up: dials, one dial at a time; asks a sick server how it is; replaces what does not answer.

use super::*;
use crate::link::dial;

/// Runs until the node is dropped.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut backoff = Backoff::new(&shared.common.settings, Random::new());
    let mut had_one = false;
    loop {
        let pause = backoff.pause();
        shared.announce_pause(pause);
        tokio::time::sleep(pause).await;
        match shared.dial().await {
            Ok(greeted) => {
                if std::mem::replace(&mut had_one, true) {
                    shared.common.counters.reconnects.add_one();
                }
                let wire = shared.take_up(greeted);
                let since = wire.since;
                attend(&shared, wire).await;
                shared.hang_up();
                backoff.lost(since, Instant::now());
            }
            Err(error) => {
                shared.common.counters.dials_failed.add_one();
                shared.line.send_replace(Line::Down(error));
            }
        }
        shared.common.trouble.notify_one();
    }
}

/// Watches over a connection until it is lost, given up by a caller, or found to be of no use (any more).
async fn attend(shared: &Shared, wire: Arc<Wire>) {
    let mut failures = 0;
    let mut deposed = std::pin::pin!(shared.deposed(&wire.place));
    loop {
        let next = shared.next_probe(failures > 0);
        tokio::select! {
            () = wire.closed() => return,
            () = &mut deposed => return,
            () = shared.wake.notified() => {}
            () = tokio::time::sleep_until(next.into()) => failures = shared.probe(&wire).await.map_or(failures + 1, |()| 0),
        }
        // A half-open connection never answers again, however well the server is. Where callers have failed, one more
        // failure is enough; where nobody calls, it may have been chance.
        let enough = if shared.health.lock().breaker.is_closed() { 2 } else { 1 };
        if failures >= enough || !shared.is_on(&wire) {
            return;
        }
    }
}

impl Shared {
    /// Nobody waits for a dial that has not even begun.
    fn announce_pause(&self, pause: Duration) {
        self.line.send_if_modified(|line| {
            let is_news = !pause.is_zero() && matches!(line, Line::Dialing);
            if is_news {
                *line = Line::Down(DialError::unreachable("the connection was lost as soon as it was there"));
            }
            is_news
        });
    }

    fn take_up(&self, greeted: Greeted) -> Arc<Wire> {
        let wire = Arc::new(greeted.wire);
        if let Some(told) = greeted.time {
            self.health.lock().clock.hear(told.server, told.asked, told.answered);
        }
        // Whoever greets us is well: the first of the good answers that close a breaker.
        self.judge(Event::Probed);
        self.line.send_replace(Line::Up(wire.clone()));
        wire
    }

    fn is_on(&self, wire: &Arc<Wire>) -> bool {
        matches!(&*self.line.borrow(), Line::Up(current) if Arc::ptr_eq(current, wire))
    }

    /// Soon for a node that is sick or did not answer the last time; else once it has been silent for a pulse.
    fn next_probe(&self, in_doubt: bool) -> Instant {
        let (now, settings) = (Instant::now(), &self.common.settings);
        let health = self.health.lock();
        match (health.breaker.probe_at(now), health.heard) {
            (Some(at), _) => at,
            (None, Some(heard)) if !in_doubt => heard + settings.pulse,
            (None, _) => now + settings.breaker.probe_min,
        }
    }

    /// Asks the server how it is, unless callers have heard from it meanwhile.
    async fn probe(&self, wire: &Wire) -> Result<(), ()> {
        let now = Instant::now();
        {
            let health = self.health.lock();
            let is_fresh = health.heard.is_some_and(|heard| heard + self.common.settings.pulse > now);
            if is_fresh && health.breaker.is_closed() {
                return Ok(());
            }
        }
        // A sick node is well again when it answers in the time that callers have. One that was well is given longer: its
        // connection is closed if it does not answer, and the delay may be this process's own.
        let deadline = self.common.settings.deadline;
        let is_well = self.health.lock().breaker.is_closed();
        let patience = if is_well { deadline.max(PULSE_PATIENCE) } else { deadline };
        match timeout_at((now + patience).into(), dial::probe(wire)).await {
            Ok(Ok(told)) => {
                if let Some(told) = told {
                    self.health.lock().clock.hear(told.server, told.asked, told.answered);
                }
                self.judge(Event::Probed);
                Ok(())
            }
            Ok(Err(_)) | Err(_) => {
                self.judge(Event::ProbeFailed);
                Err(())
            }
        }
    }
}

/// How long a node that was well may take to answer a pulse.
const PULSE_PATIENCE: Duration = Duration::from_millis(100);
