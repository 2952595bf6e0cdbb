//! Latency: round trips, and the run time of the script of one bucket.

use std::time::{Duration, Instant};

use ratekeeper_redis::SampleTake;

use super::{
    Finding,
    discovery::Server,
    permissions::temporary_key,
    probe::{Probe, ProbeError, deadline, text},
};

/// The time of `PING`s, one after another.
pub(super) async fn check_round_trip(probe: &Probe) -> Option<Finding> {
    let mut trips = Vec::new();
    for _ in 0..PINGS {
        let asked = Instant::now();
        match probe.ask(&["PING"]).await {
            // A denied command takes a round trip too.
            Ok(_) | Err(ProbeError::Denied(_)) => trips.push(asked.elapsed()),
            Err(error) => return Some(Finding::fail("round-trip", format!("no answer to PING: {error}"))),
        }
    }
    let Spread { least, median, p99 } = Spread::of(trips);
    let found = format!("{} least, {} median, {} p99 of {PINGS}", millis(least), millis(median), millis(p99));
    Some(match p99 {
        p99 if p99 > LIBRARY_DEADLINE => {
            let found = format!(
                "{found}: the default deadline of a decision is 50 ms, so many would be decided by on_store_failure"
            );
            Finding::warn("round-trip", found).change(
                "use a nearer server, or raise the store's deadline; busy keys need fewer calls with speed: prepaid",
            )
        }
        p99 if p99 > ENVOY_DEADLINE => {
            let found = format!("{found}: Envoy waits 20 ms for its rate limit service");
            Finding::note("round-trip", found).change("use a nearer server, or raise Envoy's timeout")
        }
        _ => Finding::ok("round-trip", found),
    })
}

/// Whether scripts may call `TIME`, and how long a take runs.
pub(super) async fn check_scripts(probe: &Probe, prefix: &str, server: &Server) -> Vec<Finding> {
    // A script without writes runs even if writes are refused.
    let reads_time = "#!lua flags=no-writes\nreturn redis.call('TIME')[1]";
    let scripts = match probe.ask(&["EVAL", reads_time, "0"]).await {
        Ok(_) => Finding::ok("scripts", "scripts may call TIME"),
        Err(error) => {
            let found = format!("a script that calls TIME fails: {error}");
            let change = "use a server whose scripts may call TIME; decisions use the server's clock";
            return vec![Finding::fail("scripts", found).change(change)];
        }
    };
    let key = temporary_key(probe, prefix, server).await;
    let timed = time_takes(probe, &key).await;
    // It expires anyway if this fails.
    let _ = probe.ask(&["DEL", &key]).await;
    match timed {
        Ok(Some(finding)) => vec![scripts, finding],
        Ok(None) => vec![scripts],
        // The finding about writes has the cause.
        Err(ProbeError::NotDone(_)) => vec![scripts],
        Err(error) => vec![
            scripts,
            Finding::fail("script-time", format!("a take was not decided: {error}")).change(
                "look for a proxy between the store and the server, or a managed service that restricts scripts",
            ),
        ],
    }
}

/// The script that a rule of one token bucket runs on every request.
async fn time_takes(probe: &Probe, key: &str) -> Result<Option<Finding>, ProbeError> {
    let Some(sample) = SampleTake::new() else { return Ok(None) };
    for _ in 0..WARM_UP {
        take(probe, &sample, key).await?;
    }
    let before = CommandStats::read(probe).await;
    let mut trips = Vec::new();
    for _ in 0..TAKES {
        let asked = Instant::now();
        take(probe, &sample, key).await?;
        trips.push(asked.elapsed());
    }
    let after = CommandStats::read(probe).await;
    let per_call = before.zip(after).and_then(|(before, after)| after.per_call_since(before));
    Ok(Some(match per_call {
        Some(took) => {
            judge(took, format!("{:.1} µs on the server per take, as INFO commandstats reports", micros(took)))
        }
        None => {
            let Spread { median, p99, .. } = Spread::of(trips);
            let found = format!("{} median, {} p99 per take, round trip included", millis(median), millis(p99));
            let change = "grant +info to the account used for doctor to see the part of the server";
            Finding::note("script-time", found).change(change)
        }
    }))
}

async fn take(probe: &Probe, sample: &SampleTake, key: &str) -> Result<(), ProbeError> {
    probe.run(sample.call(&[key.as_bytes()], deadline())).await.map(drop)
}

fn judge(took: Duration, found: String) -> Finding {
    if took > SLOW_SCRIPT {
        Finding::warn("script-time", format!("{found}: far above the usual 10 to 30 µs"))
            .change("look at the load of the server: SLOWLOG GET, LATENCY DOCTOR; busy keys need fewer calls with speed: prepaid")
    } else {
        Finding::ok("script-time", found)
    }
}

/// The statistics of `EVALSHA` in `INFO commandstats`.
#[derive(Clone, Copy)]
struct CommandStats {
    calls: u64,
    micros: u64,
}

impl CommandStats {
    async fn read(probe: &Probe) -> Option<Self> {
        let answer = probe.ask(&["INFO", "commandstats"]).await.ok()?;
        let info = text(&answer)?;
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"))?;
        let field = |name: &str| line.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        Some(Self { calls: field("calls")?.parse().ok()?, micros: field("usec")?.parse().ok()? })
    }

    /// The mean time of the calls since `before`, those of other clients included.
    fn per_call_since(self, before: Self) -> Option<Duration> {
        let calls = self.calls.checked_sub(before.calls).filter(|calls| *calls > 0)?;
        Some(Duration::from_nanos(self.micros.checked_sub(before.micros)?.saturating_mul(1_000) / calls))
    }
}

/// Percentiles of round trips.
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
/// The first call loads the script, and the next ones run on cold caches.
const WARM_UP: usize = 10;
/// The default deadline of a decision.
const LIBRARY_DEADLINE: Duration = Duration::from_millis(50);
/// The part of Envoy's 20 ms that is left for the store.
const ENVOY_DEADLINE: Duration = Duration::from_millis(12);
const SLOW_SCRIPT: Duration = Duration::from_micros(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_percentiles() {
        let spread = Spread::of((1..=200).rev().map(Duration::from_micros).collect());
        let micros = [spread.least, spread.median, spread.p99].map(|span| span.as_micros());
        assert_eq!(micros, [1, 100, 198]);
        assert_eq!(Spread::of(Vec::new()).p99, Duration::ZERO);
    }
}
