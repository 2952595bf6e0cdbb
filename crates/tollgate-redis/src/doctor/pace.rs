//! How long things take: a round trip, and the script that decides about one bucket.

use std::time::{Duration, Instant};

use tollgate_core::{Carry, LeaseId, Micros, Policy, Quota, Rule, Take};

use super::{
    Finding,
    places::Server,
    rights::throw_away_key,
    visit::{Trouble, Visit, deadline, text},
};
use crate::{
    key::Together,
    link::Call,
    policies::{Policies, Version},
    request,
};

/// Half a hundred `PING`s, one after another.
pub(super) async fn check_round_trip(visit: &Visit) -> Option<Finding> {
    let mut trips = Vec::new();
    for _ in 0..PINGS {
        let asked = Instant::now();
        match visit.ask(&["PING"]).await {
            // A refusal has travelled as far as an answer.
            Ok(_) | Err(Trouble::Denied(_)) => trips.push(asked.elapsed()),
            Err(trouble) => return Some(Finding::fail("round-trip", format!("no answer to PING: {trouble}"))),
        }
    }
    let Spread { least, median, p99 } = Spread::of(trips);
    let found = format!("{} least, {} median, {} p99 of {PINGS}", millis(least), millis(median), millis(p99));
    Some(match p99 {
        p99 if p99 > LIBRARY_DEADLINE => {
            let found =
                format!("{found}: a decision gets 50 ms unless told otherwise, so many would go by on_store_failure");
            Finding::warn("round-trip", found).change("use a server closer by, or raise the store's deadline")
        }
        p99 if p99 > ENVOY_DEADLINE => {
            let found = format!("{found}: Envoy waits 20 ms for its limiter");
            Finding::note("round-trip", found).change("use a server closer by, or raise Envoy's timeout")
        }
        _ => Finding::ok("round-trip", found),
    })
}

/// Whether scripts may ask for the time, and how long ours take.
pub(super) async fn check_scripts(visit: &Visit, prefix: &str, server: &Server) -> Vec<Finding> {
    // One that writes nothing runs even where writes are refused.
    let asks_time = "#!lua flags=no-writes\nreturn redis.call('TIME')[1]";
    let scripts = match visit.ask(&["EVAL", asks_time, "0"]).await {
        Ok(_) => Finding::ok("scripts", "scripts may ask for the time"),
        Err(trouble) => {
            let found = format!("a script that asks for the time fails: {trouble}");
            let change = "use a server whose scripts may call TIME; decisions go by the server's clock";
            return vec![Finding::fail("scripts", found).change(change)];
        }
    };
    let key = throw_away_key(visit, prefix, server).await;
    let timed = time_takes(visit, &key).await;
    // It would be gone by itself within a second.
    let _ = visit.ask(&["DEL", &key]).await;
    match timed {
        Ok(Some(finding)) => vec![scripts, finding],
        Ok(None) => vec![scripts],
        // What was found about writes says it better.
        Err(Trouble::NotDone(_)) => vec![scripts],
        Err(trouble) => vec![
            scripts,
            Finding::fail("script-time", format!("a take was not decided: {trouble}")).change(
                "see what stands between the store and the server: a proxy, or a service with rules of its own",
            ),
        ],
    }
}

/// The script that a rule of one token bucket runs on every request.
async fn time_takes(visit: &Visit, key: &str) -> Result<Option<Finding>, Trouble> {
    let Ok(policy) = Policy::new("doctor", [Rule::token_bucket("doctor", Quota::per_second(1_000))]) else {
        return Ok(None);
    };
    let policy = Policies::default().install(policy, Carry::Keep, "", Together::ByKey, 1).current();
    for _ in 0..WARM_UP {
        take(visit, &policy, key).await?;
    }
    let before = Booked::read(visit).await;
    let mut trips = Vec::new();
    for _ in 0..TAKES {
        let asked = Instant::now();
        take(visit, &policy, key).await?;
        trips.push(asked.elapsed());
    }
    let after = Booked::read(visit).await;
    let booked = before.zip(after).and_then(|(before, after)| after.per_call_since(before));
    Ok(Some(match booked {
        Some(took) => judge(took, format!("{:.1} µs on the server per take, by its own books", micros(took))),
        None => {
            let Spread { median, p99, .. } = Spread::of(trips);
            let found = format!("{} median, {} p99 per take, round trip included", millis(median), millis(p99));
            let change = "grant +info to the account used for doctor to see the server's share of it";
            Finding::note("script-time", found).change(change)
        }
    }))
}

async fn take(visit: &Visit, policy: &Version, key: &str) -> Result<(), Trouble> {
    let scripts = &policy.scripts;
    let take = Take { cost: 1, max_wait: Micros::ZERO, whole_wait: false, lease: LeaseId(0) };
    let args = vec![request::take(&scripts.shape, &[policy.tagged()], &take)];
    let call = Call { script: &scripts.take, keys: &[key.as_bytes()], args, deadline: deadline() };
    visit.run(call).await.map(drop)
}

fn judge(took: Duration, found: String) -> Finding {
    if took > SLOW_SCRIPT {
        Finding::warn("script-time", format!("{found}: far slower than the 10 to 30 µs that are usual"))
            .change("see what else the server does: SLOWLOG GET, LATENCY DOCTOR, its load")
    } else {
        Finding::ok("script-time", found)
    }
}

/// What the server has booked for `EVALSHA` so far.
#[derive(Clone, Copy)]
struct Booked {
    calls: u64,
    micros: u64,
}

impl Booked {
    async fn read(visit: &Visit) -> Option<Self> {
        let answer = visit.ask(&["INFO", "commandstats"]).await.ok()?;
        let info = text(&answer)?;
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"))?;
        let field = |name: &str| line.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        Some(Self { calls: field("calls")?.parse().ok()?, micros: field("usec")?.parse().ok()? })
    }

    /// Whatever others ran meanwhile is in it, too; on a server kept for limits that is the same script.
    fn per_call_since(self, before: Self) -> Option<Duration> {
        let calls = self.calls.checked_sub(before.calls).filter(|calls| *calls > 0)?;
        Some(Duration::from_nanos(self.micros.checked_sub(before.micros)?.saturating_mul(1_000) / calls))
    }
}

struct Spread {
    least: Duration,
    median: Duration,
    p99: Duration,
}

impl Spread {
    fn of(mut spans: Vec<Duration>) -> Self {
        spans.sort_unstable();
        let at = |percent: usize| {
            spans.get((spans.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
        };
        Self { least: at(0), median: at(50), p99: at(99) }
    }
}

fn millis(span: Duration) -> String {
    format!("{:.2} ms", span.as_secs_f64() * 1e3)
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

const PINGS: usize = 50;
const TAKES: usize = 200;
/// The first is compiled, the next find cold caches.
const WARM_UP: usize = 10;
/// What a decision gets unless told otherwise.
const LIBRARY_DEADLINE: Duration = Duration::from_millis(50);
/// What is left of Envoy's 20 ms for a limiter behind it.
const ENVOY_DEADLINE: Duration = Duration::from_millis(12);
const SLOW_SCRIPT: Duration = Duration::from_micros(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_told_by_ranks() {
        let spread = Spread::of((1..=200).rev().map(Duration::from_micros).collect());
        let told = [spread.least, spread.median, spread.p99].map(|span| span.as_micros());
        assert_eq!(told, [1, 100, 198]);
        assert_eq!(Spread::of(Vec::new()).p99, Duration::ZERO);
    }
}
